"""A contrastive run, its export, and what begins with it."""

import json
import logging
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch

import tiryns
from tests.data.pairs.rows import scored, write
from tests.inference.conftest import finetuned
from tests.support import needs
from tests.support.precision import rounding
from tiryns.runner.cli.models.onnx.proof import open_for_graph
from tiryns.runner.inference.evaluated import Asked, evaluate
from tiryns.runner.inference.predictor import Predictor
from tiryns.runner.models.embedding.folder import read_embedding

WORDS = ["heron", "river", "bridge", "winter", "reeds", "water", "stands", "old", "closed"]
TEXTS = [f"{' '.join(WORDS[number % 4 : number % 7 + 3])} {number}" for number in range(9)]
SHORT = ["data.max_length=16", "trainer.max_steps=2", "trainer.validate_every=0"]
PROMPT = "data.query_prompt='heron '"


def assert_others_are_refused(run: Path) -> None:
    """That a run on other vectors than single ones has no graph, and is no start of a run on single ones."""
    with pytest.raises(ValueError, match=r"^--format onnx exports .* is none: leave it out$"):
        open_for_graph(str(run))
    with pytest.raises(
        ValueError, match=r"^the folder of sentence-transformers .* has the modules .*: expected"
    ):
        read_embedding(str(run))


def pairs(folder: Path) -> list[str]:
    rows = [
        {"query": f"{WORDS[n % 9]} {n}", "passage": f"{WORDS[n % 9]} {WORDS[n % 5]} of {n}"}
        for n in range(36)
    ]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ["data=pairs", "objective=contrastive", f"data.train={folder}/pairs.jsonl"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectors")
    return finetuned(folder / "run", *pairs(folder), *SHORT, PROMPT)


def test_sentence_transformers_reads_what_a_run_writes(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    library = needs.package("sentence_transformers")
    with caplog.at_level(logging.WARNING):
        model = library.SentenceTransformer(f"{run}/model", device="cpu", local_files_only=True)
    assert "MISSING" not in caplog.text, "its weights are all there"
    assert [type(module).__name__ for module in model] == ["Transformer", "Pooling", "Normalize"]
    assert (model.max_seq_length, model.similarity_fn_name) == (16, "cosine")
    predictor = Predictor(run)
    assert predictor.task == "vectors"
    for prompt in ("query", "passage"):
        rows = predictor.predict(TEXTS, tiryns.PredictOptions(prompt=prompt))
        theirs = model.encode(TEXTS, prompt_name=prompt, show_progress_bar=False)
        ours = [row["embedding"] for row in rows]
        np.testing.assert_allclose(ours, theirs, atol=rounding(1e-6, 2e-2), rtol=0)


@pytest.mark.slow
def test_the_next_run_keeps_its_pooling_and_prompts(
    run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    again = [*pairs(tmp_path), *SHORT]
    begins = ["model=pretrained", f"model.name_or_path={run}"]
    kept = finetuned(tmp_path / "kept", *again, model=begins)
    assert read_embedding(str(kept)) == read_embedding(str(run))
    with caplog.at_level(logging.INFO, "tiryns"):
        changed = ["objective.pooling=max", "objective.normalised=false"]
        other = finetuned(tmp_path / "other", *again, *changed, model=begins)
    found = read_embedding(str(other))
    assert found is not None
    assert (found.pooling, found.normalised, found.prompt("query")) == ("max", False, "heron ")
    told = [
        record.getMessage() for record in caplog.records if "other than in the folder" in record.getMessage()
    ]
    assert len(told) == 1
    assert "objective.pooling='max' instead of 'mean'" in told[0]


@pytest.mark.parametrize(
    "words", [["data.label_column=score", "objective.loss=cosent"], ["objective.learn_temperature=true"]]
)
def test_evaluation_has_the_loss_and_the_metrics_of_the_runs_test(words: list[str], tmp_path: Path) -> None:
    file = write(tmp_path / "scored.jsonl", scored(20))
    sets = ["data=pairs", "objective=contrastive", f"data.train={file}", f"data.test={file}"]
    run = finetuned(tmp_path / "run", *sets, *SHORT, *words)
    expected = json.loads((run / "evaluation.json").read_text())["sets"]["test/test"]["metrics"]
    later = evaluate(str(run), {"later": file}).content["sets"]["later"]["metrics"]
    assert later == pytest.approx(expected, rel=1e-6)
    assert {"spearman", "temperature"} & later.keys()


def test_later_rows_may_have_more_negatives_than_those_of_the_run(run: Path, tmp_path: Path) -> None:
    rows = [{"query": f"heron {n}", "passage": f"river {n}", "negative": WORDS[: n % 4]} for n in range(9)]
    sets = {"later": write(tmp_path / "later.jsonl", rows)}
    found = evaluate(str(run), sets, Asked({"negative_columns": "negative"}, resamples=0)).content["sets"]
    assert 0 < found["later"]["metrics"]["mrr_at_10"] < 1


@pytest.mark.parametrize("longest", [8, 32])
def test_queries_are_cut_as_in_the_run(longest: int, tmp_path: Path) -> None:
    words = [*pairs(tmp_path), *SHORT, f"data.max_query_length={longest}"]
    predictor = Predictor(finetuned(tmp_path / "run", *words))
    model = predictor.kind.model
    text = "the heron stands in the water beside the old bridge over the river " * 4
    assert len(model.tokenizer(text)["input_ids"]) > 32
    for prompt, length in (("query", longest), ("passage", 16)):
        with patch.object(model, "features", return_value=torch.zeros(1, 4)) as features:
            predictor.predict([text], tiryns.PredictOptions(prompt=prompt))
        assert features.call_args[0][0].num_tokens == length


def test_its_card_shows_both_libraries(run: Path) -> None:
    card = (run / "model" / "README.md").read_text()
    assert "library_name: sentence-transformers" in card
    assert "with its pooling and prompts" in card
    assert "AutoModel" in card or "BertModel" in card
