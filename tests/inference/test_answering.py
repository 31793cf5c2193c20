"""`tiryns predict` for a vision-language model: what it answers to a file is what the run answered."""

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tiryns
from tests.inference.conftest import evaluated, printed
from tests.support.vision import SMALL, compose_vision
from tiryns.runner.cli.commands import main
from tiryns.runner.data.demo.scenes import Scenes
from tiryns.runner.run.folder import Run
from tiryns.runner.train import train

COLUMNS = {"question": "statement", "answer": "label"}


class Trained(NamedTuple):
    """A run on scenes in files of a user's own, whose questions have other names than usual."""

    path: Path
    file: Path
    rows: list[dict[str, Any]]
    images: Path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("answering")
    exported = Scenes("train", 20).export(folder)
    rows = [json.loads(line) for line in exported.read_text().splitlines()]
    rows = [{COLUMNS.get(name, name): value for name, value in row.items()} for row in rows]
    exported.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = Run(folder / "run")
    config = compose_vision(
        "data=image_text", f"data.train={exported}", f"data.validation={exported}",
        f"data.images={folder / 'images'}", "data.columns={question: statement, answer: label}", "model=llava_tiny",
        *SMALL,
    )  # fmt: skip
    run.begin(config, [])
    train(config, run)
    return Trained(run.path, exported, rows, folder / "images")


def message(*words: object) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(["predict", *map(str, words)])
    return str(stopped.value)


@pytest.mark.parametrize("with_answers", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_answers_to_a_file_are_those_of_the_run(
    trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str], with_answers: bool
) -> None:
    file = tmp_path / "rows.jsonl"
    left_out = () if with_answers else ("label", "caption")
    rows = [{name: value for name, value in row.items() if name not in left_out} for row in trained.rows]
    if not with_answers:
        for row in rows:
            row["conversations"] = row["conversations"][:-1] if "conversations" in row else None
        rows = [{name: value for name, value in row.items() if value is not None} for row in rows]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = printed(capsys, trained.path, file, "--images", trained.images, "--max-new-tokens", 4)
    told = [json.loads(line) for line in (trained.path / "predictions.jsonl").read_text().splitlines()]
    expected = [{name: line[name] for name in ("id", "image", "text", "predicted")} for line in told]
    assert len(expected) == len(trained.rows)
    found = [{name: row[name] for name in expected[0]} for row in map(json.loads, lines)]
    assert sorted(found, key=lambda row: row["id"]) == sorted(expected, key=lambda row: row["id"])


def test_one_question_is_answered_about_an_image_or_without(
    trained: Trained, capsys: pytest.CaptureFixture[str]
) -> None:
    told = [json.loads(line) for line in (trained.path / "predictions.jsonl").read_text().splitlines()]
    line = next(line for line in told if line["kind"] == "colour")
    image = trained.images / line["image"][0]
    words = (trained.path, line["text"], "--max-new-tokens", 4)
    assert printed(capsys, *words, "--image", image) == [line["predicted"] or "(no answer)"]
    assert len(printed(capsys, *words)) == 1


@pytest.mark.slow
def test_wrong_words_are_one_message(trained: Trained, tmp_path: Path) -> None:
    run, image = trained.path, next(trained.images.iterdir())
    broken = tmp_path / "broken.png"
    broken.write_bytes(image.read_bytes()[:40])
    file = tmp_path / "rows.jsonl"
    file.write_text('{"image": "../secret.png", "statement": "what?"}\n')
    assert "there is no image 'nowhere.png'" in message(run, "what?", "--image", "nowhere.png")
    assert "cannot be decoded" in message(run, "what?", "--image", broken)
    assert "leaves the folder of images" in message(run, file, "--images", trained.images)
    assert "--image is for one text" in message(run, file, "--image", image)
    assert "2 <image> places for 1 images" in message(run, "<image> and <image>?", "--image", image)
    assert "--max-new-tokens must be at least 1" in message(run, "what?", "--max-new-tokens", "0")
    assert "give a text with --image FILE" in message(run, "--length", "5")


