"""The exported folder of a run of late interaction: who reads it, and what is predicted, measured and begun with it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import tiryns
from tests.inference.conftest import entry, finetuned
from tests.inference.test_trained_vectors import PROMPT, SHORT, TEXTS, pairs
from tests.support import needs
from tests.support.precision import rounding
from tiryns.runner.cli.commands import main
from tiryns.runner.inference.predictor import Predictor
from tiryns.runner.tasks.late_interaction import PROJECTION, MaxSim

WORDS = ["objective=late_interaction", "objective.token_dimensions=8"]
MARKED = [f"{text}. {text[:9]}!" for text in TEXTS]


def trained(folder: Path, *overrides: str, model: list[str] | None = None) -> Path:
    """A run on pairs whose passages have marks."""
    given = [word for word in pairs(folder) if word != "objective=contrastive"]
    file = folder / "pairs.jsonl"
    file.write_text(file.read_text().replace(" of ", " . of ! "))
    words = [*given, *WORDS, *SHORT, PROMPT, *overrides]
    return finetuned(folder / "run", *words, **({} if model is None else {"model": model}))


@pytest.fixture(
    scope="module", params=[None, pytest.param(12, marks=pytest.mark.slow)], ids=["as it is", "expanded"]
)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    expansion = "null" if request.param is None else request.param
    return trained(tmp_path_factory.mktemp("vectors"), f"objective.query_expansion={expansion}")


def predicted(run: Path, prompt: str) -> list[torch.Tensor]:
    rows = Predictor(run).predict(MARKED, tiryns.PredictOptions(prompt=prompt))
    assert [row["text"] for row in rows] == MARKED
    return [torch.tensor(row["embedding"]) for row in rows]


def test_multi_vector_encoder_loads_the_folder_with_the_same_vectors_and_scores(run: Path) -> None:
    library = needs.package("sentence_transformers")
    model = library.MultiVectorEncoder(f"{run}/model", device="cpu", local_files_only=True)
    names = ["Transformer", "Dense", "MultiVectorMask", "Normalize"]
    assert [type(module).__name__ for module in model] == names
    assert (model.max_seq_length, model.similarity_fn_name) == (16, "maxsim")
    theirs = [
        encode(MARKED, show_progress_bar=False) for encode in (model.encode_query, model.encode_document)
    ]
    ours = [predicted(run, prompt) for prompt in ("query", "passage")]
    for of_us, of_them in zip([*ours[0], *ours[1]], [*theirs[0], *theirs[1]], strict=True):
        np.testing.assert_allclose(of_us, of_them, atol=rounding(1e-6, 5e-2), rtol=0)
    padded = [torch.nn.utils.rnn.pad_sequence(texts, batch_first=True) for texts in ours]
    scores = model.similarity(*theirs)
    torch.testing.assert_close(MaxSim().matrix(*padded), scores, rtol=0, atol=rounding(1e-5, 0.5))
    assert scores.std() > 0


def test_marks_have_no_vectors_in_passages(run: Path) -> None:
    one, two = (
        Predictor(run).predict([text], tiryns.PredictOptions(prompt="passage"))[0]["embedding"]
        for text in ("heron river", "heron. river!")
    )
    assert len(one) == len(two)


def test_it_is_evaluated_on_later_pairs(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs(tmp_path)
    assert "mrr_at_10" in entry(capsys, run, tmp_path / "pairs.jsonl")["metrics"]
    main(["predict", str(run), "heron river", "--prompt", "query"])
    assert capsys.readouterr().out.count(";") >= 3, "start, two words or more, and end"
    words = [f"{tmp_path}/pairs.jsonl", "data.text_column=query", "--out", f"{tmp_path}/v.npy"]
    with pytest.raises(SystemExit, match="an array holds one vector for each text"):
        main(["predict", str(run), *words])


@pytest.mark.slow
def test_the_next_run_begins_with_its_projection(run: Path, tmp_path: Path) -> None:
    begins = ["model=pretrained", f"model.name_or_path={run}"]
    again = trained(tmp_path, "optimizer.lr=1e-9", "trainer.max_steps=1", model=begins)
    before, after = (load_file(folder / "model" / PROJECTION)["linear.weight"] for folder in (run, again))
    torch.testing.assert_close(after, before, rtol=0, atol=1e-6)
