"""Ranking as a user runs it: figures, exports that others load, predictions and evaluation."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from tests.data.labelled.tasks import rankings
from tests.data.pairs.rows import write
from tests.modules.conftest import Finetune
from tests.modules.test_finetuning import predictions
from tests.support import needs
from tests.support.precision import rounding
from tiryns.runner.cli.commands import main
from tiryns.runner.evaluation.joined import measured_rows
from tiryns.runner.inference.evaluated import evaluate
from tiryns.runner.inference.predictor import Predictor
from tiryns.runner.run.folder import Run

TEST = "test/test"


def of_test(run: Run) -> list[dict[str, Any]]:
    return [line for line in predictions(run) if line["set"] == TEST]


def test_a_run_its_predictions_and_its_figures(finetune: Finetune, tmp_path: Path) -> None:
    file = write(tmp_path / "test.jsonl", rankings(17, 2))
    run = finetune("ranking", "objective.loss=ranknet")
    assert run.status["monitor"] == "val/validation/ndcg_at_10"
    metrics = json.loads((run.path / "evaluation.json").read_text())["sets"][TEST]["metrics"]
    assert list(metrics) == ["loss", "ndcg_at_10", "mrr_at_10", "map"]
    found, rows = of_test(run), rankings(17, 2)
    for line, row in zip(found, rows, strict=True):
        assert line["scores"] == sorted(line["scores"], reverse=True)
        graded = dict(zip(row["passage"], row["label"], strict=True))
        assert line["grades"] == [graded[text] for text in line["candidates"]]
        assert line["gold"] == [text for text in line["candidates"] if graded[text]]
        assert line["predicted"] == line["candidates"][0]
    assert measured_rows("ranking", found) == pytest.approx({n: v for n, v in metrics.items() if n != "loss"})
    assert measured_rows("ranking", found[:9]) != measured_rows("ranking", found)
    assert run.status["results"]["test/test/chance_map"] < 0.9
    right = sum(line["grades"][0] > 0 for line in found)
    assert f"Predictions: {17 - right} wrong, {right} right" in (run.path / "report.html").read_text()
    predictor = Predictor(run.path)
    again = predictor.predict([{name: row[name] for name in ("query", "passage")} for row in rows])
    for line, ours in zip(found, again, strict=True):
        assert ours["candidates"] == line["candidates"]
        assert ours["scores"] == pytest.approx(line["scores"], abs=rounding(1e-4, 2e-2))
        assert not {"gold", "grades"} & ours.keys()
    one = [{"query": "a river", "passage": "the old bridge"}]
    assert len(predictor.predict(one)[0]["scores"]) == 1, (
        "one candidate can be scored, though not learnt from"
    )
    later = evaluate(str(run.path), {"later": file}).content["sets"]["later"]
    assert later["metrics"] == pytest.approx(metrics, abs=rounding(1e-5, 2e-2))
    assert later["intervals"].keys() == metrics.keys()
    assert all(low <= later["metrics"][name] <= high for name, (low, high) in later["intervals"].items())


@pytest.mark.slow
def test_rows_of_pairs_are_predicted_by_list(
    finetune: Finetune, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, rows = finetune("ranking", "trainer.max_steps=1"), rankings(6, 2)
    pairs = [
        {"query": row["query"], "passage": passage, "label": grade}
        for row in rows
        for passage, grade in zip(row["passage"], row["label"], strict=True)
    ]
    listed = Predictor(run.path).predict([{"query": r["query"], "passage": r["passage"]} for r in rows])
    unlabelled = write(tmp_path / "pairs.jsonl", [{n: r[n] for n in ("query", "passage")} for r in pairs])
    out = tmp_path / "out.jsonl"
    for file in (unlabelled, write(tmp_path / "graded.jsonl", pairs)):
        main(["predict", str(run.path), str(file), "--out", str(out)])
        found = [json.loads(line) for line in out.read_text().splitlines()]
        assert [line["candidates"] for line in found] == [line["candidates"] for line in listed]
        assert [sorted(line["passage"]) for line in found] == [sorted(row["passage"]) for row in rows]
    figures = json.loads((tmp_path / "out.figures.json").read_text())
    lists = evaluate(str(run.path), {"lists": write(tmp_path / "lists.jsonl", rows)})
    assert figures == pytest.approx(lists.content["sets"]["lists"]["metrics"])
    capsys.readouterr()
    words = ["predict", str(run.path), "seven herons", "--second", '["the river", "seven herons watch"]']
    main([*words, "--json"])
    (said,) = json.loads(capsys.readouterr().out)["predictions"]
    assert sorted(said["candidates"]) == ["seven herons watch", "the river"]
    main(words)
    shown = capsys.readouterr().out.splitlines()
    assert [line.partition("  ")[2] for line in shown] == said["candidates"]


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["bert", pytest.param("modernbert", marks=pytest.mark.slow)])
def test_others_load_what_a_run_exports(finetune: Finetune, architecture: str, tmp_path: Path) -> None:
    needs.package("sentence_transformers")
    from sentence_transformers import CrossEncoder

    model = [] if architecture == "bert" else ["model=modernbert_tiny", "model.hidden_size=32"]
    run = finetune("ranking", *model, "trainer.max_steps=2")
    folder = run.path / "model"
    pairs = [(row["query"], passage) for row in rankings(5, 9) for passage in row["passage"]]
    theirs = CrossEncoder(str(folder), device="cpu", local_files_only=True)
    assert isinstance(theirs.activation_fn, torch.nn.Identity), "scores are logits"
    scores = theirs.predict(pairs, show_progress_bar=False)
    plain = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    given = tokenizer([q for q, _ in pairs], [p for _, p in pairs], padding=True, return_tensors="pt")
    with torch.no_grad():
        np.testing.assert_allclose(plain(**given).logits[:, 0].numpy(), scores, atol=1e-6)
    assert len(set(scores.round(4))) > 5
    query, passages = rankings(1, 9)[0]["query"], rankings(1, 9)[0]["passage"]
    (ours,) = Predictor(run.path).predict([{"query": query, "passage": passages}])
    ranked = theirs.rank(query, passages)
    by_candidate = dict(zip(ours["candidates"], ours["scores"], strict=True))
    assert ours["scores"] == sorted(ours["scores"], reverse=True)
    found = {passages[one["corpus_id"]]: float(one["score"]) for one in ranked}
    assert found == pytest.approx(by_candidate, abs=rounding(1e-5, 2e-2))
    theirs.save_pretrained(str(tmp_path / "saved"))
    again = ["model=pretrained", f"model.name_or_path={tmp_path / 'saved'}", "trainer.max_steps=1"]
    following = finetune("ranking", *again, "optimizer.lr=0", folder="following", start=run)
    (same,) = Predictor(following.path).predict([{"query": query, "passage": passages}])
    assert same["scores"] == pytest.approx(ours["scores"], abs=rounding(1e-5, 2e-2))
    card = (folder / "README.md").read_text()
    tags = "tags: [tiryns, sentence-transformers, cross-encoder, reranker]"
    for told in ("pipeline_tag: text-ranking", "library_name: sentence-transformers", tags):
        assert told in card