@pytest.mark.slow
def test_opened_run_answers_rows_as_the_command_does(
    trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in trained.rows[:5]))
    command = [json.loads(line) for line in printed(capsys, trained.path, file, "--images", trained.images)]
    run = tiryns.open_run(trained.path)
    said = run.predict(trained.rows[:5], images=trained.images)
    assert said == [{name: row[name] for name in said[0]} for row in command]
    monkeypatch.chdir(trained.images)
    assert run.predict(trained.rows[0])[0]["predicted"] == command[0]["predicted"]
    assert run.predict("what is there?")[0]["image"] == []
    with pytest.raises(FileNotFoundError, match=r"there is no image 'nowhere.png'"):
        run.predict({"statement": "what?", "image": "nowhere.png"})
    with pytest.raises(ValueError, match="max_new_tokens=0"):
        run.predict("what?", max_new_tokens=0)


def test_evaluation_has_the_figures_of_the_run_to_the_last_digit(
    trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Loss, exact match, that of each type of question, and what was written; with intervals around them."""
    expected = json.loads((trained.path / "evaluation.json").read_text())["sets"]["val/validation"]
    content = evaluated(capsys, trained.path, trained.file, "--out", tmp_path, "--resamples", 50)
    assert (content["task"], content["generated_samples"], content["max_new_tokens"]) == (
        "vision_language",
        500,
        4,
    )
    (found,) = content["sets"].values()
    intervals = found.pop("intervals")
    assert found == expected
    assert {"loss", "token_accuracy", "exact_match", "exact_match_colour"} <= found["metrics"].keys()
    assert intervals.keys() == {name for name in found["metrics"] if not name.startswith("constant_")}
    assert all(low <= found["metrics"][name] <= high for name, (low, high) in intervals.items())
    assert any(low < high for low, high in intervals.values())
    ours, theirs = (
        (place / "predictions.jsonl").read_text().splitlines() for place in (tmp_path, trained.path)
    )
    without = [{**json.loads(line), "set": ""} for line in theirs]
    assert [{**json.loads(line), "set": ""} for line in ours] == without
    assert '"image":"data:image/png;base64,' in (tmp_path / "report.html").read_text()


@pytest.mark.slow
def test_evaluation_asks_as_many_questions_as_it_is_told(
    trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (few,) = evaluated(capsys, trained.path, trained.file, "--answers", 7, "--max-new-tokens", 2)[
        "sets"
    ].values()
    assert (few["examples"], few["samples"]) == (7, 20)
    file = tmp_path / "later.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in trained.rows[:9]))
    words = [f"data.images={trained.images}", "--batch-size", 2, "--answers", "all"]
    (later,) = evaluated(capsys, trained.path, file, *words)["sets"].values()
    assert (later["examples"], later["samples"]) == (9, 9)
    assert later["intervals"]["loss"][0] < later["metrics"]["loss"] < later["intervals"]["loss"][1]


def test_evaluation_of_an_exported_folder_without_its_run(
    trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It knows its columns; in fp32 and padded rows the figures agree to rounding."""
    shutil.copytree(trained.path / "model", tmp_path / "copy")
    words = [f"data.images={trained.images}", "--resamples", 0]
    content = evaluated(capsys, tmp_path / "copy", trained.file, *words)
    (found,) = content["sets"].values()
    expected = json.loads((trained.path / "evaluation.json").read_text())["sets"]["val/validation"]["metrics"]
    assert (content["precision"], content["layout"], content["max_new_tokens"]) == ("32-true", "padded", 32)
    assert found["metrics"]["loss"] == pytest.approx(expected["loss"], rel=2e-2)
    assert found["samples"] == 20


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    ("row", "words", "expected"),
    [
        ({"image": "IMAGE", "statement": "what?"}, [], "'label'"),
        ({"image": "gone.png", "statement": "what?", "label": "a"}, [], "there is no image 'gone.png'"),
        ({"statement": "what?", "label": "a"}, ["--pseudo-perplexity", "3"], "not a language model"),
        ({"statement": "what?", "label": "a"}, ["--answers", "0"], "--answers 0: expected 1 or more, or all"),
        ({"statement": "what?", "label": "a"}, ["data.imagse=."], "Did you mean 'images'?"),
    ],
)
def test_what_cannot_be_evaluated_is_one_message(
    trained: Trained, tmp_path: Path, row: dict[str, str], words: list[str], expected: str
) -> None:
    file, out = tmp_path / "rows.jsonl", tmp_path / "out"
    given = {
        name: next(trained.images.iterdir()).name if value == "IMAGE" else value
        for name, value in row.items()
    }
    file.write_text(json.dumps(given) + "\n")
    with pytest.raises(SystemExit, match="error: ") as stopped:
        main(["evaluate", str(trained.path), str(file), *words, "--out", str(out)])
    assert expected in str(stopped.value)
    assert not out.exists()
