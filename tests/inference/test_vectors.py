"""Exported models of vectors: sentence-transformers encodes texts as `Predictor` does, in every layout."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import tiryns
from tests.models.tiny import tiny
from tests.support import needs
from tiryns.conf.objective.pretraining import EnhancedMaskedLanguageModeling
from tiryns.runner.cli.commands import main
from tiryns.runner.data.text.tokenizer import train_tokenizer
from tiryns.runner.inference.export import write_model
from tiryns.runner.inference.predictor import Predictor
from tiryns.runner.models.embedding.folder import Embedding, prompts_of
from tiryns.runner.models.pretraining.enhanced import EnhancedMaskedLM
from tiryns.runner.objectives import ContrastiveCollator

pytestmark = pytest.mark.fp32

Array = NDArray[np.float32]

TEXTS = [f"heron {'river bridge ' * (number % 7)}number {number}" for number in range(23)]
WITH_PROMPTS = Embedding("mean", True, prompts_of("number ", "river bridge "), max_length=20)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return train_tokenizer(TEXTS, "wordpiece", 50, True)


def exported(
    folder: Path,
    tokenizer: Any,
    embedding: Embedding | None,
    architecture: str = "bert",
    layout: str = "padded",
) -> str:
    """The folder of a run with a model of vectors."""
    folder.mkdir(exist_ok=True)
    resolved = {"precision": "32-true", "layout": layout, "micro_batch_tokens": 200}
    (folder / "status.json").write_text(json.dumps({"state": "done", "resolved": resolved}))
    model: Any = SimpleNamespace(pretrained=tiny(architecture).base_model, embedding=embedding)
    write_model(model, tokenizer, folder / "model", "card", None, {})
    return str(folder)


def theirs(run: str, **options: Any) -> Array:
    """As sentence-transformers encodes the texts."""
    library = needs.package("sentence_transformers")
    made = library.SentenceTransformer(
        f"{run}/model", device="cpu", local_files_only=True, trust_remote_code=True
    )
    encoded: Array = made.encode(TEXTS, batch_size=5, show_progress_bar=False, **options)
    return encoded


def ours(run: str, **options: Any) -> Array:
    rows = Predictor(run).predict(TEXTS, tiryns.PredictOptions(**options))
    return np.array([row["embedding"] for row in rows], dtype=np.float32)


def assert_equal(one: Array, other: Array) -> None:
    np.testing.assert_allclose(one, other, atol=1e-6, rtol=0)


@pytest.mark.rows(1)
@pytest.mark.parametrize("layout", ["padded", "packed"])
@pytest.mark.parametrize(
    ("architecture", "pooling"),
    [("bert", "mean"), ("bert", "max"), ("roberta", "cls"), ("modernbert", "mean"), ("crammed_bert", "mean")],
)
def test_sentence_transformers_encodes_as_we_do(
    architecture: str, pooling: str, layout: str, tokenizer: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    embedding = WITH_PROMPTS._replace(pooling=pooling)
    run = exported(tmp_path / "run", tokenizer, embedding, architecture, layout)
    found = ours(run, prompt="query")
    assert_equal(found, theirs(run, prompt_name="query"))
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-6)


def test_prompts_cuts_and_sizes_are_theirs(tokenizer: Any, tmp_path: Path) -> None:
    run = exported(tmp_path / "run", tokenizer, WITH_PROMPTS)
    plain, query, passage = ours(run), ours(run, prompt="query"), ours(run, prompt="passage")
    assert_equal(plain, theirs(run))
    assert_equal(query, theirs(run, prompt_name="query"))
    assert_equal(passage, theirs(run, prompt_name="document"))
    assert_equal(ours(run, prompt="query", dimensions=8), theirs(run, prompt_name="query", truncate_dim=8))
    assert not np.allclose(plain, query, atol=1e-3)
    assert not np.allclose(passage, query, atol=1e-3)


@pytest.mark.slow
def test_what_the_folder_says_counts(tokenizer: Any, tmp_path: Path) -> None:
    """Another pooling, length or scale gives other vectors, and theirs follow."""
    changes: list[dict[str, Any]] = [{}, {"pooling": "max"}, {"max_length": 10}, {"normalised": False}]
    runs = [
        exported(tmp_path / str(number), tokenizer, WITH_PROMPTS._replace(**change))
        for number, change in enumerate(changes)
    ]
    first, *others = (ours(run) for run in runs)
    for run, other in zip(runs[1:], others, strict=True):
        assert not np.allclose(first, other, atol=1e-3)
        assert_equal(other, theirs(run))


def test_a_folder_that_they_saved_is_read(tokenizer: Any, tmp_path: Path) -> None:
    library = needs.package("sentence_transformers")
    run = exported(tmp_path / "run", tokenizer, WITH_PROMPTS)
    saved = tmp_path / "saved"
    library.SentenceTransformer(f"{run}/model", device="cpu", local_files_only=True).save(str(saved))
    (tmp_path / "found").mkdir()
    saved.rename(tmp_path / "found" / "model")
    assert_equal(ours(str(tmp_path / "found" / "model"), prompt="query"), ours(run, prompt="query"))


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_encoder_of_enhanced_masking_is_such_a_folder(pooling: str, tokenizer: Any, tmp_path: Path) -> None:
    pretrained = tiny("bert")
    model = EnhancedMaskedLM(pretrained, EnhancedMaskedLanguageModeling(pooling=pooling), 20)
    write_model(model, tokenizer, tmp_path / "model", "card", None, {})
    with torch.no_grad():
        encoded = [
            pretrained.base_model(**tokenizer(text, truncation=True, max_length=20, return_tensors="pt"))[0][
                0
            ]
            for text in TEXTS
        ]
    expected = torch.stack([states[0] if pooling == "cls" else states.mean(0) for states in encoded])
    assert_equal(theirs(str(tmp_path)), torch.nn.functional.normalize(expected).numpy())
    assert Predictor(tmp_path / "model").task == "infill"


def test_temperature_that_was_learnt_is_exported_whether_it_was_evaluated_or_not(tmp_path: Path) -> None:
    collator = ContrastiveCollator(0, 4, 50, learn_temperature=True)
    model: Any = collator.task_model(tiny().base_model)
    torch.nn.init.constant_(model.log_temperature, -1.0)
    folder = write_model(model, None, tmp_path / "model", "card", None, {"objective": collator.settings()})
    written = json.loads((folder / "task.json").read_text())["objective"]
    assert written["temperature"] == pytest.approx(np.exp(-1.0))


def test_a_model_without_vectors_is_no_such_folder(tokenizer: Any, tmp_path: Path) -> None:
    run = exported(tmp_path / "run", tokenizer, None)
    assert not (tmp_path / "run" / "model" / "modules.json").exists()
    with pytest.raises(ValueError, match="not a language model"):
        Predictor(run)


def test_files_of_a_model_may_be_read_by_others(tokenizer: Any, tmp_path: Path) -> None:
    run = Path(exported(tmp_path / "run", tokenizer, WITH_PROMPTS))
    assert all(os.access(folder, os.X_OK) for folder in (run / "model").iterdir() if folder.is_dir())
    assert {folder.stat().st_mode & 0o111 for folder in (run / "model").iterdir() if folder.is_dir()} == {
        0o111
    }


@pytest.mark.slow
def test_the_command_writes_lines_or_an_array(
    tokenizer: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = exported(tmp_path / "run", tokenizer, WITH_PROMPTS)
    texts, array, lines = tmp_path / "texts.txt", tmp_path / "vectors.npy", tmp_path / "vectors.jsonl"
    texts.write_text("\n".join(TEXTS))
    main(["predict", run, str(texts), "--prompt", "query", "--out", str(array)])
    main(["predict", run, str(texts), "--prompt", "query", "--out", str(lines)])
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [row["text"] for row in rows] == TEXTS
    found = np.load(array)
    assert found.dtype == np.float32
    assert found.tolist() == [row["embedding"] for row in rows]
    assert_equal(found, ours(run, prompt="query"))
    capsys.readouterr()
    main(["predict", run, TEXTS[0], "--dimensions", "3"])
    assert len(capsys.readouterr().out.split()) == 3


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--prompt", "other"], "prompt=other is none of the model's: expected document, passage, query"),
        (["--dimensions", "33"], "dimensions=33: expected 1 to 32, the size of the vectors"),
        (["--format", "npy"], "an array needs a file: give --out vectors.npy"),
        (["--length", "3"], "--length is for language models"),
    ],
)
def test_what_cannot_be_done_is_said(
    words: list[str], told: str, tokenizer: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = exported(tmp_path / "run", tokenizer, WITH_PROMPTS)
    with pytest.raises(SystemExit) as ended:
        main(["predict", run, "a heron", *words])
    assert told in str(ended.value) + capsys.readouterr().err
