"""Tasks of lmms-eval, its own and local ones, by its evaluator; skipped where it is not installed."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import CHOICES, PROMPTS, Made, predicted

from tiryns.conf import registry
from tiryns.runner.inference.answering import AnswersAsTested
from tiryns.runner.inference.kinds import PredictOptions
from tiryns.runner.inference.predictor import Predictor

pytest.importorskip("lmms_eval")

from tiryns_lmms_eval.command import main
from tiryns_lmms_eval.tasks import FoundTasks

AS_PREDICTED = ["--precision", "32-true"]
"""As `tiryns predict` computes, whatever the precision of the run."""


def lines_of(folder: Path, name: str) -> list[dict[str, Any]]:
    every = map(json.loads, (folder / "predictions.jsonl").read_text().splitlines())
    return [line for line in every if line["set"] == name]


def test_figures_are_those_of_predictions(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = registry.METRICS.get("vision_language", {})
    monkeypatch.setitem(registry.METRICS, "vision_language", dict(known))  # which the import adds to
    from tiryns_lmms_eval.metrics import NormalizedLevenshtein, RelaxedAccuracy

    words = ["--tasks", "both,choice,long", "--include-path", str(made.tasks), *AS_PREDICTED]
    capsys.readouterr()
    main([str(made.run), *words, "--out", str(tmp_path), "--json"])
    told = json.loads(capsys.readouterr().out)
    content = json.loads((tmp_path / "evaluation.json").read_text())
    assert content == told
    assert (tmp_path / "report.html").stat().st_size
    sets = content["sets"]
    assert set(sets) == {"both", "chart", "doc", "choice", "long"}
    predictor = Predictor(made.run)
    for name, figure, metric in (
        ("chart", "relaxed_overall", RelaxedAccuracy()),
        ("doc", "anls", NormalizedLevenshtein()),
    ):
        texts, lines = predicted(predictor, name, made.rows, made.images), lines_of(tmp_path, name)
        assert [line["predicted"] for line in lines] == texts
        assert [line["text"] for line in lines] == [row["question"] + PROMPTS[name] for row in made.rows]
        gold = [[row[name]] if name == "chart" else [row[name], "the sea"] for row in made.rows]
        assert [line["gold"] for line in lines] == gold
        scores = [metric.score(text, accepted) for text, accepted in zip(texts, gold, strict=True)]
        assert [line["scores"][figure] for line in lines] == pytest.approx(scores)
        mean = sets[name]["metrics"][figure]
        assert 0 < mean < 1, "some answers are right, and some are wrong"
        assert mean == pytest.approx(sum(scores) / len(scores))
        low, high = sets[name]["intervals"][figure]
        assert low < mean < high
    halves = ("relaxed_human_split", "relaxed_augmented_split")
    assert sum(sets["chart"]["metrics"][half] for half in halves) / 2 == pytest.approx(
        sets["chart"]["metrics"]["relaxed_overall"]
    )
    assert sets["both"]["examples"] == 16
    assert sets["both"]["tasks"] == ["chart", "doc"]

    assert sets["long"]["too_long"] == len(made.rows)
    assert {line["predicted"] for line in lines_of(tmp_path, "long")} == {""}
    assert "too_long" not in sets["chart"]

    # a choice is the one whose loss, as `tiryns evaluate` has it, is least
    file = tmp_path / "choices.jsonl"
    asked = [
        {"image": row["image"], "question": row["question"], "answer": one}
        for row in made.rows
        for one in CHOICES
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in asked))
    model = AnswersAsTested(str(made.run), {"images": str(made.images)})
    model.computation = model.computation._replace(precision="32-true")
    sums = model.measure(model.read(str(file), "choices")).sums
    least = (sums["loss"] / sums["weight"]).reshape(-1, len(CHOICES)).argmin(1)
    lines = lines_of(tmp_path, "choice")
    assert [line["predicted"] for line in lines] == [CHOICES[i] for i in least]
    assert sets["choice"]["metrics"]["acc"] == pytest.approx((least == 1).mean())
    assert lines[0]["gold"] == ["blue"]


@pytest.fixture
def without_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only tasks below the given folder are known by name: to index the others takes seconds."""
    index = FoundTasks.initialize_tasks
    monkeypatch.setattr(
        FoundTasks, "initialize_tasks", lambda self, include_path, **_: index(self, include_path, False)
    )


@pytest.mark.usefixtures("without_shipped")
def test_limit_takes_the_first_documents(made: Made, tmp_path: Path) -> None:
    words = [str(made.run), "--tasks", "chart", "--include-path", str(made.tasks), "--limit", "3"]
    words += ["--max-new-tokens", "1", "--resamples", "0", *AS_PREDICTED]
    main([*words, "--out", str(tmp_path / "three")])
    content = json.loads((tmp_path / "three" / "evaluation.json").read_text())
    assert content["lmms_eval"]["limit"] == 3
    assert content["sets"]["chart"]["examples"] == 3
    assert content["sets"]["chart"]["intervals"] == {}
    lines = lines_of(tmp_path / "three", "chart")
    options = PredictOptions(images=made.images, max_new_tokens=1)
    asked = [{"question": row["question"] + PROMPTS["chart"], "image": row["image"]} for row in made.rows[:3]]
    found = [one["predicted"] for one in Predictor(made.run).predict(asked, options)]
    assert [line["predicted"] for line in lines] == found


def message(*words: object) -> str:
    with pytest.raises(SystemExit) as stopped:
        main([*map(str, words)])
    return str(stopped.value)


@pytest.mark.usefixtures("without_shipped")
def test_what_is_wrong_is_one_line(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ("--include-path", made.tasks)
    assert "has a task 'charts'. Did you mean 'chart'?" in message(made.run, "--tasks", "charts", *options)
    assert "--limit 0: expected 1 or more" in message(made.run, "--tasks", "chart", "--limit", 0)
    assert "its kind is generate_until_multi_round" in message(made.run, "--tasks", "rounds", *options)
    monkeypatch.setattr("time.sleep", lambda _: None)  # between lmms-eval's tries
    far = message(made.run, "--tasks", "far", *options, "--out", tmp_path / "out")
    assert "--tasks far: its data could not be loaded" in far
    assert "nobody/nothing" in far
    assert "--include-path FOLDER" in far
    assert len(far.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("without_shipped")
def test_broken_folder_of_tasks_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no such folder"):
        FoundTasks(tmp_path / "nowhere")
    (tmp_path / "a.yaml").write_text("task: a\ntag: null\n")
    with pytest.raises(ValueError, match="a YAML file there is no task"):
        FoundTasks(tmp_path)


def test_model_that_reads_no_images_has_no_tasks(tmp_path: Path, made: Made) -> None:
    from transformers import AutoProcessor, BertConfig, BertForMaskedLM

    AutoProcessor.from_pretrained(made.run / "model").tokenizer.save_pretrained(tmp_path)
    sizes: Any = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    BertForMaskedLM(BertConfig(vocab_size=300, **sizes)).save_pretrained(tmp_path)
    assert "reads no images: --tasks is for vision-language models" in message(tmp_path, "--tasks", "chartqa")
