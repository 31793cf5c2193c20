"""The one command: what its words mean, and the one way in which every subcommand fails."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tiryns.conf  # noqa: F401 - registers the groups
from tests.conftest import ROOT, few_of
from tests.report.pages import make_run
from tests.support.in_process import Done, succeeded, tiryns_here
from tests.support.processes import PROGRAM, process, warm_process
from tiryns.conf.registry import OPTIONS
from tiryns.runner.cli.commands import COMMANDS
from tiryns.runner.run.command.lifetime import same_modules
from tiryns.runner.run.command.words import command_line

DOCUMENTS = (ROOT / "README.md", *ROOT.glob("docs/**/*.md"))

READ_BY_HYDRA = ("train", "plan")


LIGHT = """
import sys
from tiryns.runner.cli.commands import main
try:
    main({words!r})
except SystemExit as end:
    assert not end.code, end.code
print([name for name in ("torch", "lightning", "transformers", "datasets") if name in sys.modules], file=sys.stderr)
"""

INTERRUPTED = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n"
"""A module during whose import Ctrl-C comes."""


def assert_one_line(done: Done | subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1, done.stderr


@pytest.mark.rows(12)
@pytest.mark.parametrize("name", COMMANDS)
def test_subcommand_says_what_it_takes_and_refuses_the_rest(name: str, tmp_path: Path) -> None:
    shown = succeeded(tmp_path, *name.split(), "--help")
    assert shown.stdout.startswith("tiryns" if name in READ_BY_HYDRA else f"usage: tiryns {name} ")
    refused = tiryns_here(tmp_path, *name.split(), "--wrong")
    assert_one_line(refused)
    assert (
        f"tiryns {'train' if name in READ_BY_HYDRA else name} --help` shows what there is" in refused.stderr
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_package_is_the_command_and_pages_name_no_other_way(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tiryns", "runs", "--outputs", "nowhere"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert_one_line(done)
    assert "there is no folder 'nowhere'" in done.stderr
    pages = [page.relative_to(ROOT) for page in DOCUMENTS if "python -m runner." in page.read_text()]
    assert pages == [], "names of version 0.1"


def test_help_is_a_screen_with_every_subcommand_and_examples(tmp_path: Path) -> None:
    lines = tiryns_here(tmp_path, "--help").stdout.splitlines()
    shown = [
        line.split("  ")[1] for line in lines if line in {f"  {n:<16} {a}" for n, (a, _) in COMMANDS.items()}
    ]
    assert {*shown} == COMMANDS.keys()
    assert shown.index("prepare corpus") == shown.index("prepare") + 1
    assert tiryns_here(tmp_path, "-h").stdout.splitlines() == lines
    of_training = tiryns_here(tmp_path, "train", "--help").stdout.splitlines()
    assert tiryns_here(tmp_path, "optimizer=muon", "--help").stdout.splitlines() == of_training
    for page in (lines, of_training):
        assert len(page) <= 40
        assert max(map(len, page)) < 125
        assert sum(line.startswith("  tiryns ") for line in page) == 3
    groups = " ".join(line.split("   ")[0] for line in of_training if line.startswith("  "))
    assert {group for group in OPTIONS if "/" not in group} <= {*re.findall(r"\w+", groups)}


@pytest.mark.parametrize("page", few_of(["tiryns", "train", "plan"], ["tiryns"]))
def test_examples_of_the_help_compose(page: str, tmp_path: Path) -> None:
    words = [] if page == "tiryns" else [page]
    lines = tiryns_here(tmp_path, *words, "--help").stdout.splitlines()
    examples = [line.split("   ")[0].split()[1:] for line in lines if line.startswith("  tiryns ")]
    runs = [words for words in examples if words[:1] != ["report"]]
    make_run(tmp_path / "outputs" / "2026-11-03" / "12-30-11-ab12")
    for example in examples:
        assert example in runs or tiryns_here(tmp_path, *example).returncode == 0, example
    (tmp_path / "reviews.csv").write_text("text,label\ngood,yes\nbad,no\n" * 9)
    for example in runs:
        plain = [word.partition(",")[0] for word in example if word not in ("-m",)]
        assert tiryns_here(tmp_path, *plain, "--cfg", "job").returncode == 0, example
    assert len(runs) == {"tiryns": 2, "train": 3, "plan": 2}[page]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("predcit", "'predict'"),
        ("sweep", "`tiryns -m FIELD=VALUE,VALUE`"),
        ("compare", "`tiryns runs compare RUN RUN`"),
    ],
)
def test_mistyped_subcommand_is_answered_with_the_one_that_was_meant(
    tmp_path: Path, typed: str, meant: str
) -> None:
    done = tiryns_here(tmp_path, typed, "some_run")
    assert_one_line(done)
    assert f"there is no command {typed!r}" in done.stderr
    assert done.stderr.endswith(f"Did you mean {meant}?\n")


def test_spaces_around_the_sign_are_said(tmp_path: Path) -> None:
    done = tiryns_here(tmp_path, "optimizer.lr", "=", "3")
    assert done.stderr == "error: optimizer.lr = 3: expected no spaces around =: optimizer.lr=3\n"


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    ("flag", "command"), [("--info", "info"), ("--schema", "schema"), ("--version", "version")]
)
def test_flag_and_subcommand_are_the_same(tmp_path: Path, flag: str, command: str) -> None:
    answer = tiryns_here(tmp_path, command)
    assert answer.stdout
    assert tiryns_here(tmp_path, flag) == tiryns_here(tmp_path, "train", flag) == answer


def test_hydra_keeps_its_own_info(tmp_path: Path) -> None:
    assert "Defaults List" in tiryns_here(tmp_path, "--info", "defaults").stdout


def test_train_is_what_settings_alone_mean(tmp_path: Path) -> None:
    named, alone = (tiryns_here(tmp_path, *words, "--cfg", "job", "seed=3") for words in (["train"], []))
    assert "seed: 3" in named.stdout
    assert named == alone


def test_flags_may_stand_anywhere_among_the_settings(tmp_path: Path) -> None:
    orders = [["--cfg", "job", "seed=3", "data=shapes"], ["seed=3", "--cfg", "job", "data=shapes"],
              ["seed=3", "data=shapes", "--cfg", "job"]]  # fmt: skip
    first, *others = (tiryns_here(tmp_path, *words) for words in orders)
    assert "seed: 3" in first.stdout
    assert all(other == first for other in others)
    done = tiryns_here(tmp_path, "seed=3", "--cfg")
    assert_one_line(done)
    assert "--cfg" in done.stderr


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    "words",
    [["info"], ["info", "optimizer=lion"], ["runs"], ["schema"], ["version"], ["predict", "--help"],
     ["consolidate", "--help"], ["push", "--help"], ["prepare", "--help"],
     ["prepare", "corpus", "--help"], ["report", "--help"], ["plan", "--help"]],
)  # fmt: skip
def test_question_is_answered_without_a_training_library(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "outputs").mkdir()
    done = process("-c", LIGHT.format(words=words), cwd=tmp_path)
    assert done.stdout
    assert done.stderr == "[]\n"


@pytest.mark.parametrize("words", [["train"], ["schedule"], ["predict", "run", "a text"]], ids=str)
def test_ctrl_c_ends_in_one_line_during_imports_too(words: list[str], tmp_path: Path) -> None:
    for name in ("hydra", "numpy"):
        (tmp_path / f"{name}.py").write_text(INTERRUPTED)
    done = process(*PROGRAM, *words, cwd=ROOT, PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)]))
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    ("words", "status"),
    [(["version"], 1), (["info", "optimizer=adamw"], 1), (["train", "--cfg", "job"], 0)],
    ids=str,
)
def test_reader_that_has_seen_enough_is_no_error(words: list[str], status: int, tmp_path: Path) -> None:
    """A command that trains goes on without a reader; the others end."""
    reading, writing = os.pipe()
    os.close(reading)
    command, env = [sys.executable, *PROGRAM, *words], {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=env, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (status, b"")


@pytest.mark.slow
def test_checkout_trains_by_the_name_of_its_file(tmp_path: Path) -> None:
    shown = warm_process("-m", "runner.train", "--help", cwd=tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith("tiryns")
    assert_one_line(warm_process("-m", "runner.train", "optimizer.lr=-1", cwd=tmp_path))


def test_ranks_find_modules_where_the_command_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path, flags in ((["/somewhere"], ["-P"]), (["", "/somewhere"], []), (["/bin", str(tmp_path)], [])):
        monkeypatch.setattr(sys, "path", path)
        assert same_modules() == flags


@pytest.mark.parametrize(
    ("line", "expected", "others"),
    [
        ("tiryns p", {"plan", "predict", "push", "prepare"}, {"train"}),
        ("tiryns ", {*" ".join(COMMANDS).split()} - {"corpus"} | {"optimizer="}, set()),
        ("tiryns train optimizer=ada", {"optimizer=adamw", "optimizer=adam"}, {"train", "optimizer=lion"}),
        ("tiryns mode=", {"mode=train", "mode=inspect"}, {"mode="}),
        ("tiryns seed=1 trainer.precision=b", {"trainer.precision=bf16-mixed"}, {"trainer.precision=auto"}),
        ("tiryns optimizer.quantized=", {"optimizer.quantized=true", "optimizer.quantized=false"}, set()),
        ("tiryns resume=", {"resume=auto", "resume=outputs/day/run"}, {"resume=texts/"}),
        ("tiryns data.source=te", {"data.source=texts/"}, {"data.source=outputs/"}),
        ("tiryns runs --", {"--json", "--state"}, {"seed="}),
        ("tiryns runs ", {"list", "show", "compare"}, {"seed=", "outputs/day/run"}),
        ("tiryns runs show ", {"outputs/day/run"}, {"list", "show", "compare"}),
        ("tiryns runs --state ", {"done", "failed", "killed"}, {"list", "outputs/day/run"}),
        ("tiryns verify ", {"outputs/day/run"}, {"seed="}),
        ("tiryns --conf", {"--config-dir", "--config-name", "--config-path"}, {"--cfg"}),
        ("tiryns --config-dir texts optimizer=ada", {"optimizer=adamw"}, {"optimizer=lion"}),
        ("tiryns prepare ", {"corpus"}, {"seed="}),
        ("tiryns prepare corpus --t", {"--tokenizer", "--tasks"}, {"--seed"}),
    ],
)
def test_shell_completes_commands_and_their_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, expected: set[str], others: set[str]
) -> None:
    for folder in ("outputs/day/run", "texts"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "outputs/day/run/status.json").write_text("{}")
    monkeypatch.setenv("COMP_LINE", line)
    done = tiryns_here(tmp_path, "-sc", "query=bash")
    assert (done.returncode, done.stderr) == (0, "")
    found = set(done.stdout.split())
    assert expected <= found
    assert not others & found


def test_shell_completes_files_behind_other_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for line in ("tiryns predict o", "tiryns --config-dir ", "tiryns runs --outputs "):
        monkeypatch.setenv("COMP_LINE", line)
        assert tiryns_here(tmp_path, "-sc", "query=bash") == Done(0, "", ""), line


@pytest.mark.parametrize("program", ["/usr/bin/tiryns", "/checkout/runner/train.py"])
def test_command_is_noted_as_it_is_documented(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(sys, "argv", [program, "seed=3", "data.source=my text.txt"])
    assert command_line() == "tiryns seed=3 'data.source=my text.txt'"
