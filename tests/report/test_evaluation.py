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
        "id": str(i),
        "text": f"text {i}",
        "gold": gold,
        "predicted": predicted,
        "probability": probability,
    }


def test_classes_confusions_and_mistakes_are_shown(tmp_path: Path) -> None:
    tables = {"labels": ["a<b", "c"], "confusion": [[3, 1], [0, 4]], "per_class": scored("a<b", "c")}
    rows = [example(1, "c", "c"), example(2, "a<b", "c", 0.6), example(3, "c", "a<b", 0.8)]
    page = evaluated(tmp_path, tables, rows)
    assert "Evaluation: val/held, 3 examples" in page.texts("h2")
    assert page.texts("td", "number right") == ["3", "4"]
    marked = [marks for tag, marks, _ in page.elements if tag == "td" and "--share" in marks.get("style", "")]
    assert [(m["title"], m["style"]) for m in marked[:2]] == [
        ("a<b as a<b", "--share:0.750"),
        ("a<b as c", "--share:0.250"),
    ]
    assert "Predictions: 2 wrong, 1 right" in page.texts("summary")
    assert "The gravest mistakes, with which the table below begins" in page.text
    assert page.text.index("text 3") < page.text.index("text 2") < page.text.index("text 1")
    judged = [marks["class"] for tag, marks, _ in page.elements if tag == "tr" and marks.get("class")]
    assert judged == [
        "wrong",
        "wrong",
        "wrong",
        "wrong",
        "right",
    ]  # the gravest in sight, then all that are folded


def test_a_text_for_which_nothing_is_predicted_counts_by_the_probability_of_none(tmp_path: Path) -> None:
    rows = [example(1, ["a"], ["b"], [0.7]), {**example(2, ["a"], [], []), "none": 0.95}]
    page = evaluated(tmp_path, {}, rows)
    assert page.text.index("text 2") < page.text.index("text 1")
    assert "0.9500" in page.text


def test_heading_tells_samples_from_written_answers(tmp_path: Path) -> None:
    page = evaluated(tmp_path, {"samples": 1163, "kinds": []}, [example(1, ["red"], "red", None)])
    counted = "1,163 samples (loss and token accuracy), 1 answered in writing (the rest)"
    assert f"Evaluation: val/held, {counted}" in page.texts("h2")


def test_of_many_classes_the_most_frequent_confusions_are_listed(tmp_path: Path) -> None:
    labels = [f"class{i}" for i in range(40)]
    counts = [[5 if i == j else 0 for j in range(40)] for i in range(40)]
    counts[7][9] = 3
    page = evaluated(
        tmp_path,
        {"labels": labels, "confusion": counts, "per_class": scored(*labels)},
        [example(1, "a", "a")],
    )
    row = [t for t in page.texts("tr") if t.startswith("class7") and "class9" in t]
    assert row == ["class7class930.3750"]
    assert page.texts("table", "matrix") == []


def test_mistakes_of_every_task_are_told_apart(tmp_path: Path) -> None:
    words = {"words": ["Ada", "met", "Bo"], "text": "Ada met Bo"}
    rows = [
        example(1, ["The cat"], "cat", 0.5),
        example(2, [], "dog", 0.4),
        example(4, ["x", "y"], ["y", "x"], [0.9, 0.8]),
        example(5, ["x"], [], []),
        {**example(6, ["B-PER", "O", "B-PER"], ["B-PER", "O", "O"], [0.9, 0.9, 0.7]), **words},
        {**example(7, ["O"], ["O"], [0.9]), "words": ["fine"]},
        example(8, None, "unlabelled"),
    ]
    page = evaluated(tmp_path, {}, rows)
    assert "Predictions: 3 wrong, 3 right" in page.texts("summary")
    assert "Bo: B-PER" in page.text
    assert "unlabelled" not in page.text
    wrong = ["".join(t) for tag, m, t in page.elements if tag == "tr" and m.get("class") == "wrong"]
    assert not [row for row in wrong if row.startswith(("text 1", "text 4", "text 7"))]


def test_numbers_are_neither_right_nor_wrong_and_the_farthest_off_come_first(tmp_path: Path) -> None:
    rows = [example(1, 2.0, 2.0, None), example(2, 1.5, 0.25, None), example(3, 4.0, 1.0, None)]
    page = evaluated(tmp_path, {}, rows)
    assert "Predictions: 3, the farthest off first" in page.texts("summary")
    assert "The farthest off, with which the table below begins" in page.texts("p", "label")
    assert page.text.index("text 3") < page.text.index("text 2") < page.text.index("text 1")
    assert page.texts("th")[:3] == ["text", "true", "predicted"]
    assert "probability" not in page.texts("button")
    assert "only wrong" not in page.texts("label")
    assert not [m for tag, m, _ in page.elements if tag == "tr" and m.get("class")]


def test_of_many_predictions_the_gravest_mistakes_and_some_right_ones_are_listed(tmp_path: Path) -> None:
    rows = [example(i, "a", "b" if i % 2 else "a", i / 1000) for i in range(1000)]
    page = evaluated(tmp_path, {}, rows)
    assert f"Predictions: 500 wrong, 500 right, of which {2 * LISTED} are listed" in page.texts("summary")
    assert "text 999" in page.text
    assert "text 1" not in page.texts("th")
    assert (tmp_path / "run" / "report.html").stat().st_size < 200_000


def test_a_damaged_evaluation_is_left_out(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "evaluation.json").write_text('{"sets"')
    assert not [title for title in read(write_report(run)).texts("h2") if title.startswith("Evaluation")]
