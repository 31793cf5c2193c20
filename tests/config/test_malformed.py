"""A hundred wrong commands, configs and files: one message each, exit status 1, nothing written beside the run folder."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, TINY
from tests.support.in_process import Done, tiryns_here
from tests.support.malformed.configs import CONFIGS, FILES, INPUTS, write

SMALL = [word for word in TINY if word.startswith(("model", "trainer", "sampler", "data.num_workers"))]


def assert_one_message(done: Done | subprocess.CompletedProcess[str], words: list[str]) -> None:
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    assert "the traceback is in" not in done.stderr, done.stderr
    assert done.stderr.count("error: ") == 1, done.stderr
    assert len(done.stderr.splitlines()) < 40, done.stderr
    assert len(done.stderr.partition("error: ")[2].splitlines()) == 1, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


@pytest.mark.rows(6)
@pytest.mark.parametrize(("command", "words"), CONFIGS, ids=[case[0] for case in CONFIGS])
def test_wrong_config_is_named_before_anything_is_written(
    tmp_path: Path, command: str, words: list[str]
) -> None:
    done = tiryns_here(tmp_path, *command.split(" "))
    assert_one_message(done, words)
    assert not list(tmp_path.iterdir()), "something was written"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("malformed")
    write(folder)
    return folder


@pytest.mark.rows(4)
@pytest.mark.parametrize(("command", "words"), INPUTS, ids=[" ".join(case[0]) for case in INPUTS])
def test_wrong_input_is_named_and_left_alone(folder: Path, command: list[str], words: list[str]) -> None:
    recipe = [word for word in command if word.startswith("experiment=")]
    rest = [word for word in command if word not in recipe]
    small = (
        [] if command[0].startswith("resume") else [*SMALL, "trainer.max_steps=1", "trainer.validate_every=1"]
    )
    if recipe:
        small = [word for word in small if not word.startswith("trainer.max_steps")]
    if "model=pretrained" in command:
        small = [word for word in small if not word.startswith("model")]
    done = tiryns_here(folder, *recipe, *small, *rest)
    assert_one_message(done, words)
    made = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {name for name in made if not name.startswith("outputs/")} == set(FILES)
    for name, content in FILES.items():
        assert (folder / name).read_bytes() == (content if isinstance(content, bytes) else content.encode())


def test_a_wrong_config_is_told_without_importing_torch(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from tiryns.runner.cli.commands import main\n"
        "try:\n    main(['scheduler.warmup_steps=5000'])\n"
        "except SystemExit as end:\n    assert 'max_steps' in str(end.code)\n"
        "assert not {'torch', 'lightning', 'transformers', 'numpy'} & set(sys.modules)\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
