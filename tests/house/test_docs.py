"""The documentation holds: what it names exists, its commands compose, and, in the slow tests, run."""

import dataclasses
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override, ValueType
from omegaconf import OmegaConf

from tests.conftest import ROOT
from tests.support.commands import (
    PAGES,
    PUBLISHED,
    RECIPES,
    SUITES,
    blocks,
    commands,
    recipe_commands,
    shown_commands,
    words_of,
)
from tests.support.composed import composed, composed_once
from tiryns.conf.phases import lengths_of, phases_of
from tiryns.runner.cli.commands import COMMANDS, command_of, parser_of
from tiryns.runner.config.permissions import allow_code
from tiryns.runner.config.targets import check_targets
from tiryns.runner.sweeps.words import as_sweep, with_replicates

SHOWN = [
    *((page.stem, command) for page in PAGES for command in shown_commands(page)),
    *(
        (recipe.stem, command)
        for recipe in [*RECIPES, *PUBLISHED, *SUITES]
        for command in recipe_commands(recipe)
    ),
]

UNPLAYED = ("from-trainer", "recipes")
"""Pages whose commands are composed alone here: of the page on Trainer they read files that it does not show, of the
recipes they need a run of their full length."""
PARTS = {"extending": ("Metrics of your own", "Tasks of your own"), "phases": ("Mixtures", "Gradual changes")}
"""Parts of pages that are run alone here: `test_extending.py` runs the others, and phases need their full length."""
PLAYED = [
    page
    for page in PAGES
    if any(block.language == "bash" for block in blocks(page)) and page.stem not in UNPLAYED
]
"""Pages whose commands are run."""

TINY = [
    "trainer.max_steps=4", "trainer.validate_every=2", "trainer.validation_batches=1", "trainer.log_every=1",
    "sampler.global_batch_size=4", "data.num_workers=0",
]  # fmt: skip

UNCLEAR = ("judge", "ladder")
"""Commands that train, and may end with status 3 after so few steps."""

PLACEHOLDER = r"(?:\b(?P<folder>\w+)/<date>/<run>|<name or folder>|<run folder>|\bRUN\b|\bSWEEP\b)"
"""What stands for a run or a sweep; in the tests it is the newest one."""


@pytest.mark.rows(8)
@pytest.mark.parametrize("page", dict.fromkeys(page for page, _ in SHOWN))
def test_command_is_one_that_exists(page: str) -> None:
    wrong = {}
    for command in dict.fromkeys(command for name, command in SHOWN if name == page):
        try:
            assert_exists(re.sub(PLACEHOLDER, "some_folder", command))
        except (Exception, SystemExit) as error:
            wrong[command] = repr(error)
    assert not wrong


def test_subcommands_take_the_words_of_every_page() -> None:
    for command in dict.fromkeys(command for _, command in SHOWN):
        words = words_of(re.sub(PLACEHOLDER, "some_folder", command))
        if words[0] == "tiryns" and {*words[1:2]} & {*COMMANDS} - {"train", "plan"}:
            assert_understood(words[1:])


def test_options_and_settings_of_commands_exist() -> None:
    """Each `group=option` and `group.setting=` of a command, whatever stands beside it; none is composed."""
    loader, known = composed_once()[0].loader, settings_by_group()
    del known["suite"]  # a callback, and a recipe of a sweep
    options = {group: set(loader.get_group_options(group)) for group in [*known, "experiment", "trainer"]}
    text = " ".join(command for page, command in SHOWN if page != "extending" and "config-dir" not in command)
    words = re.findall(r"(?<![\w.+~/])([a-z]+)=([\w,\[\]]+)", re.sub(r"\bsuite=\S+ model=\S+", "", text))
    chosen = [(group, re.findall(r"\w+", given)) for group, given in words if group in options]
    assert len(chosen) > 300
    assert not {f"{group}={name}" for group, names in chosen for name in names if name not in options[group]}
    words = re.findall(r"(?<![\w.+~/])([a-z]+)\.(\w+)=", text)
    assert not {f"{group}.{name}" for group, name in words if group in known and name not in known[group]}


