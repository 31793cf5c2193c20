"""Is B better than A, by how much, and could it be luck? Runs of equal seeds are compared in pairs.

  tiryns judge RUN_A RUN_B                                 two finished runs, or two folders of runs or sweeps
  tiryns judge SWEEP --change KEY=B --against KEY=A        two settings of one sweep; --seeds N trains what it lacks
  tiryns judge --change KEY=B --against KEY=A KEY=VALUE... trains pairs until the answer is clear

Quote several overrides of one setting: --change 'optimizer=muon optimizer.lr=0.02'. Each --change is compared with
--against (default: the other overrides alone). Answers are corrected for the number of changes.
Exit status: 0 clear, 3 not clear, 1 an error, 130 or 75 interrupted (the same command resumes).
"""

import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

from tiryns.runner.cli.judge import sides
from tiryns.runner.cli.judge.answer import Compared, Numbers, answer
from tiryns.runner.cli.judge.forest import ENDINGS, write_figure
from tiryns.runner.cli.judge.measure import NOT_LEARNT, check_figure, measure_of
from tiryns.runner.cli.judge.picture import page_in, title_of, write_page
from tiryns.runner.cli.judge.sides import Setting
from tiryns.runner.cli.models.reading import is_setting
from tiryns.runner.evaluation.statistics.paired import first_look
from tiryns.runner.evaluation.statistics.student import ERROR
from tiryns.runner.run.command.failure import coded
from tiryns.runner.run.command.json_output import print_json
from tiryns.runner.run.command.status import NOT_CLEAR
from tiryns.runner.run.files import replaceable
from tiryns.runner.run.folder import Run, find_runs, runs_in
from tiryns.runner.run.model_folder import own_words

SEEDS = 8


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    about = "two folders of runs, the folder of a sweep, or overrides that both settings share"
    parser.add_argument("words", nargs="*", metavar="RUN|KEY=VALUE", help=about)
    about = "overrides of a setting that may be better, such as 'optimizer=muon optimizer.lr=0.02'; may be repeated"
    parser.add_argument("--change", action="append", default=[], metavar="OVERRIDES", help=about)
    parser.add_argument("--against", metavar="OVERRIDES", help="overrides of the setting to compare it with")
    about = f"the most pairs, of seeds 1 to N ({SEEDS}); with a sweep, trains those that it lacks"
    parser.add_argument("--seeds", type=int, metavar="N", help=about)
    parser.add_argument("--anyway", action="store_true", help="trains too few pairs for a clear answer, too")
    about = "pairs that are added at a time after the first look (1); more for launchers that run jobs side by side"
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help=about)
    about = "metric to compare by (the one that chooses checkpoints); several are corrected together"
    parser.add_argument("--metric", action="append", default=[], metavar="KEY", help=about)
    about = f"how often settings that are alike may be called different ({ERROR})"
    parser.add_argument("--error", type=float, default=ERROR, metavar="P", help=about)
    about = "the page (judge.html beside the runs, judge-2.html for another question; of two RUNs in a new folder)"
    parser.add_argument("--out", type=Path, metavar="FILE", help=about)
    about = "a picture of the answer for a paper too, svg or pdf by the ending"
    parser.add_argument("--figure", type=Path, metavar="FILE", help=about)


def main(arguments: Namespace) -> None:
    """Prints the answer and the path of its page; ends with status 3 if the answer is not clear."""
    folders = [Path(word) for word in arguments.words if not is_setting(word, ".*")]
    words = [word for word in arguments.words if Path(word) not in folders]
    base = [*words, *shlex.split(arguments.against or "")]
    arguments.change = [one for change in arguments.change for one in sides.each_source(change, base)]
    _check(arguments, folders, words)
    with replaceable(arguments.out, arguments.figure):
        pass  # nothing is trained for a page that could not be written
    settings = [sides.setting_of(overrides) for overrides in (arguments.against or "", *arguments.change)]
    if len(folders) == 2:
        settings = [Setting(str(folder), []) for folder in folders]
        pairings = compare_settings(settings, lambda setting: runs_in(Path(setting.name)))
        place = arguments.out and arguments.out.parent
    elif folders and arguments.seeds is None:
        runs, place = sides.that_have(runs_in(folders[0]), words), folders[0]
        pairings = compare_settings(settings, lambda setting: sides.that_have(runs, setting.words))
    else:
        common, place = _common(folders, words, settings)
        pairings = train_pairs(place, common, settings, arguments)
    result = _answer(pairings, arguments)
    place = place or sides.new_folder(Path("outputs"))
    title = title_of(result, words if folders else [], arguments.metric)
    page = arguments.out or page_in(place, title)
    with replaceable(arguments.out, arguments.figure):
        result |= {"folder": str(place), "page": str(write_page(page, result, title))}
        if arguments.figure:
            result["figure"] = str(write_figure(arguments.figure, result))
    if arguments.json:
        print_json(result)
    else:
        lines = [*(each["sentence"] for each in result["comparisons"]), *filter(None, [result["note"]])]
        lines.append(f"the page: {result['page']}")
        lines += [f"the picture: {result['figure']}"] if "figure" in result else []
        print(*lines, sep="\n")
    sys.stdout.flush()
    if not result["clear"]:
        sys.exit(NOT_CLEAR)


