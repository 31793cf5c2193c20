"""`python -m tests.mutants`: seeds mutants, runs the tests nearest to each, and lists those that nothing noticed.

Exit status 1 where a mutant survives that `equivalent.toml` does not name, or where that file names one that is no more
or that a test kills; 2 where the tests fail without a mutant.
"""

import argparse
import json
import signal
import sys
import textwrap
import tomllib
from collections.abc import Mapping
from pathlib import Path

from tests.mutants.candidates import Key, Mutant, candidates, choose
from tests.mutants.places import NEAREST
from tests.mutants.running import changed, copied, import_heavy, run_tests, seconds_of

PROJECT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
PATIENCE = 60.0
"""Seconds that the tests of a mutant may take beside three times what they take without one; then it is a loop."""


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--count", type=int, default=60, help="how many mutants (60)")
    parser.add_argument("--seed", type=int, default=0, help="another number chooses others (0)")
    parser.add_argument(
        "--only", nargs="+", default=[""], help="of these, those in files whose path holds a word"
    )
    parser.add_argument("--list", action="store_true", help="lists the mutants and runs nothing")
    given = parser.parse_args()
    found = [mutant for file in NEAREST for mutant in candidates(PROJECT, file)]
    chosen = [m for m in choose(found, given.count, given.seed) if any(word in m.file for word in given.only)]
    if given.list:
        print(*map(described, chosen), sep="\n")
        return
    reasons = read_reasons(EQUIVALENT)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the copy goes
    import_heavy()
    status = judge(PROJECT, NEAREST, chosen, reasons)
    gone = reasons.keys() - {mutant.key for mutant in found}
    for key in sorted(gone):
        print(f"{EQUIVALENT.name} names a mutant that is no more: {key.file} {key.function}: {key.change}")
    sys.exit(status or int(bool(gone)))


def judge(
    project: Path, places: Mapping[str, tuple[str, ...]], chosen: list[Mutant], reasons: Mapping[Key, str]
) -> int:
    """Runs the tests of each mutant, prints what became of it and what there is to do; returns the exit status."""
    survivors, killed = [], []
    with copied(project) as copy:
        tests = list(dict.fromkeys(test for mutant in chosen for test in places[mutant.file]))
        print(f"{len(chosen)} mutants; first their tests without any ...", flush=True)
        whole = run_tests(copy, tests, limit=3600, compiled=True)
        if not whole.passed:
            print(f"the tests fail without a mutant: {whole.failure}")
            return 2
        usual = {mutant.file: seconds_of(copy, places[mutant.file]) for mutant in chosen}
        for number, mutant in enumerate(chosen, 1):
            with changed(copy / mutant.file, mutant.text):
                outcome = run_tests(copy, places[mutant.file], PATIENCE + 3 * usual[mutant.file])
            if outcome.passed:
                fate = "equivalent" if mutant.key in reasons else "SURVIVED"
                survivors += [mutant] if mutant.key not in reasons else []
            else:
                fate = f"killed by {outcome.failure}"
                killed += [mutant] if mutant.key in reasons else []
            print(
                f"{number:3} {outcome.seconds:5.1f} s  {described(mutant)}",
                f"\n             {fate}",
                flush=True,
            )
    print(f"\n{len(chosen)} mutants, {len(survivors)} survived" + (":" if survivors else ""))
    for mutant in survivors:
        print(f"\n{entry(mutant.key)}")
    if survivors:
        print(
            f"\nwrite a test that kills it; if none can, put the above into {EQUIVALENT.name} with the reason"
        )
    for mutant in killed:
        print(f"{EQUIVALENT.name} names a mutant that a test kills: {described(mutant)}")
    return int(bool(survivors or killed))


def read_reasons(file: Path) -> dict[Key, str]:
    """Why each mutant that the file names is equivalent; raises ValueError for one without a reason."""
    reasons = {}
    for named in tomllib.loads(file.read_text()).get("equivalent", []):
        reason = named.pop("reason", "")
        if not reason:
            raise ValueError(f"{file}: no reason is given for {named}")
        reasons[Key(**named)] = reason
    return reasons


def entry(key: Key) -> str:
    """What names a mutant in `equivalent.toml`, but for the reason."""
    values = {name: value for name, value in key._asdict().items() if (name, value) != ("number", 1)}
    return "\n".join(["[[equivalent]]", *(f"{name} = {json.dumps(value)}" for name, value in values.items())])


def described(mutant: Mutant) -> str:
    """Where it is, and what is changed."""
    change = " -> ".join(textwrap.shorten(side, 60) for side in mutant.change.split(" -> "))
    return f"{mutant.file}:{mutant.row} {mutant.function}: {change}"


if __name__ == "__main__":
    main()
