"""What the house measures: lines of its folders, what the default run enters, and names that are asked for by string.

python -m tests.house.budget           prints the measures beside tests/house/budget.toml
python -m tests.house.budget --check   fails where one is above it, and says by how much
python -m tests.house.budget --write   writes the measures into that file
"""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.conftest import ROOT, write_text

FILE = Path(__file__).with_name("budget.toml")
SMALL = (
    "data=files", "data.vocab_size=300", "model=bert_tiny", "trainer.max_steps=3",
    "trainer.precision=32-true",  # `auto` tries steps where a processor has units for bf16
)  # fmt: skip
PRODUCT = ("conf", "hydra_plugins", "runner", "tiryns")

Measures = dict[str, dict[str, int]]


def sources(*tops: str) -> list[Path]:
    """The Python files of some folders of the checkout, relative to it, without links."""
    found = (path for top in tops for path in sorted((ROOT / top).rglob("*.py")))
    return [path.relative_to(ROOT) for path in found if path.resolve() == path]


def folder_of(path: Path) -> str:
    """The row of a file: `runner/data`, `tests/cli`, or the top folder alone."""
    top, *inside = path.parts
    return f"{top}/{inside[0]}" if top in ("runner", "tests") and len(inside) > 1 else top


def lines_of(*tops: str) -> dict[str, int]:
    """Lines of Python by folder."""
    counted = Counter[str]()
    for path in sources(*tops):
        counted[folder_of(path)] += (ROOT / path).read_text().count("\n")
    return dict(sorted(counted.items()))


@cache
def trees() -> dict[Path, ast.Module]:
    """The syntax tree of each file of the product."""
    return {path: ast.parse((ROOT / path).read_text()) for path in sources(*PRODUCT)}


def asked_by_string() -> set[str]:
    """Names that the product defines and asks for by `getattr` or `hasattr` with a string."""
    asked, defined = set[str](), set[str]()
    for node in (node for tree in trees().values() for node in ast.walk(tree)):
        match node:
            case ast.Call(ast.Name("getattr" | "hasattr"), [_, ast.Constant(str(name)), *_]):
                asked.add(name)
            case ast.FunctionDef(name) | ast.ClassDef(name):
                defined.add(name)
            case ast.Attribute(ast.Name("self"), name, ast.Store()) | ast.AnnAssign(ast.Name(name)):
                defined.add(name)
    return {name for name in asked & defined if not name.startswith("__")}


VAGUE = re.compile(
    r"_*([a-z]+ed|chosen|done|drawn|found|given|held|kept|known|left|made|ours?|own|shown|some|theirs?|told|what|written)"
    r"(_(again|at|by|from|here|in|now|of|on|out|so|to|up|with).*)?"
)
"""Names that are a participle or a pronoun, where a noun or a verb of the field would say what the thing is."""
NOUNS = {"embed", "feed", "need", "seed", "speed"}


def is_vague(name: str) -> bool:
    """Whether a name is a participle or a pronoun that no noun follows."""
    match = VAGUE.fullmatch(name)
    return match is not None and match[1] not in NOUNS


def names() -> dict[str, int]:
    """How often the product says `Any`, asks for its own names by string and names things vaguely; fields of options."""
    said = sum(len(re.findall(r"\bAny\b", (ROOT / path).read_text())) for path in sources(*PRODUCT))
    options = (ast.parse((ROOT / path).read_text()) for path in sources("conf"))
    classes = (node for tree in options for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    nodes = [node for tree in trees().values() for node in ast.walk(tree)]
    functions = [node.name for node in nodes if isinstance(node, ast.FunctionDef)]
    variables = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return {
        "Any": said,
        "asked by string": len(asked_by_string()),
        "vague functions": sum(map(is_vague, functions)),
        "vague variables": sum(map(is_vague, variables)),
        "settings": sum(isinstance(line, ast.AnnAssign) for node in classes for line in node.body),
    }


TRACED = """
import json, os, sys, threading
root, out, *words = sys.argv[1:]
entered, files = set(), {}

def enter(frame, event, _):
    if event != "call" or not frame.f_code.co_flags & 1:
        return
    name = frame.f_code.co_filename
    if name not in files:
        path = os.path.realpath(name)
        files[name] = path[len(root) + 1:] if path.startswith(root + os.sep) and ".venv" not in path else ""
    if files[name]:
        entered.add((files[name], frame.f_code.co_qualname))
        if frame.f_code.co_name == "training_step":
            sys.setprofile(None)
            with open(out, "w") as file:
                json.dump(sorted(entered), file)
            os._exit(0)

threading.setprofile(enter)
sys.setprofile(enter)
from tiryns.runner.cli.commands import main
main(words)
"""
"""Notes the functions of ours that are entered until the first training step, and ends there."""


def entered(*words: str) -> list[tuple[str, str]]:
    """Files and functions that a run on a text of one's own, with a small model, enters before its first step."""
    with TemporaryDirectory() as scratch:
        text = write_text(Path(scratch) / "text.txt")
        out = Path(scratch) / "entered.json"
        command = [sys.executable, "-c", TRACED, str(ROOT), str(out), *SMALL, f"data.source={text}", *words]
        alone = {**os.environ, "PYTHONPATH": str(ROOT), "TIRYNS_CACHE": scratch, "CUDA_VISIBLE_DEVICES": ""}
        subprocess.run(command, cwd=scratch, env=alone, capture_output=True, check=True)
        return [(file, function) for file, function in json.loads(out.read_text())]


def measured() -> Measures:
    """Every number of the budget, as it is in this checkout."""
    functions = entered()
    product, tests = lines_of(*PRODUCT), lines_of("tests")
    return {
        "lines": {"product": sum(product.values()), "tests": sum(tests.values())},
        "before the first step": {"files": len({file for file, _ in functions}), "functions": len(functions)},
        "names": names(),
        "lines of the product": product,
        "lines of the tests": tests,
    }


def budget() -> Measures:
    """The numbers of `budget.toml`."""
    return tomllib.loads(FILE.read_text())


def excesses(allowed: Measures, found: Measures) -> list[str]:
    """A line for each measure above its budget, and for each folder without one."""
    return [
        f"{part}: {name} has {number:,}, {number - allowed.get(part, {}).get(name, 0):,} above its budget"
        for part, numbers in found.items()
        for name, number in numbers.items()
        if number > allowed.get(part, {}).get(name, 0)
    ]


def written(measures: Measures) -> str:
    """The text of `budget.toml`."""
    head = (
        "# Upper bounds, held by `make check`. A change may lower a number, or raise that of a folder by\n"
        "# lowering another: the first three tables only fall. `python -m tests.house.budget --write` writes what is.\n"
    )
    rows = (
        f"\n[{json.dumps(part)}]\n"
        + "".join(f"{json.dumps(name)} = {number}\n" for name, number in numbers.items())
        for part, numbers in measures.items()
    )
    return head + "".join(rows)


if __name__ == "__main__":
    now = measured()
    if "--write" in sys.argv:
        FILE.write_text(written(now))
    elif "--check" in sys.argv:
        sys.exit("\n".join(excesses(budget(), now)) or 0)
    else:
        for part, numbers in now.items():
            for name, number in numbers.items():
                print(f"{part:24} {name:28} {number:8,} of {budget().get(part, {}).get(name, 0):8,}")