def train_pairs(
    folder: Path, common: Sequence[str], settings: Sequence[Setting], arguments: Namespace
) -> list[Compared]:
    """Trains and returns pairs of seeds 1, 2, ... in a folder, until each change is clear or `--seeds` are trained."""
    folders = [Path(word) for word in arguments.words if not is_setting(word, ".*")]
    user_words = [word for path in folders for run in find_runs(path) or [path] for word in own_words(run)]
    user_words += [*arguments.words, *(word for setting in settings for word in setting.words)]
    sides.check_settings(common, settings, [word for word in user_words if "=" in word])
    most = SEEDS if arguments.seeds is None else arguments.seeds
    against, *changes = settings
    first = first_look(arguments.error / (len(changes) * max(1, len(arguments.metric))))
    has_folds = any("data.fold" in word for word in common)  # a seed is a pair for each fold then
    if most < first and not (arguments.anyway or has_folds):
        counts_of = {"changes": len(changes), "metrics": len(arguments.metric)}
        many = "".join(f" and {number} {noun}" for noun, number in counts_of.items() if number > 1)
        raise ValueError(
            f"--seeds {most}: with --error {arguments.error}{many} no difference is clear with fewer than {first} pairs, "
            f"so these runs could give no answer: give --seeds {first} or more, or --anyway to train them"
        )
    first = min(most, first)
    has_launcher = any(word.startswith("hydra/launcher=") for word in common)
    counts = [*([] if has_launcher else [1]), *range(first, most, arguments.at_once), most]
    seeds_by_name: dict[str, range] = {}
    waiting = changes
    pairings: list[Compared] = []
    for count in counts:
        seeds = range(1, count + 1)
        for setting in (against, *waiting):
            sides.train_missing(folder, [*common, *setting.words], seeds, setting.name)
            for metric in [] if seeds_by_name else arguments.metric:  # a mistyped name costs one run
                check_figure(sides.finished_runs(folder, [*common, *setting.words], seeds)[0], metric)
            seeds_by_name[setting.name] = seeds
        pairings = compare_settings(
            settings, lambda s: sides.finished_runs(folder, [*common, *s.words], seeds_by_name[s.name])
        )
        comparisons = _answer(pairings, arguments)["comparisons"]
        if count < first:
            continue
        unclear = {each["change"] for each in comparisons if each["answer"] == "not clear"}
        waiting = [setting for setting in changes if setting.name in unclear]
        if not waiting or count >= most:
            break
        print(*(f"judge: {each['sentence']}" for each in comparisons), sep="\n", file=sys.stderr, flush=True)
    return pairings


def _answer(pairings: Sequence[Compared], arguments: Namespace) -> Numbers:
    pairs = [pair for each in pairings for pair in each.pairs]
    measures = [measure_of(pairs, metric) for metric in arguments.metric or [None]]
    return answer(pairings, measures, arguments.error)


def compare_settings(settings: Sequence[Setting], runs_of: Callable[[Setting], list[Run]]) -> list[Compared]:
    """Pairs the runs of each setting with the runs of the first setting; `runs_of` gives the runs of a setting."""
    runs = ((setting.name, sides.by_replicate(runs_of(setting), setting.name)) for setting in settings)
    (against, base), *changes = runs
    return [Compared(name, against, sides.pairs_of(base, other, [against, name])) for name, other in changes]


def _common(folders: Sequence[Path], words: list[str], settings: Sequence[Setting]) -> tuple[list[str], Path]:
    """Returns the overrides that both settings share, from `words` or a sweep's runs, and the folder of their runs."""
    if not folders:
        sides.canonical(words)
        return words, sides.comparison_folder(words)
    overrides = [set(setting.words) for setting in settings]
    runs = [sides.words_of(run) for run in sides.that_have(runs_in(folders[0]), words)]
    rest = [run - setting for setting in overrides for run in runs if setting and setting <= run]
    if not rest or any(other != rest[0] for other in rest):
        names = ", ".join(setting.name for setting in settings)
        problem = "do not share all other overrides: add what the missing runs share, as KEY=VALUE"
        raise ValueError(f"{str(folders[0])!r}: its runs of {names} {problem}")
    return sorted(rest[0]), folders[0]


def _check(arguments: Namespace, folders: Sequence[Path], words: Sequence[str]) -> None:
    for metric in arguments.metric:
        if metric.startswith(NOT_LEARNT):  # pairs of equal seeds say nothing of it
            reason = "it tells how a run was computed, not what it has learnt; `tiryns runs compare` shows it"
            raise ValueError(f"--metric {metric}: {reason}")
    if (figure := arguments.figure) is not None and figure.suffix not in ENDINGS:
        raise ValueError(f"--figure {figure}: expected a file that ends with {' or '.join(ENDINGS)}")
    if len(arguments.metric) > len(set(arguments.metric)):
        raise ValueError("--metric names one figure twice: name each figure once")
    if len(folders) > 2 or (len(folders) == 2) == bool(arguments.change):
        raise ValueError("give two folders of runs, or --change with at most one: `tiryns judge --help`")
    if len(folders) == 2 and (words or arguments.against or arguments.seeds):
        raise ValueError("two folders are compared as they are: leave out overrides, --against and --seeds")
    if len(folders) == 1 and not find_runs(folders[0]):
        raise coded("no_such_run", f"there are no runs in {str(folders[0])!r}: name the folder of a sweep")
    if len(names := [*arguments.change, arguments.against or ""]) > len(set(names)):
        raise ValueError("--change and --against name one setting twice, so there is nothing to compare")
    if not 0 < arguments.error < 0.5:
        raise ValueError(f"--error {arguments.error}: expected a share between 0 and 0.5, such as 0.05")
    if arguments.at_once < 1 or (arguments.seeds is not None and arguments.seeds < 1):
        raise ValueError("--seeds and --at-once must be 1 or more")