@cache
def assert_exists(command: str) -> None:
    words = words_of(command)
    if words[0] == "make":
        assert_target(words[1])
    elif words[:2] == ["pip", "install"]:
        assert_installs(words[2:])
    elif words[:2] == ["python", "-m"]:
        assert find_spec(words[2]), f"there is no module {words[2]}"
    else:
        assert words[0] == "tiryns"
        assert_understood(words[1:])


def assert_target(name: str) -> None:
    targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert name in targets


def assert_installs(words: list[str]) -> None:
    """The checkout, the wheel of this version, or the package, with extras that there are; or torch from its index."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    if words[:2] == ["torch", "--index-url"]:
        return
    found = re.fullmatch(r"(tiryns|\.|dist/tiryns-(.+)-py3-none-any\.whl)(?:\[(.+)\])?", words[-1])
    assert found, words
    assert found[2] in (None, project["version"])
    assert set(filter(None, (found[3] or "").split(","))) <= set(project["optional-dependencies"])


def assert_understood(words: list[str]) -> None:
    """A subcommand that there is, with words that it takes; the settings of a run compose."""
    name = words[0] if words and "=" not in words[0] and not words[0].startswith(("-", "...")) else ""
    assert not name or name in COMMANDS, f"there is no command {name!r}"
    if name not in ("", "train", "plan"):
        name, behind = command_of(words[: words.index(">") if ">" in words else None])
        assert behind in ([], ["--help"]) or parser_of(name).parse_intermixed_args(behind)
    else:
        given = as_sweep(with_replicates(words))
        assert_composes([word for word in given if word != name and word != "-m"])


def assert_composes(words: list[str]) -> None:
    """Composes the config that a command asks for, the first job's in a sweep; with files of a user's own, nothing."""
    if any(word.startswith("resume=") and word != "resume=auto" for word in words):
        words = [word for word in words if not word.startswith("resume=")]
    if (
        not words
        or words[0] in ("...", "--help", "--version", "--schema", "--info")
        or "--config-dir" in words
    ):
        return
    settings = [word for word in words if "=" in word and not word.startswith("-")]
    config = composed(
        [first_value(override) for override in OverridesParser.create().parse_overrides(settings)]
    )
    allow_code(config)
    check_targets(config)
    if phases := phases_of(OmegaConf.to_container(config.phases)):
        lengths_of(phases, config.trainer)


def first_value(override: Override) -> str:
    """The override as the first job of a sweep has it."""
    if not override.is_sweep_override():
        return str(override.input_line)
    if override.value_type == ValueType.INTERVAL_SWEEP:
        interval = override.value()
        assert isinstance(interval, IntervalSweep)
        return f"{override.get_key_element()}={interval.start}"
    return f"{override.get_key_element()}={next(iter(override.sweep_string_iterator()))}"


def test_tests_and_files_that_are_named_exist() -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    for file, test in re.findall(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`", text):
        assert (ROOT / file).exists(), file
        assert not test or f"def {test}(" in (ROOT / file).read_text(), f"{file} has no {test}"
    for name in re.findall(r"`((?:runner|conf|hydra_plugins|tests)/[\w/.]*)`", text):
        assert (ROOT / name).exists(), name


def names_of(option: Any) -> set[str]:
    """The settings of an option."""
    return {field.name for field in dataclasses.fields(option)}


def settings_by_group() -> dict[str, set[str]]:
    """The settings of any option of a group; of callbacks and loggers, of each by its name."""
    from tiryns.conf.registry import OPTIONS

    named = OPTIONS["callback"] | OPTIONS["logger"]
    groups = {name: nodes for name, nodes in OPTIONS.items() if name not in ("callback", "logger")}
    known = {group: {f for node in nodes.values() for f in names_of(node)} for group, nodes in groups.items()}
    return known | {name: names_of(node) for name, node in named.items()}


def test_settings_that_are_named_exist() -> None:
    """Settings within the text, such as `trainer.max_steps`, are fields of some option."""
    from tiryns.conf.registry import OPTIONS

    known = settings_by_group()
    for page in PAGES:
        for group, name in re.findall(r"`([a-z_]+)\.(\w+)(?:=[^`]*)?`", page.read_text()):
            if group in OPTIONS and group not in ("callback", "logger"):
                assert name in known[group], f"{page.stem}: {group}.{name}"


SHIM = """#!{python}
import os, re, sys
words = sys.argv[1:]
asked = set(words) & {{"--help", "--cfg", "--info", "--version", "--schema"}} or set(words[:1]) & set({asking!r})
if any(w.startswith("resume=") and w != "resume=auto" for w in words):
    words = [re.sub(r"(cooldown_steps)=500", r"\\1=2", w) for w in words]
