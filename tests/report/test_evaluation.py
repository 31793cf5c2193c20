import json
from pathlib import Path
from typing import Any

from tests.report.pages import Page, make_run, read
from tiryns.runner.report.predictions import LISTED
from tiryns.runner.report.single import write_report


def evaluated(tmp_path: Path, tables: dict[str, Any], rows: list[dict[str, Any]]) -> Page:
    run = make_run(tmp_path / "run")
    found = {"examples": len(rows), "metrics": {"accuracy": 0.75}, **tables}
    (run / "evaluation.json").write_text(json.dumps({"task": "x", "step": 1, "sets": {"val/held": found}}))
    lines = [json.dumps({"set": "val/held", **row}) for row in rows]
    (run / "predictions.jsonl").write_text("\n".join(lines) + '\n{"set": "val/he')
    return read(write_report(run))


def scored(*labels: str) -> list[dict[str, Any]]:
    return [{"label": name, "precision": 0.5, "recall": 0.25, "f1": 0.33, "support": 4} for name in labels]


def example(i: int, gold: Any, predicted: Any, probability: Any = 0.9) -> dict[str, Any]:
    return {
        "id": str(i), "text": f"text {i}", "gold": gold, "predicted": predicted, "probability": probability,
    }  # fmt: skip


def test_classes_confusions_and_mistakes_are_shown(tmp_path: Path) -> None:
    tables = {"labels": ["a<b", "c"], "confusion": [[3, 1], [0, 4]], "per_class": scored("a<b", "c")}
    rows = [example(1, "c", "c"), example(2, "a<b", "c", 0.6), example(3, "c", "a<b", 0.8)]
    page = evaluated(tmp_path, tables, rows)
    assert "Evaluation: val/held, 3 examples" in page.texts("section")
    assert page.of("matrix") == [{"is": "matrix", "labels": ["a<b", "c"], "counts": [[3, 1], [0, 4]]}]
    predictions = page.table("probability")
    assert predictions.part["fold"] == "Predictions: 2 wrong, 1 right"
    assert predictions.part["label"] == "The gravest mistakes, with which the table below begins"
    assert predictions.column("text") == ["text 3", "text 2", "text 1"]
    assert [marks["class"] for marks in predictions.marks] == ["wrong", "wrong", "right"]
    assert predictions.part["first"] == [0, 1], "in sight before the others are unfolded"


def test_a_text_for_which_nothing_is_predicted_counts_by_the_probability_of_none(tmp_path: Path) -> None:
    rows = [example(1, ["a"], ["b"], [0.7]), {**example(2, ["a"], [], []), "none": 0.95}]
    predictions = evaluated(tmp_path, {}, rows).table("probability")
    assert predictions.column("text") == ["text 2", "text 1"]
    assert predictions.column("probability") == [0.95, 0.7]


def test_heading_tells_samples_from_written_answers(tmp_path: Path) -> None:
    page = evaluated(tmp_path, {"samples": 1163, "kinds": []}, [example(1, ["red"], "red", None)])
    counted = "1,163 samples (loss and token accuracy), 1 answered in writing (the rest)"
    assert f"Evaluation: val/held, {counted}" in page.texts("section")


def test_of_many_classes_the_most_frequent_confusions_are_listed(tmp_path: Path) -> None:
    labels = [f"class{i}" for i in range(40)]
    counts = [[5 if i == j else 0 for j in range(40)] for i in range(40)]
    counts[7][9] = 3
    page = evaluated(
        tmp_path,
        {"labels": labels, "confusion": counts, "per_class": scored(*labels)},
        [example(1, "a", "a")],
    )
    assert page.table("predicted as").rows == [["class7", "class9", 3, 0.375]]
    assert page.of("matrix") == []


def test_mistakes_of_every_task_are_told_apart(tmp_path: Path) -> None:
    words = {"words": ["Ada", "met", "Bo"], "text": "Ada met Bo"}
    rows = [
        example(1, ["The cat"], "cat", 0.5), example(2, [], "dog", 0.4),
        example(4, ["x", "y"], ["y", "x"], [0.9, 0.8]), example(5, ["x"], [], []),
        {**example(6, ["B-PER", "O", "B-PER"], ["B-PER", "O", "O"], [0.9, 0.9, 0.7]), **words},
        {**example(7, ["O"], ["O"], [0.9]), "words": ["fine"]}, example(8, None, "unlabelled"),
    ]  # fmt: skip
    predictions = evaluated(tmp_path, {}, rows).table("probability")
    assert predictions.part["fold"] == "Predictions: 3 wrong, 3 right"
    assert "Bo: B-PER" in predictions.column("true")
    assert "text 8" not in predictions.column("text"), "it has no label"
    assert [row[0] for row in predictions.rows[3:]] == ["text 1", "text 4", "text 7"]


def test_numbers_are_neither_right_nor_wrong_and_the_farthest_off_come_first(tmp_path: Path) -> None:
    rows = [example(1, 2.0, 2.0, None), example(2, 1.5, 0.25, None), example(3, 4.0, 1.0, None)]
    predictions = evaluated(tmp_path, {}, rows).table("predicted")
    assert predictions.part["fold"] == "Predictions: 3, the farthest off first"
    assert predictions.part["label"] == "The farthest off, with which the table below begins"
    assert predictions.column("text") == ["text 3", "text 2", "text 1"]
    assert predictions.heads == ["text", "true", "predicted"]
    assert predictions.marks == [], "none is wrong"


def test_of_many_predictions_the_gravest_mistakes_and_some_right_ones_are_listed(tmp_path: Path) -> None:
    rows = [example(i, "a", "b" if i % 2 else "a", i / 1000) for i in range(1000)]
    predictions = evaluated(tmp_path, {}, rows).table("probability")
    assert predictions.part["fold"] == f"Predictions: 500 wrong, 500 right, of which {2 * LISTED} are listed"
    assert predictions.column("text")[0] == "text 999"
    assert "text 1" not in predictions.column("text")
    assert (tmp_path / "run" / "report.html").stat().st_size < 200_000


def test_a_damaged_evaluation_is_left_out(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "evaluation.json").write_text('{"sets"')
    assert not [title for title in read(write_report(run)).texts("section") if "Evaluation" in title]
