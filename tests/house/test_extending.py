"""The page on extending is followed from top to bottom: its files are written, its commands run."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.conf.test_options import GIVEN
from tests.conftest import ROOT, TINY, run_program
from tests.support.commands import blocks, commands, part
from tests.support.in_process import tiryns_here
from tests.support.installed import install_project

PAGE = ROOT / "docs" / "extending.md"

SHORT = ["trainer.max_steps=3", "trainer.validate_every=0"]

ELSEWHERE = ("A project of your own", "Metrics of your own", "Tasks of your own")
"""Parts of the page that other tests follow."""
PARTS = [name for name in re.findall(r"^## (.+)$", PAGE.read_text(), re.MULTILINE) if name not in ELSEWHERE]

SHOWN = blocks(PAGE, *PARTS)
RUN = [command for block in SHOWN if block.language == "bash" for command in commands(block.text)]


def words_of(command: str, text_file: Path) -> list[str]:
    """The words of a command, with those of a tiny run that it does not decide itself."""
    words = [word for word in shlex.split(command) if not re.match(r"PYTHONPATH=|tiryns$", word)]
    mine = {re.split(r"[=.@]", word.lstrip("+~"))[0] for word in words if not word.startswith("-")}
    tiny = [word for word in [*TINY, *SHORT] if re.split(r"[=.]", word)[0] not in mine]
    tiny += [] if "data" in mine else [f"data.source={text_file}"]
    if "--cfg" in words or any(word.startswith("experiment=") for word in words):
        tiny = [word for word in tiny if not word.startswith(("model", "optimizer"))]
    if "data=files" in words:
        tiny += [word for word in TINY if word.startswith("data.") and word != "data=files"]
    return [*words, *tiny]


def write_files(folder: Path) -> None:
    for block in SHOWN:
        if block.title:
            path = folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)


@pytest.mark.rows(1)
@pytest.mark.parametrize("command", RUN, ids=lambda command: command[-60:])
def test_command_trains(
    command: str, tmp_path: Path, text_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.startswith("my_")]:
        monkeypatch.delitem(sys.modules, name)
    done = tiryns_here(tmp_path, *words_of(command, text_file))
    assert done.returncode == 0, done.stdout + done.stderr
    if "--cfg" not in command:
        (status,) = tmp_path.glob("outputs/*/*/status.json")
        assert '"state": "done"' in status.read_text()
        config = (status.parent / "config.yaml").read_text()
        assert all(
            f"_target_: {module}." in config for module in re.findall(r"allowed_targets=\[(\w+)\]", command)
        )
    if "my_callbacks" in command:
        assert "hi, 3 steps" in done.stdout
    if "my_logger" in command:
        assert next(tmp_path.glob("outputs/*/*/lines.txt")).read_text().startswith("1 [")
    if "my_source" in command:
        assert "500 sheep" in done.stdout


@pytest.mark.slow
def test_package_of_the_page_is_installed_and_trains(tmp_path: Path, text_file: Path) -> None:
    write_files(tmp_path / "source")
    (tmp_path / "source" / "my_package" / "__init__.py").touch()
    paths = install_project(tmp_path / "source", tmp_path / "site")
    words = ["objective=loud", *TINY, *SHORT, f"data.source={text_file}"]
    run_program(*words, "hydra.run.dir=out", cwd=tmp_path, PYTHONPATH=paths)
    assert "loudness: 1.5" in (tmp_path / "out" / "config.yaml").read_text()
    done = run_program(*words, "objective.loudnes=1", cwd=tmp_path, check=False, PYTHONPATH=paths)
    assert "Did you mean 'objective.loudness'?" in done.stderr


def test_table_says_what_each_group_is_called_with() -> None:
    rows = re.findall(r"^\| `(\w+)` \|([^|]*)\|([^|]*)\|([^|]*)\|$", part(PAGE, PARTS[0]), re.MULTILINE)
    shown = {group: set(re.findall(r"`(\w+)`", values)) for group, _, values, _ in rows}
    assert shown == {group: names for group, names in GIVEN.items() if "/" not in group}
