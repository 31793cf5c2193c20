"""Sequences of letters train in one command: FASTA files, and tasks by sequence and by residue."""

import gzip
import json
import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TINY, train_as
from tests.support.in_process import tiryns_here
from tiryns import IdentityMultiEpochDatasetWrapper, MultiEpochDatasetResampler
from tiryns.runner.data.read.documents import open_source

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
GREASY = set("AFILMVW")

ESM2 = [
    *(word for word in TINY if word != "model=bert_tiny"), "model=esm2_8m", "model.num_hidden_layers=1",
    "model.num_attention_heads=2", "data.tokenizer_kind=characters:protein", "data.vocab_size=33", "data.lowercase=false",
]  # fmt: skip


def sequences(count: int, seed: int = 0) -> list[str]:
    """Sequences of mostly five residues: greasy ones, or others."""
    draw = random.Random(seed)
    weights = [[1 + 8 * (letter in frequent) for letter in RESIDUES] for frequent in ("AFILM", "DEKRS")]
    return [
        "".join(draw.choices(RESIDUES, draw.choice(weights), k=draw.randint(9, 40))) for _ in range(count)
    ]


def fasta(path: Path, texts: list[str]) -> Path:
    """Writes a file of these sequences, also a packed one."""
    content = "".join(f">s{number} of the tests\n{text}\n" for number, text in enumerate(texts)).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def rows(path: Path, task: str, texts: list[str]) -> Path:
    """Writes a table of sequences, with a label for each residue or sequence."""
    greasy = [["core" if letter in GREASY else "surface" for letter in text] for text in texts]
    shares = [labels.count("core") / len(labels) for labels in greasy]
    labelled: dict[str, list[dict[str, Any]]] = {
        "token_classification": [{"words": list(t), "labels": g} for t, g in zip(texts, greasy, strict=True)],
        "classification": [
            {"text": t, "label": "membrane" if share > 0.5 else "soluble"}
            for t, share in zip(texts, shares, strict=True)
        ],
        "regression": [{"text": t, "label": share} for t, share in zip(texts, shares, strict=True)],
    }
    path.write_text("".join(json.dumps(row) + "\n" for row in labelled[task]))
    return path


def test_a_fasta_file_trains_and_its_loss_is_in_nats_per_residue(tmp_path: Path) -> None:
    source, held_out = sequences(90), sequences(30, seed=1)
    data = [
        f"data.source={fasta(tmp_path / 'a.fasta.gz', source)}",
        f"data.validation={{other: {fasta(tmp_path / 'b.fa', held_out)}}}",
    ]
    run = train_as(tmp_path / "run", [*ESM2, *data, "trainer.max_steps=-1", "trainer.max_epochs=2"])
    assert run.status["step"] == math.ceil(2 * 90 / 12)
    results = run.status["results"]
    counts = Counter("".join(held_out))
    shares = [count / counts.total() for count in counts.values()]
    assert results["val/other/unigram_entropy"] == pytest.approx(-sum(p * math.log(p) for p in shares))
    assert results["uniform_entropy"] == pytest.approx(math.log(33))
    assert results["val/other/loss"] < math.log(20)
    assert "unigram entropy" in (run.path / "report.html").read_text()


def test_epochs_of_a_fasta_file_are_resampled(tmp_path: Path) -> None:
    path = fasta(tmp_path / "a.fasta", sequences(20))
    texts = list(open_source(path, "text", "train", "paragraph").documents())
    both = MultiEpochDatasetResampler(IdentityMultiEpochDatasetWrapper(texts), num_epochs=2, seed=7)
    first, second = ([both[i] for i in some] for some in (range(20), range(20, 40)))
    assert sorted(first) == sorted(second) == sorted(texts)
    assert first != second


@pytest.mark.slow
@pytest.mark.rows(1)
@pytest.mark.parametrize(
    ("task", "metric", "least"),
    [
        ("classification", "accuracy", 0.75),
        ("token_classification", "accuracy", 0.95),
        ("regression", "pearson", 0.8),
    ],
)
def test_residues_and_sequences_have_labels(task: str, metric: str, least: float, tmp_path: Path) -> None:
    option = "token_classification" if task == "token_classification" else "classification"
    dropped = ("data=", "data.vocab", "data.max", "trainer.max_steps", "sampler")
    words = [word for word in ESM2 if not word.startswith(dropped)]
    run = train_as(
        tmp_path / "run",
        [
            *words, f"data={option}", f"objective={option}", "module=finetuning", "data.vocab_size=33",
            f"data.train={rows(tmp_path / 'a.jsonl', task, sequences(120))}", "trainer.max_steps=50", "optimizer.lr=0.01",
            f"data.validation={rows(tmp_path / 'b.jsonl', task, sequences(40, seed=1))}", "trainer.validate_every=50",
            "sampler.global_batch_size=12",
        ],
    )  # fmt: skip
    results = run.status["results"]
    assert results[f"val/validation/{metric}"] > least
    if task == "classification":
        fasta(tmp_path / "new.fasta", ["AFILMVWAFILMVWA", "DEKRSTDEKRST"])
        done = tiryns_here(tmp_path, "predict", "run", "new.fasta", "--out", "out.jsonl")
        predicted = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        assert done.returncode == 0
        assert [(row["id"], row["predicted"]) for row in predicted] == [("s0", "membrane"), ("s1", "soluble")]