elif not asked:
    words = [w for w in words if w not in ("--next", "512")]
    words = [w for w in words if not re.match("trainer.max_(tokens|flops|seconds)=", w)]
    words += [tiny for tiny in {tiny!r} if tiny.partition("=")[0] + "=2" not in words]
    words += (["hydra.sweeper.n_trials=2"] if "hydra/sweeper=optuna" in words else [])
    words += ["scheduler.warmup_steps=1"] if "scheduler" in " ".join(words) else []
os.execv({python!r}, [{python!r}, "-c", "from tiryns.runner.cli.commands import main; main()", *words])
"""


@pytest.mark.slow
@pytest.mark.parametrize("page", PLAYED, ids=lambda page: page.stem)
def test_page_runs_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    """Runs the page's commands in one folder, with few steps; its titled blocks are the files that they read."""
    (tmp_path / "bin").mkdir()
    shim = tmp_path / "bin" / "tiryns"
    asking = [name for name in COMMANDS if name not in ("train", *UNCLEAR)]
    shim.write_text(SHIM.format(python=sys.executable, tiny=TINY, asking=asking))
    shim.chmod(0o755)
    python = tmp_path / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    for block in blocks(page, *PARTS.get(page.stem, ())):
        if block.title:
            write_file(work / block.title, block.text)
        elif block.language == "bash":
            for command in commands(block.text):
                run_in(work, command)
        elif block.language == "python" and re.search(PLACEHOLDER, block.text):
            run_in(work, f"python - <<'EOF'\n{block.text}\nEOF")


def write_file(path: Path, text: str) -> None:
    """A file as the page shows it; examples are repeated until there are enough to train on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        head, _, rows = text.partition("\n")
        text = f"{head}\n{rows * 20}"
    elif path.suffix in (".txt", ".jsonl", ".conll"):
        text = (text if path.suffix == ".jsonl" else f"{text}\n") * 20
    path.write_text(text)


def run_in(work: Path, command: str) -> None:
    """Runs a command with the newest runs in the place of what stands for one."""
    path = f"{work.parent / 'bin'}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", with_runs(command, work)],
        cwd=work, env=environment, capture_output=True, text=True, check=False, timeout=1200,
    )  # fmt: skip
    right = (0, 3) if command.startswith(tuple(f"tiryns {name} " for name in UNCLEAR)) else (0,)
    assert done.returncode in right, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def with_runs(command: str, work: Path) -> str:
    """The command with the newest run, or the newest of the folder that is named; two runs to be audited are two."""
    if "SWEEP" in command:
        return command.replace("SWEEP", str(max(work.glob("outputs/*/*-sweep")).relative_to(work)))
    runs = runs_in(work, "*")
    if "tiryns audit RUN RUN" in command:
        return command.replace("RUN RUN", " ".join(runs[-2:]))
    return re.sub(PLACEHOLDER, lambda found: runs_in(work, found["folder"] or "*")[-1], command)


def runs_in(work: Path, folder: str) -> list[str]:
    """Runs that are no jobs of a sweep, without any the jobs, the newest last."""
    found = [f for f in work.glob(f"{folder}/*/*/status.json") if not f.parent.name.endswith("-sweep")]
    found = found or list(work.glob(f"{folder}/*/*-sweep/*/status.json"))
    return [str(f.parent.relative_to(work)) for f in sorted(found, key=lambda file: file.stat().st_mtime)]
