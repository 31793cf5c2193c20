"""Extending from outside: an installed package, folders of configs, and completion in the shell."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, run_program
from tests.support import needs
from tests.support.in_process import tiryns_here
from tests.support.installed import install_project
from tiryns.runner.run.folder import Run

EXAMPLE = ROOT / "docs" / "examples" / "lmms-eval"

SMALL = ["model.hidden_size=32", "model.intermediate_size=64", "data.vocab_size=200", "data.num_workers=0",
         "trainer=cpu", "trainer.max_steps=3", "trainer.validate_every=0"]  # fmt: skip


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """PYTHONPATH of a place where a project of `tiryns new` is installed."""
    folder = tmp_path_factory.mktemp("source")
    assert tiryns_here(folder, "new", "tiryns-example").returncode == 0
    return install_project(folder / "tiryns-example", tmp_path_factory.mktemp("site"))


@pytest.mark.slow
def test_installed_package_adds_a_metric(installed: str, tmp_path: Path) -> None:
    """Its dotted name is registered, and imported in the ranks of a run that measures such predictions."""
    lines = [json.dumps({"text": f"sheep {n}", "label": "odd" if n % 2 else "even"}) for n in range(30)]
    (tmp_path / "sheep.jsonl").write_text("\n".join(lines))
    words = ["data=classification", "objective=classification", "module=finetuning", "data.train=sheep.jsonl",
             "sampler.global_batch_size=8"]  # fmt: skip
    monitor = "checkpoint.monitor=val/validation/surprise"
    run_program(
        *words, *SMALL, "trainer.validate_every=1", monitor, cwd=tmp_path,
        PYTHONPATH=installed,
    )  # fmt: skip
    (folder,) = (tmp_path / "outputs").glob("*/*")
    status = Run(folder).status
    assert status["mode"] == "min"
    assert 0.1 < status["results"]["val/validation/surprise"] < 2


def test_installed_package_is_listed_and_its_mistakes_are_named(installed: str, tmp_path: Path) -> None:
    listed = run_program("--info", cwd=tmp_path, PYTHONPATH=installed).stdout
    assert "Masks every n-th ordinary token, without any chance." in listed
    assert "every_third" in listed
    done = run_program(
        "experiment=every_third", "objective.nht=2", cwd=tmp_path, check=False, PYTHONPATH=installed
    )
    assert "Did you mean 'objective.nth'?" in done.stderr


@pytest.mark.slow
def test_installed_package_is_allowed_by_being_installed(installed: str, tmp_path: Path) -> None:
    words = [*SMALL, "data=files", "data.source={_target_: tiryns_example.components.Sheep, count: 300}",
             "data.cache_dir=cache"]  # fmt: skip
    done = run_program(*words, cwd=tmp_path, PYTHONPATH=installed)
    assert "300 sheep" in done.stdout, "no option has this source, and nothing is listed"
    through = "+callback.x={_target_: tiryns_example.components.torch.load, f: x}"
    done = run_program(*words, through, cwd=tmp_path, check=False, PYTHONPATH=installed)
    assert done.stderr.startswith(
        "error: the target 'tiryns_example.components.torch.load' is really of torch"
    )
    done = run_program(*words, cwd=tmp_path, check=False, PYTHONPATH=str(ROOT))
    assert "allowed_targets=[tiryns_example]" in done.stderr, "one that is not installed is not allowed"


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> str:
    """PYTHONPATH of a place where the example of the documentation is installed."""
    return install_project(EXAMPLE, tmp_path_factory.mktemp("site"))


def assert_tests_pass(example: str, *names: str) -> None:
    files = [str(EXAMPLE / "tests" / name) for name in names]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
    environment = {**os.environ, "PYTHONPATH": example}
    done = subprocess.run(command, cwd=EXAMPLE, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


@pytest.mark.slow
def test_an_installed_example_is_known(example: str, tmp_path: Path) -> None:
    assert_tests_pass(example, "test_metrics.py", "test_command.py")
    run_program("--cfg", "job", "imports=[tiryns_lmms_eval.metrics]", cwd=tmp_path, PYTHONPATH=example)


@pytest.mark.slow
def test_tasks_of_an_installed_example_are_measured(example: str) -> None:
    needs.package("lmms_eval")
    assert_tests_pass(example, "test_model.py", "test_tasks.py")


def test_folders_that_a_variable_names_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "experiment").mkdir(parents=True)
        text = f"# @package _global_\n# Recipe {name}.\noptimizer:\n  lr: 0.{len(name)}\n"
        (tmp_path / name / "experiment" / f"{name}.yaml").write_text(text)
    monkeypatch.setenv("TIRYNS_CONF", f"{tmp_path / 'one'}{os.pathsep}{tmp_path / 'two'}")
    for name in ("one", "two"):
        assert "lr: 0.3" in tiryns_here(tmp_path, "--cfg", "job", f"experiment={name}").stdout
        assert f"Recipe {name}." in tiryns_here(tmp_path, "--info").stdout
    monkeypatch.setenv("TIRYNS_CONF", str(tmp_path / "three"))
    done = tiryns_here(tmp_path, "--cfg", "job")
    assert done.returncode == 1
    assert done.stderr.startswith("error: TIRYNS_CONF: there is no folder")


@pytest.mark.slow
@pytest.mark.rows(1)
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "tiryns optimizer=ada",
            {"optimizer=adafactor", "optimizer=adagrad", "optimizer=adam", "optimizer=adamw"},
        ),
        ("tiryns optimizer.weight", {"optimizer.weight_decay="}),
        ("tiryns experiment=cla", {"experiment=classification"}),
    ],
)
def test_shell_completes_options_and_fields(line: str, expected: set[str], tmp_path: Path) -> None:
    """As bash does it: the installed script, and the function that it registers."""
    command = Path(sys.executable).with_name("tiryns")
    script = f"""
PATH={command.parent}:$PATH
eval "$({"tiryns" if line.endswith("cla") else "python -m tiryns"} -sc install=bash)"
complete -p tiryns >/dev/null
COMP_LINE={line!r}; COMP_POINT=${{#COMP_LINE}}; COMP_WORDS=($COMP_LINE); COMP_CWORD=1
hydra_bash_completion 2>/dev/null
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = {word.strip() for word in done.stdout.split()}
    assert expected <= found, done.stdout + done.stderr
    assert done.stderr == ""
    start = line.split()[-1]
    assert all(word.startswith(start) for word in found), (
        "what is typed is completed, and nothing else is printed"
    )
