"""The exported folder of a run on sparse vectors: who reads it, and what is predicted and measured with it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet

import tiryns
from tests.inference.conftest import entry, finetuned
from tests.inference.test_trained_vectors import PROMPT, SHORT, TEXTS, assert_others_are_refused, pairs
from tests.support import needs
from tests.support.precision import rounding
from tiryns.runner.cli.commands import main
from tiryns.runner.inference.predictor import Predictor

WORDS = ["objective=sparse"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectors")
    given = [word for word in pairs(folder) if word != "objective=contrastive"]
    return finetuned(folder / "run", *given, *WORDS, *SHORT, PROMPT)


def predicted(run: Path, prompt: str) -> list[dict[str, float]]:
    rows = Predictor(run).predict(TEXTS, tiryns.PredictOptions(prompt=prompt))
    assert [row["text"] for row in rows] == TEXTS
    return [row["embedding"] for row in rows]


def dense(weights: list[dict[str, float]], tokenizer: Any, size: int) -> np.ndarray:
    made = np.zeros((len(weights), size))
    for row, of_text in zip(made, weights, strict=True):
        row[tokenizer.convert_tokens_to_ids([*of_text])] = [*of_text.values()]
    return made


def test_sparse_encoder_loads_the_folder_with_the_same_vectors(run: Path) -> None:
    library = needs.package("sentence_transformers")
    model = library.SparseEncoder(f"{run}/model", device="cpu", local_files_only=True)
    assert [type(module).__name__ for module in model] == ["MLMTransformer", "SpladePooling"]
    assert (model.max_seq_length, model.similarity_fn_name) == (16, "dot")
    for prompt, encode in (("query", model.encode_query), ("passage", model.encode_document)):
        theirs = encode(TEXTS, show_progress_bar=False).to_dense().numpy()
        ours = dense(predicted(run, prompt), model.tokenizer, theirs.shape[1])
        np.testing.assert_allclose(ours, theirs, atol=rounding(1e-6, 2e-2), rtol=0)
        assert 0 < (ours > 0).mean() < 1
    assert model.similarity(model.encode_query(TEXTS), model.encode_document(TEXTS)).shape == (9, 9)


@pytest.mark.slow
def test_weights_are_printed_and_an_array_is_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    main(["predict", str(run), TEXTS[0], "--prompt", "query"])
    token, weight = capsys.readouterr().out.split(", ")[0].split()
    assert predicted(run, "query")[0][token] == pytest.approx(float(weight), rel=1e-4)
    main(["predict", str(run), TEXTS[0], "--prompt", "query", "--out", f"{tmp_path}/weights.parquet"])
    (row,) = parquet.read_table(tmp_path / "weights.parquet").to_pylist()
    assert {one["token"]: one["weight"] for one in row["embedding"]} == predicted(run, "query")[0]
    with pytest.raises(SystemExit, match="an array holds one vector for each text"):
        main(["predict", str(run), TEXTS[0], "--out", f"{tmp_path}/vectors.npy"])
    with pytest.raises(ValueError, match="cannot be cut"):
        Predictor(run).predict(TEXTS, tiryns.PredictOptions(dimensions=8))
    with pytest.raises(ValueError, match="expected query or passage"):
        Predictor(run).predict(TEXTS, tiryns.PredictOptions(prompt="other"))


def test_it_is_evaluated_on_later_pairs(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs(tmp_path)
    found = entry(capsys, run, tmp_path / "pairs.jsonl")["metrics"]
    assert {"mrr_at_10", "query_active_dims", "retrieval_flops"} <= found.keys()


def test_a_graph_and_a_start_of_single_vectors_are_refused_in_one_line(run: Path) -> None:
    assert_others_are_refused(run)
