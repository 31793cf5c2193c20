"""Each tutorial's command on a checkpoint of another's making: dropout 0.1, its own tokenizer, ragged lengths, bf16."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import ROOT
from tests.data.labelled.tasks import questions, sentences, texts
from tests.launch.test_kill import only_run
from tests.runs.test_train import losses
from tests.support.commands import blocks, commands, words_of
from tests.support.foreign_checkpoints import save_foreign_bert, save_foreign_llava
from tests.support.in_process import tiryns_here
from tests.support.vision import scenes_of_many_sizes
from tiryns.runner.cli.commands import main
from tiryns.runner.run.folder import Run

SHORT = [
    "trainer=cpu", "trainer.precision=bf16-mixed", "trainer.max_steps=4", "trainer.validate_every=2",
    "trainer.log_every=1", "sampler.global_batch_size=8", "data.num_workers=0", "data.micro_batch_tokens=300",
    "model=pretrained",
]  # fmt: skip
MASKED = ["the old [MASK] runs under the [MASK]"]


def write_text(folder: Path, text_file: Path) -> None:
    (folder / "books").mkdir()
    (folder / "books" / "herons.txt").write_text(text_file.read_text())


def write_texts(folder: Path, _: Path) -> None:
    with open(folder / "train.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, ("text", "label"))
        writer.writeheader()
        writer.writerows(texts(40))


def write_sentences(folder: Path, _: Path) -> None:
    lines = ["\n".join(map(" ".join, zip(s["words"], s["labels"], strict=True))) for s in sentences(40)]
    (folder / "train.conll").write_text("\n\n".join(lines))


def write_questions(folder: Path, _: Path) -> None:
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in questions(16)))


def write_scenes(folder: Path, _: Path) -> None:
    scenes_of_many_sizes(folder, 24).rename(folder / "rows.jsonl")


class Tutorial(NamedTuple):
    """What the command of a page is given beside its own words, and what its model is asked afterwards."""

    write: Callable[[Path, Path], None]
    """Writes the files that the page names into a folder."""
    asked: list[str]
    further: tuple[str, ...] = ()


OWN_TEXT = ("data=files", "data.source='books/*.txt'", "data.tokenizer=CHECKPOINT")
TUTORIALS = {
    "mlm": Tutorial(write_text, MASKED, OWN_TEXT[2:]),
    "enhanced_mlm": Tutorial(write_text, MASKED, OWN_TEXT),
    "diffusion": Tutorial(write_text, MASKED, OWN_TEXT),
    "classification": Tutorial(write_texts, ["seven herons watch the river"]),
    "token_classification": Tutorial(write_sentences, ["the old bridge"]),
    "question_answering": Tutorial(write_questions, ["what stands here", "--second", "the old river runs"]),
    "vision_language": Tutorial(
        write_scenes, ["what shape is red?", "--image", "IMAGE", "--max-new-tokens", "4"]
    ),
}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("foreign")
    bert, llava = save_foreign_bert(folder / "bert"), save_foreign_llava(folder / "llava")
    return {page: llava if page == "vision_language" else bert for page in TUTORIALS}


def shown_first(name: str) -> list[str]:
    """The words of the first command on data of one's own of a tutorial, or of that of its recipe on another page."""
    page = PAGES / f"{BESIDE.get(name, name)}.md"
    shown = [c for block in blocks(page) if block.language in ("bash", "sh") for c in commands(block.text)]
    wanted = f" experiment={name}" if name in BESIDE else " data="
    return words_of(next(command for command in shown if wanted in command and " outputs=" not in command))[
        1:
    ]


PAGES = ROOT / "docs" / "tutorials"
BESIDE = {"diffusion": "mlm", "enhanced_mlm": "embeddings"}
"""Recipes whose commands are on the page of another."""
OWN = {"causal", "distillation", "embeddings", "rtd"}
"""Tutorials that begin with runs of their own pages, which are run whole."""


def test_every_tutorial_is_here() -> None:
    assert TUTORIALS.keys() - BESIDE.keys() | OWN == {page.stem for page in PAGES.glob("*.md")}


@pytest.mark.rows(1)
@pytest.mark.parametrize("page", TUTORIALS)
def test_tutorial_runs_to_the_end_on_a_foreign_checkpoint(
    page: str,
    checkpoints: dict[str, Path],
    tmp_path: Path,
    text_file: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tutorial, checkpoint = TUTORIALS[page], checkpoints[page]
    tutorial.write(tmp_path, text_file)
    further = [word.replace("CHECKPOINT", str(checkpoint)) for word in tutorial.further]
    words = [*shown_first(page), *further, *SHORT]
    done = tiryns_here(tmp_path, *words, f"model.name_or_path={checkpoint}")
    assert done.returncode == 0, done.stderr
    run = only_run(tmp_path / "outputs")
    check_folder(run)
    image = next((tmp_path / "images").iterdir(), None) if (tmp_path / "images").exists() else None
    asked = [str(image) if word == "IMAGE" else word for word in tutorial.asked]
    capsys.readouterr()
    main(["predict", str(run.path), *asked])
    assert capsys.readouterr().out.strip()


def check_folder(run: Run) -> None:
    """Trained in bf16 with dropout on packed rows, validated, exported with its dropout, reported."""
    status = run.status
    assert (status["state"], status["step"]) == ("done", 4)
    assert any(name.startswith("val/") for name in status["results"])
    assert len(losses(run)) == 4
    log = (run.path / "train.log").read_text()
    assert "rows are padded" not in log, log
    assert (run.path / "report.html").stat().st_size
    saved = json.loads((run.path / "model" / "config.json").read_text())
    rates = [
        value for part in (saved, saved.get("text_config", {})) for n, value in part.items() if "dropout" in n
    ]
    assert 0.1 in rates, "dropout as it came"
