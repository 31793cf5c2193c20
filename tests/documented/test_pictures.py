"""The pictures of the documentation show today's program; `make pictures` takes them anew where one of these fails."""

import json
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.documented.pictures import FOLDER, MADE_OF, made_of, plain, screens_of, share_done

SHORT = [
    "data=files", "data.vocab_size=300", "data.num_workers=0", "model=modernbert_tiny", "trainer=cpu",
    "trainer.precision=32-true", "trainer.max_steps=6", "trainer.validate_every=2", "trainer.log_every=1",
]  # fmt: skip


@pytest.fixture(scope="module")
def today(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> dict[str, list[str]]:
    """What pictures of a short run would show."""
    folder = tmp_path_factory.mktemp("today")
    screens = list(screens_of(folder, *SHORT, f"data.source={text_file}"))
    (report,) = folder.glob("outputs/*/*/report.html")
    return made_of(next(screen for screen in screens if share_done(screen) > 0.5), report)


@pytest.mark.parametrize("picture", ["terminal.svg", "report.png"])
def test_picture_shows_the_names_of_today(picture: str, today: dict[str, list[str]]) -> None:
    assert today[picture] == json.loads(MADE_OF.read_text())[picture], "`make pictures` takes it anew"
    assert (FOLDER / picture).stat().st_size > 10_000


def test_terminal_is_what_its_names_were_read_from() -> None:
    shown = (FOLDER / "terminal.svg").read_text().replace("&#160;", " ")
    missing = [name for name in json.loads(MADE_OF.read_text())["terminal.svg"] if name not in shown]
    assert missing == []


def test_readme_says_the_loss_of_the_picture() -> None:
    loss = float(json.loads(MADE_OF.read_text())["loss"])
    assert f"picture reaches **{loss:.2f}**" in (ROOT / "README.md").read_text().replace("\n", " ")


def test_lines_of_a_terminal_are_plain_without_their_colours() -> None:
    assert plain("\x1b[1m$ tiryns\x1b[0m") == "$ tiryns"
