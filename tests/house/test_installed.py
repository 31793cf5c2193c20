"""The wheel in an environment of its own, in projects whose folders have the names of ours."""

import json
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.conftest import TINY
from tests.support.installed import (
    Environment,
    build,
    build_from_sdist,
    check,
    checkout,
    empty_environment,
    install,
    mistakes,
    names_in,
    program,
)
from tiryns.runner.cli.commands import COMMANDS

OTHERS = "raise RuntimeError('a module of the project has been taken for one of tiryns')\n"

THING = '''
from lightning.pytorch import Callback


class Thing(Callback):
    """A callback of the project's own."""

    def on_fit_start(self, trainer, module):
        print(f"rank {trainer.global_rank} has the thing", flush=True)
'''

SCRIPT = """
import tiryns, conf.mine, runner.own
assert (conf.mine.__file__, runner.own.__file__) == ({conf!r}, {runner!r})
import tiryns.conf.config, tiryns.runner.train
assert "site-packages" in tiryns.runner.train.__file__ and "site-packages" in tiryns.conf.config.__file__
import conf, runner
assert {conf!r}.startswith(list(conf.__path__)[0]) and {runner!r}.startswith(list(runner.__path__)[0])
print("both are the project's own")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_from_sdist(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = empty_environment(tmp_path_factory.mktemp("environment"))
    install(wheel, environment)
    return environment


@pytest.fixture(params=["packages", "folders"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A project with its own `conf` and `runner`, packages or plain folders, and modules called like ours and others'."""
    for folder in ("conf", "runner", "conf/experiment", "conf/data"):
        (tmp_path / folder).mkdir()
        if request.param == "packages":
            (tmp_path / folder / "__init__.py").write_text("")
    for name in ("conf/config", "conf/registry", "runner/train", "runner/build"):
        (tmp_path / f"{name}.py").write_text(OTHERS)
    (tmp_path / "conf" / "mine.py").write_text("")
    (tmp_path / "runner" / "own.py").write_text("")
    (tmp_path / "runner" / "mine.py").write_text(THING)
    (tmp_path / "conf" / "experiment" / "mine.yaml").write_text("# @package _global_\nseed: 77\n")
    program = SCRIPT.format(conf=str(tmp_path / "conf/mine.py"), runner=str(tmp_path / "runner/own.py"))
    (tmp_path / "script.py").write_text(program)
    return tmp_path


def tiny(text_file: Path) -> list[str]:
    return [*TINY, f"data.source={text_file}", "trainer.max_steps=2", "trainer.validate_every=0"]


def runs_in(project: Path) -> list[Path]:
    return sorted(file.parent for file in project.glob("outputs/**/status.json"))


def test_sdist_and_wheel_hold_the_program_and_nothing_else(
    wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(wheel.parent) == 0, capsys.readouterr().out
    needed = {
        "py.typed",
        "conf/suite/small.yaml",
        *(f"runner/report/{name}" for name in ("chart.js", "page.js", "page.css")),
        "runner/cli/new/project/gitignore",
    }
    assert {f"tiryns/{name}" for name in needed} <= names_in(wheel)
    top = {name.partition("/")[0] for name in names_in(wheel)}
    assert {name for name in top if not name.endswith(".dist-info")} == {"tiryns", "hydra_plugins"}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("tiryns/py.typed", "tiryns/py.typed is missing"),
        ("tiryns-1.dist-info/licenses/LICENSE", "LICENSE is missing"),
        ("tests/conftest.py", "tests/conftest.py should not be there"),
        ("runner/train.py", "runner/train.py should not be there"),
    ],
)
def test_what_is_wrong_with_a_wheel_is_named(changed: str, said: str, tmp_path: Path) -> None:
    with ZipFile(tmp_path / "tiryns.whl", "w") as archive:
        for name in {*program(), "tiryns-1.dist-info/licenses/LICENSE"} ^ {changed}:
            archive.writestr(name, "")
    assert mistakes(tmp_path / "tiryns.whl") == [f"tiryns.whl: {said}"]


@pytest.mark.slow
def test_wheel_is_the_same_without_the_sdist(wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "wheel").mkdir()
    direct = build("wheel", checkout(tmp_path / "checkout"), tmp_path / "wheel")
    assert names_in(direct) == names_in(wheel)


