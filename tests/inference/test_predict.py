"""`tiryns predict` for every task: what it says of a file is what the run said of it."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import tiryns
from tests.conftest import few_of
from tests.inference.conftest import Runs, finetuned, printed
from tests.models.every_encoder import tiny_model
from tests.modules.conftest import TASKS
from tests.support.precision import rounding
from tiryns.runner.cli.commands import main
from tiryns.runner.data.text.tokenizer import train_tokenizer
from tiryns.runner.inference.labelled import Labels
from tiryns.runner.inference.predictor import Predictor
from tiryns.runner.models.finetuning import SequenceClassifier


@pytest.mark.rows(2)
@pytest.mark.parametrize("task", TASKS)
def test_predictions_for_a_file_are_those_of_the_run(
    runs: Runs, task: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run, file = runs[task]
    found = [json.loads(line) for line in printed(capsys, run, file)]
    lines = (run / "predictions.jsonl").read_text().splitlines()
    theirs = [row for row in map(json.loads, lines) if row.get("set", "test/test") == "test/test"]
    assert len(found) == 17
    assert [row["predicted"] for row in found] == [row["predicted"] for row in theirs]
    for ours, other in zip(found, theirs, strict=True):
        assert ours["id"] == other["id"]
        assert "gold" not in ours
        assert ours["probability"] == pytest.approx(other["probability"], abs=rounding(1e-4, 1e-2))


@pytest.mark.rows(1)
@pytest.mark.parametrize("task", few_of(TASKS, ("classification", "question_answering")))
def test_opened_run_says_of_rows_what_the_command_says_of_their_file(
    runs: Runs, task: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path, file = runs[task]
    written = [json.loads(line) for line in printed(capsys, path, file)]
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    run = tiryns.open_run(path)
    said = run.predict(rows)
    command = [{name: row[name] for name in said[0]} for row in written]  # which has the file's columns too
    assert [{name: row[name] for name in rows[0]} for row in written] == rows
    assert [{**row, "id": 0} for row in said] == [{**row, "id": 0} for row in command]
    assert run.predict(rows[0])[0]["predicted"] == command[0]["predicted"]
    column = {"classification": "text", "token_classification": "words"}.get(task)
    if column is None:
        with pytest.raises(ValueError, match=r"give the (context|choices)"):
            run.predict("a question without a context, or a text without choices")
    else:
        text = " ".join(rows[0][column]) if task == "token_classification" else rows[0][column]
        for given in (text, {column: text}):
            assert run.predict(given)[0]["predicted"] == command[0]["predicted"]


@pytest.mark.rows(1)
@pytest.mark.parametrize("task", few_of(TASKS, ("classification", "question_answering")))
def test_figures_of_a_file_are_those_of_the_runs_test(
    runs: Runs, task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, file = runs[task]
    metrics = json.loads((run / "evaluation.json").read_text())["sets"]["test/test"]["metrics"]
    printed(capsys, run, file, "--out", tmp_path / "out.jsonl")
    figures = json.loads((tmp_path / "out.figures.json").read_text())
    assert figures == metrics
    main(["predict", str(run), str(file)])
    shown = dict(line.split() for line in capsys.readouterr().err.splitlines())
    assert {name: float(value) for name, value in shown.items()} == pytest.approx(figures, rel=1e-5)


def relabelled(runs: Runs, path: Path, label: Any) -> Path:
    """The classification file with other labels; without any where these are None."""
    rows = [json.loads(line) for line in runs["classification"][1].read_text().splitlines()]
    new = [{"text": row["text"], **({} if label is None else {"label": label})} for row in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in new))
    return path


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    ("label", "said"), [(None, ""), ("", ""), ("elephants", "'elephants' does not occur")]
)
def test_file_without_labels_that_are_known_has_no_figures(
    runs: Runs, tmp_path: Path, label: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    run, _ = runs["classification"]
    file = relabelled(runs, tmp_path / "file.jsonl", label)
    with caplog.at_level("WARNING", "tiryns"):
        main(["predict", str(run), str(file), "--out", str(tmp_path / "out.jsonl")])
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 17
    assert not (tmp_path / "out.figures.json").exists()
    assert said in caplog.text
    assert bool(caplog.text) == bool(said)


@pytest.mark.slow
@pytest.mark.parametrize("kind", few_of(["regression", "class numbers", "several"], ["regression"]))
def test_labels_of_a_table_are_read_as_in_training(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    label = {
        "regression": lambda n: n / 4,
        "class numbers": lambda n: n % 2,
        "several": lambda n: "|".join(["a", "b"][: 1 + n % 2]),
    }[kind]
    table = tmp_path / "table.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *((f"herons {n}", label(n)) for n in range(30))])
    words = [*TASKS["classification"], f"data.train={table}", f"data.test={table}", "trainer.max_steps=1"]
    words += ["data.label_separator='|'"] if kind == "several" else []
    run = finetuned(tmp_path / "run", *words, "trainer.validate_every=0")
    metrics = json.loads((run / "evaluation.json").read_text())["sets"]["test/test"]["metrics"]
    printed(capsys, run, table, "--out", tmp_path / "out.jsonl")
    figures = json.loads((tmp_path / "out.figures.json").read_text())
    assert {"regression": "spearman", "class numbers": "mcc", "several": "micro_f1"}[kind] in figures
    assert figures == metrics


@pytest.mark.slow
def test_file_of_another_format_goes_by_its_ending(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, file = runs["token_classification"]
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    table = tmp_path / "test.conll"
    table.write_text("".join("".join(f"{word} O\n" for word in row["words"]) + "\n" for row in rows))
    shutil.copytree(run / "model", tmp_path / "model")
    task = tmp_path / "model" / "task.json"
    known = json.loads(task.read_text())
    task.write_text(json.dumps({**known, "data": {**known["data"], "format": "jsonl"}}))
    found = [json.loads(line) for line in printed(capsys, tmp_path / "model", table)]
    expected = [json.loads(line) for line in printed(capsys, run, file)]
    assert [row["predicted"] for row in found] == [row["predicted"] for row in expected]
    shown = list(csv.DictReader(printed(capsys, run, table, "--format", "csv")))
    assert [json.loads(row["words"]) for row in shown] == [row["words"] for row in rows]
    (line,) = csv.DictReader(printed(capsys, run, "old bridge runs", "--format", "csv"))
    assert json.loads(line["words"]) == ["old", "bridge", "runs"]
    assert len(json.loads(line["predicted"])) == 3


@pytest.mark.slow
def test_one_text_is_answered_in_words(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = printed(capsys, runs["classification"][0], "seven herons watch the herons")
    label, probability = line.split()
    assert label in ("birds", "stones", "none")
    assert 0 < float(probability) <= 1
    (line,) = printed(capsys, runs["token_classification"][0], "old bridge runs")
    assert [word.partition("/")[0] for word in line.split()] == ["old", "bridge", "runs"]
    assert {word.partition("/")[2] for word in line.split()} <= {"O", "B-PLACE", "I-PLACE", "B-ANIMAL"}
    (line,) = printed(capsys, runs["question_answering"][0], "what stands here", "--second", "the old bridge")
    answer = line.rsplit("  ", 1)[0]
    assert answer == "(no answer)" or answer in "the old bridge"


@pytest.mark.slow
def test_pairs_are_given_as_two_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = tmp_path / "pairs.csv"
    with pairs.open("w", newline="") as file:
        rows = [(f"herons {n}", f"bridge {n}", "yes" if n % 2 else "no") for n in range(30)]
        csv.writer(file).writerows([("text", "other", "label"), *rows])
    words = [*TASKS["classification"], f"data.train={pairs}", "data.pair_column=other", "trainer.max_steps=1"]
    run = finetuned(tmp_path / "pairs", *words, "trainer.validate_every=0")
    (line,) = printed(capsys, run, "herons 3", "--second", "bridge 3")
    assert line.split()[0] in ("yes", "no")
    assert json.loads(printed(capsys, run, pairs)[0])["pair"] == "bridge 0"
    with pytest.raises(SystemExit, match="give the other with --second TEXT"):
        main(["predict", str(run), "herons 3"])


def test_model_of_others_is_read_by_its_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """However long a text it reads, whatever its encoder was trained as before, and with a config.yaml beside."""
    (tmp_path / "config.yaml").write_text("name: mine\n")
    (tmp_path / "later.txt").write_text("the winter again " * 20)
    tokenizer = train_tokenizer(["the winter again"] * 9, "wordpiece", 60, True)
    labels = {"id2label": {0: "cold", 1: "warm"}, "label2id": {"cold": 0, "warm": 1}}
    heads = {"bert": "token_classification", "distilbert": "classification", "roberta": "classification"}
    for architecture, head in heads.items():
        model, folder = tiny_model(architecture, head, **labels), tmp_path / architecture
        model.config.tiryns_objective = "clm"
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        (line,) = printed(capsys, folder, "winter again " * 80)
        assert "cold" in line or "warm" in line
    SequenceClassifier(model, "single_label_classification")
    assert not hasattr(model.config, "tiryns_objective")
    tiny_model("roberta", "mlm").save_pretrained(folder)
    assert len(printed(capsys, folder, "--length", 77, "--steps", 1)) == 1
    with pytest.raises(SystemExit, match="80 tokens, more than the 79 that the model can take"):
        main(["predict", str(folder), "--length", "78"])
    main(["evaluate", str(folder), str(tmp_path / "later.txt"), "--resamples", "0"])
    assert "perplexity" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["gone.csv"], "there is no file 'gone.csv'"),
        ([f"{Path(__file__).parent}/gone again.csv"], "gone again.csv'"),
        ([str(Path(__file__).parent)], "holds no file of a known format"),
        ([f"{Path(__file__).parent}@test"], "has no split 'test'"),
        (["herons " * 50, "--length", "5"], "--length is for language models"),
        (["a text", "more.csv"], "unrecognized arguments: more.csv: expected one text or file"),
        (["a text", "--out", "predicted.csv.gz"], "not written compressed; leave out .gz"),
        (["a text", "--second", "another"], "--second is for pairs and questions"),
        (["a text", "--image", "a.png"], "reads no images"),
    ],
)
def test_wrong_words_are_one_message(runs: Runs, words: list[str], expected: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["predict", str(runs["classification"][0]), *words])
    assert str(stopped.value.code).startswith("error: ")
    assert expected in str(stopped.value.code)


def test_ids_are_counted_over_batches(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Labels, "at_once", 4)
    found = Predictor(runs["classification"][0]).predict(["old bridge"] * 6)
    assert [one["id"] for one in found] == list("012345")
