"""`tiryns evaluate` for labelled data: the numbers of the run's test to the last digit, intervals, files, page."""

import csv
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

from tests.data.pairs.rows import write
from tests.inference.conftest import Runs, entry, evaluated, finetuned
from tests.modules.conftest import TASKS
from tests.report.pages import read
from tiryns.runner.cli.commands import main
from tiryns.runner.inference.labelled import Labels
from tiryns.runner.inference.language.infill import open_model
from tiryns.runner.inference.predictor import Predictor
from tiryns.runner.tasks import get_task

FEW = ["--resamples", "20"]


def of_the_test(run: Path) -> dict[str, Any]:
    return json.loads((run / "evaluation.json").read_text())["sets"]["test/test"]


@pytest.mark.rows(1)
@pytest.mark.parametrize("task", TASKS)
def test_figures_and_tables_are_those_of_the_runs_test_to_the_last_digit(
    runs: Runs, task: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run, file = runs[task]
    expected, found = of_the_test(run), entry(capsys, run, file)
    assert found["metrics"] == expected["metrics"]
    assert "loss" in found["metrics"]
    intervals = found.pop("intervals")
    assert intervals.keys() == found["metrics"].keys()
    assert all(low <= high for low, high in intervals.values())
    for table in {"per_class", "entities"} & found.keys():
        for row in found[table]:
            assert row.pop("intervals").keys() == {"precision", "recall", "f1"}
    assert found.pop("unlabelled") == 0
    assert found == expected


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bf16-true", "64-true"])
def test_figures_are_those_of_a_run_whose_weights_are_not_fp32(
    precision: str, runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = runs["classification"][1]
    sets = [f"data.train={file}", f"data.test={file}", "trainer.max_steps=2", "trainer.validate_every=0"]
    run = finetuned(tmp_path / "run", *TASKS["classification"], *sets, f"trainer.precision={precision}")
    found = entry(capsys, run, file, *FEW)["metrics"]
    assert found == of_the_test(run)["metrics"]
    assert entry(capsys, run, file, *FEW, "--precision", "32-true")["metrics"]["loss"] != found["loss"]


@pytest.mark.slow
def test_exported_folder_has_the_runs_figures(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`RUN/model` is the run; a copy elsewhere knows its task, and is computed in fp32 and padded rows."""
    run, file = runs["token_classification"]
    assert entry(capsys, run / "model", file) == entry(capsys, run, file)
    shutil.copytree(run / "model", tmp_path / "copy")
    found = evaluated(capsys, tmp_path / "copy", file)
    assert (found["precision"], found["layout"]) == ("32-true", "padded")
    loss = found["sets"][str(file)]["metrics"]["loss"]
    assert loss == pytest.approx(of_the_test(run)["metrics"]["loss"], rel=2e-2)


def test_questions_without_known_answers_have_no_loss(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, file = runs["question_answering"]
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    more = write(
        tmp_path / "more.jsonl", rows + [{**row, "id": f"{row['id']}?", "answers": None} for row in rows]
    )
    found, expected = entry(capsys, run, more, *FEW), entry(capsys, run, file, *FEW)
    assert (found["examples"], found["unlabelled"]) == (2 * len(rows), len(rows))
    assert found["metrics"] == pytest.approx(expected["metrics"], rel=1e-5)


@pytest.mark.slow
def test_loss_of_each_example_adds_up_to_the_loss(runs: Runs) -> None:
    for task in TASKS:
        run, file = runs[task]
        model: Any = Predictor(str(run)).kind
        found = model.measure(model.samples(model.rows_of(str(file))))
        assert len(found.sums["loss"]) == 17, task
        weights = found.sums["weight"].tolist()
        if task == "token_classification":
            rows = [json.loads(line) for line in file.read_text().splitlines()]
            assert weights == [len(row["words"]) for row in rows]
        else:
            assert weights == pytest.approx([1.0] * 17)
        mean = found.sums["loss"].sum() / found.sums["weight"].sum()
        assert mean == pytest.approx(found.figures["loss"], rel=1e-5), task


@pytest.mark.slow
def test_several_files_make_a_row_each_and_one_json(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, file = runs["classification"]
    half = tmp_path / "half.jsonl"
    half.write_text("".join(file.read_text().splitlines(keepends=True)[:8]))
    capsys.readouterr()
    main(["evaluate", str(run), str(file), str(half), "--out", str(tmp_path / "out"), *FEW])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["file", "examples", "loss"]
    assert [line.split()[:2] for line in lines[1:]] == [[str(file), "17"], [str(half), "8"]]
    content = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert content["sets"][str(file)] == entry(capsys, run, file, *FEW)
    assert content["sets"][str(half)] == entry(capsys, run, half, *FEW)
    rows = [json.loads(line) for line in (tmp_path / "out" / "predictions.jsonl").read_text().splitlines()]
    assert Counter(row["set"] for row in rows) == {str(file): 17, str(half): 8}
    right = sum(row["gold"] == row["predicted"] for row in rows[17:])
    assert content["sets"][str(half)]["metrics"]["accuracy"] == right / 8


def test_examples_without_a_label_are_counted_apart(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, file = runs["classification"]
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    some = tmp_path / "some.jsonl"
    labels = [row if i % 3 else {"text": row["text"]} for i, row in enumerate(rows)]
    some.write_text("".join(json.dumps(row) + "\n" for row in labels))
    found = entry(capsys, run, some, *FEW)
    assert (found["examples"], found["unlabelled"]) == (17, 6)
    assert sum(row["support"] for row in found["per_class"]) == 11
    main(["evaluate", str(run), str(some), str(file), "--out", str(tmp_path / "out"), *FEW])
    heads, first, second = capsys.readouterr().out.splitlines()
    assert "without label" in heads
    assert (first.split()[1:3], second.split()[1]) == (["17", "6"], "17")
    assert "without label" in read(tmp_path / "out" / "report.html").heads


def test_json_has_the_keys_that_are_documented(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    run, file = runs["classification"]
    content = evaluated(capsys, run, file, "--resamples", 20)
    computed = ["precision", "layout", "micro_batch_tokens", "micro_batch_size"]
    assert list(content) == ["model", "task", *computed, "interval", "sets"]
    assert content["interval"] == {"level": 0.95, "resamples": 20, "seed": 0, "over": "examples"}
    found = content["sets"][str(file)]
    keys = ["kind", "examples", "metrics", "labels", "per_class", "confusion", "intervals", "unlabelled"]
    assert list(found) == keys
    assert list(found["per_class"][0]) == ["label", "precision", "recall", "f1", "support", "intervals"]


def test_page_shows_figures_with_intervals_classes_and_mistakes(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, file = runs["token_classification"]
    main(["evaluate", str(run), str(file), "--out", str(tmp_path)])
    assert "written to" in capsys.readouterr().err
    page = read(tmp_path / "report.html")
    assert {f"Evaluation: {file}, 17 examples", "How it was computed", "Files"} <= {*page.texts("section")}
    assert "intervals from 1,000 bootstrap resamples of the examples (seed 0)" in page.text
    assert "interval of F1" in page.heads
    assert "Entities" in page.texts("label")
    assert page.table("probability").part["fold"].startswith("Predictions: ")
    [entry] = json.loads((tmp_path / "evaluation.json").read_text())["sets"].values()
    assert page.text.count("[") == len(entry["intervals"]) == 5, "each interval once"


def test_micro_batches_do_not_change_the_figures(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    run, file = runs["classification"]
    expected = of_the_test(run)["metrics"]
    for words in (["--tokens", 60], ["--precision", "32-true"], ["--batch-size", 2]):
        content = evaluated(capsys, run, file, *words, "--resamples", 0)
        assert content["sets"][str(file)]["metrics"]["loss"] == pytest.approx(expected["loss"], rel=1e-2)
    assert content["micro_batch_size"] == 2


TEXTS = [f"seven herons {'watch ' * (n % 4)}the {'river' if n % 3 else 'bridge'}" for n in range(12)]


@pytest.fixture(scope="module")
def foreign(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier that transformers alone has written."""
    folder = tmp_path_factory.mktemp("foreign")
    sizes: dict[str, Any] = {"id2label": {0: "cold", 1: "warm"}, "label2id": {"cold": 0, "warm": 1}}
    sizes |= {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 16}
    tokenizer = AutoTokenizer.from_pretrained(runs["classification"][0] / "model")
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(vocab_size=len(tokenizer), **sizes))
    with torch.no_grad():  # so that it predicts both labels
        logits = torch.cat([model.eval()(**tokenizer(text, return_tensors="pt")).logits for text in TEXTS])
        model.classifier.bias[0] -= (logits[:, 0] - logits[:, 1]).median()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def losses_of(folder: Path, file: Path) -> list[float]:
    """The loss of each example of a file, whose texts are in `sentence`."""
    changes = {"text_column": "sentence"}
    model = Labels(str(folder), get_task("classification"), open_model(str(folder)), changes)
    found = model.measure(model.samples(model.rows_of(str(file))), tokens=40)
    return found.sums["loss"].tolist()


@pytest.mark.slow
@pytest.mark.rows(1)
@pytest.mark.parametrize("kind", ["names", "numbers", "digits"])
def test_classifier_that_transformers_wrote_alone(
    foreign: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Labels are its names or its class numbers; loss and accuracy are those of its own forward pass."""
    truth = [n % 2 for n in range(12)]
    file = tmp_path / ("rows.csv" if kind == "digits" else "rows.jsonl")
    labels = [["cold", "warm"][n] if kind == "names" else n for n in truth]
    if kind == "digits":
        with file.open("w", newline="") as table:
            csv.writer(table).writerows([("sentence", "label"), *zip(TEXTS, labels, strict=True)])
    else:
        pairs = zip(TEXTS, labels, strict=True)
        file.write_text("".join(json.dumps({"sentence": t, "label": n}) + "\n" for t, n in pairs))
    found = entry(capsys, foreign, file, "data.text_column=sentence")
    model = BertForSequenceClassification.from_pretrained(foreign).eval()
    tokenizer = AutoTokenizer.from_pretrained(foreign)
    with torch.no_grad():
        logits = torch.cat([model(**tokenizer(text, return_tensors="pt")).logits for text in TEXTS])
    chosen = logits.argmax(-1).tolist()
    assert {*chosen} == {0, 1}
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(truth))
    assert found["metrics"]["loss"] == pytest.approx(float(loss), rel=1e-5)
    losses = torch.nn.functional.cross_entropy(logits, torch.tensor(truth), reduction="none")
    assert losses_of(foreign, file) == pytest.approx(losses.tolist(), rel=1e-4)
    right = [sum(c == t == n for c, t in zip(chosen, truth, strict=True)) for n in (0, 1)]
    assert found["metrics"]["accuracy"] == sum(right) / 12
    f1 = [2 * r / (chosen.count(n) + truth.count(n)) for n, r in enumerate(right)]
    assert found["metrics"]["macro_f1"] == pytest.approx(sum(f1) / 2, rel=1e-12)
    assert [row["label"] for row in found["per_class"]] == ["cold", "warm"]
    assert [row["support"] for row in found["per_class"]] == [6, 6]


def test_regression_of_a_foreign_model_of_one_label(
    foreign: Path, runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(foreign)
    config = BertConfig.from_pretrained(foreign, num_labels=1)
    BertForSequenceClassification(config).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    rows = [{"text": f"{'herons ' * n}watch", "label": n / 4} for n in range(1, 9)]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = entry(capsys, tmp_path / "model", file)
    assert found["metrics"].keys() == {"loss", "pearson", "spearman", "mse"}
    assert found["metrics"]["mse"] == pytest.approx(found["metrics"]["loss"], rel=1e-5)