@pytest.mark.slow
def test_project_keeps_its_names_and_ours_are_found(installed: Environment, project: Path) -> None:
    script = installed.run("python", "script.py", cwd=project)
    assert script.stdout == "both are the project's own\n", script.stderr
    (project / "datasets.py").write_text(OTHERS)
    (project / "logging.py").write_text(OTHERS)
    composed = installed.run("tiryns", "--config-dir", "conf", "--cfg", "job", "experiment=mine", cwd=project)
    assert "seed: 77" in composed.stdout, composed.stderr


@pytest.mark.slow
def test_every_subcommand_works_in_such_a_project(
    installed: Environment, project: Path, text_file: Path
) -> None:
    def tiryns(*words: str) -> str:
        done = installed.run("tiryns", *words, cwd=project, PYTHONPATH=".")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    tiryns("train", *tiny(text_file))
    tiryns(*tiny(text_file))
    first, second = map(str, runs_in(project))
    assert (Path(first) / "command.txt").read_text().startswith("tiryns data=files ")
    (project / "rows.jsonl").write_text(json.dumps({"question": "which?", "answer": "this"}) + "\n")
    pairs = [{"query": f"heron {n}", "passage": f"the heron of {n}"} for n in range(24)]
    (project / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in pairs))
    tiryns("experiment=contrastive", "data=pairs", "data.train=pairs.jsonl", "trainer.max_steps=1", "outputs=vectors",
           "sampler.global_batch_size=4", "trainer.validate_every=0")  # fmt: skip
    (vectors,) = (project / "vectors").glob("*/*")
    words = {
        "plan": tiny(text_file), "info": ["optimizer=lion"], "runs": [], "report": [first, second],
        "audit": [first, second], "order": [first, "--steps", "1:2"], "verify": [first],
        "reproduce": [first, "--with", second], "evaluate": [first, str(text_file)],
        "average": [first, "--out", "averaged"], "new": ["my-project"], "doctor": [],
        "predict": [first, "the river [MASK] under"], "push": [first, "./pushed"],
        "ladder": ["--widths", "16,32,48", "--coordinates", "1", *tiny(text_file)],
        "mcp": ["--help"], "prepare corpus": ["--help"],
        "consolidate": [f"{first}/checkpoints/last.ckpt", "consolidated"],
        "mine": [str(vectors), "pairs.jsonl", "--out", "mined.jsonl"],
        "prepare": ["--validation", "0", "rows.jsonl", ".", "shards"],
        "schedule": ["scheduler=cosine"], "schema": [], "version": [],
    }  # fmt: skip
    assert set(words) == set(COMMANDS) - {"train", "judge"}, "two runs are too few for a verdict"
    for name, behind in words.items():
        assert tiryns(name, *behind), name


@pytest.mark.slow
@pytest.mark.parametrize("path", [{}, {"PYTHONPATH": "."}], ids=["", "PYTHONPATH=."])
def test_ranks_and_sweeps_take_ours_and_find_the_class_of_the_project(
    installed: Environment, project: Path, path: dict[str, str], text_file: Path
) -> None:
    words, seen = [*tiny(text_file), "trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2"], 0
    if path:
        words += ["+callback.thing._target_=runner.mine.Thing", "allowed_targets=[runner.mine]"]
        seen = 2
    else:  # the working folder is not searched, in the ranks neither
        (project / "datasets.py").write_text(OTHERS)
    done = installed.run("tiryns", *words, cwd=project, **path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("has the thing") == seen
    swept = installed.run("tiryns", "-m", "seed=1,2", *tiny(text_file), cwd=project, **path)
    assert swept.returncode == 0, swept.stdout + swept.stderr
    states = [json.loads((run / "status.json").read_text())["state"] for run in runs_in(project)]
    assert states == ["done"] * 3


@pytest.mark.slow
def test_module_of_ours_runs_beside_modules_of_those_names(
    installed: Environment, project: Path, text_file: Path
) -> None:
    words = [*tiny(text_file), "trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2"]
    done = installed.run("python", "-m", "tiryns.runner.train", *words, cwd=project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [run.joinpath("status.json").exists() for run in runs_in(project)] == [True]


@pytest.mark.slow
def test_checkout_that_is_not_installed_trains(tmp_path: Path, text_file: Path) -> None:
    words = [*tiny(text_file), "trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2"]
    environment, source = empty_environment(tmp_path / "environment"), checkout(tmp_path / "checkout")
    assert environment.run("python", "-c", "import tiryns", cwd=tmp_path).returncode
    done = environment.run("python", "-m", "runner.train", *words, cwd=source)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = runs_in(source)
    asked = environment.run("python", "-m", "tiryns", "predict", str(run), "the [MASK] runs", cwd=source)
    assert asked.stdout, asked.stderr
