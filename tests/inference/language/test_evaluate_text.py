"""`tiryns evaluate` for text: the numbers of the run's validation to the last digit, and the pseudo-perplexity."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from tests.conftest import train_here
from tests.inference.conftest import entry, evaluated
from tests.support.in_process import succeeded, tiryns_here
from tests.support.precision import PRECISION
from tiryns.runner.data.text.chunking import Chunker

RUNS = {
    "mlm": ["trainer.precision=bf16-mixed"],
    "diffusion": ["objective=diffusion"],
    "enhanced_mlm": ["objective=enhanced_mlm"],
}
TEXT = "seven herons watch the river.\n\nnobody speaks of winter again, and the old bridge runs under a river {}.\n\n"


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents of several lengths; some are cut into several sequences."""
    path = tmp_path_factory.mktemp("later") / "later.txt"
    path.write_text("".join(TEXT.format("while herons watch the bridge " * (n % 9)) for n in range(15)))
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, text_file: Path, later: Path) -> dict[str, Path]:
    """A run of each objective, which was validated on the documents."""
    folder, words = tmp_path_factory.mktemp("language"), ["trainer.max_steps=3", "trainer.validate_every=3"]
    sets = f"data.validation={{later: {later}}}"
    return {
        name: train_here(folder / name, text_file, sets, *words, *others).path
        for name, others in RUNS.items()
    }


@pytest.mark.parametrize("objective", ["mlm", pytest.param("diffusion", marks=pytest.mark.slow)])
def test_figures_are_those_of_the_runs_validation_to_the_last_digit(
    runs: dict[str, Path], later: Path, objective: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = runs[objective]
    results = json.loads((run / "status.json").read_text())["results"]
    expected = {n.removeprefix("val/later/"): v for n, v in results.items() if n.startswith("val/later/")}
    del expected["tokens_per_byte"]
    content = evaluated(capsys, run, later)
    found = content["sets"][str(later)]
    assert content["objective"] == objective
    assert content["precision"] == ("bf16-mixed" if objective == "mlm" else PRECISION)
    assert found["metrics"] == expected
    assert {"loss", "bits_per_byte"} <= expected.keys()
    assert ("bits_per_token" in expected) == (objective == "diffusion")
    assert found["examples"] == 30
    assert found["sequences"] > 30
    assert found["intervals"].keys() == found["metrics"].keys() - {"unigram_entropy"}
    for name, (low, high) in found["intervals"].items():
        assert low < found["metrics"][name] < high, name


@pytest.mark.parametrize("objective", ["mlm", "diffusion"])
def test_sums_of_documents_make_the_figures(
    runs: dict[str, Path], later: Path, tmp_path: Path, objective: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = entry(capsys, runs[objective], later, "--out", tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "documents.jsonl").read_text().splitlines()]
    assert [row["document"] for row in rows] == list(range(30))
    assert sum(row["bytes"] for row in rows) == found["bytes"]
    loss, weight = (sum(row[name] for row in rows) for name in ("loss", "weight"))
    assert loss / weight == pytest.approx(found["metrics"]["loss"], rel=1e-6)
    tokenizer = AutoTokenizer.from_pretrained(runs[objective] / "model")
    documents = [part for part in later.read_text().split("\n\n") if part]
    ids = [tokenizer(text, add_special_tokens=False).input_ids for text in documents]
    ordinary = [sum(token not in tokenizer.all_special_ids for token in some) for some in ids]
    if objective == "diffusion":  # four copies of each document, and every ordinary token counts
        assert [row["weight"] for row in rows] == [4 * count for count in ordinary]
    tokens = sum(ordinary)
    per_byte = loss / weight / math.log(2) * tokens / found["bytes"]
    assert found["metrics"]["bits_per_byte"] == pytest.approx(per_byte, rel=1e-6)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "documents.jsonl",
        "evaluation.json",
        "report.html",
    ]
    assert "30 documents" in (tmp_path / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.fp32
def test_pseudo_perplexity_masks_each_token_alone(
    runs: dict[str, Path], later: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Salazar et al. 2020, equations 1 and 2, with transformers' own forward pass."""
    folder = runs["mlm"] / "model"
    words = ["--precision", "32-true"]
    found = entry(capsys, runs["mlm"], later, "--pseudo-perplexity", "all", *words)
    model = AutoModelForMaskedLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    chunker = Chunker(tokenizer.backend_tokenizer, 48, "sentences")
    total, number = 0.0, 0
    for text in [part for part in later.read_text().split("\n\n") if part]:
        flat, lengths = chunker.texts([text])
        for ids in np.split(flat, np.cumsum(lengths)[:-1]):
            places = [i for i, token in enumerate(ids.tolist()) if token not in tokenizer.all_special_ids]
            copies = torch.from_numpy(np.repeat(ids[None], len(places), 0))
            copies[range(len(places)), places] = tokenizer.mask_token_id
            with torch.no_grad():
                logits = model(input_ids=copies).logits[range(len(places)), places]
            targets = torch.from_numpy(ids[places])
            total += float(torch.nn.functional.cross_entropy(logits, targets, reduction="sum"))
            number += len(places)
    assert found["pseudo_perplexity"] == {"documents": 30, "tokens": number}
    assert found["metrics"]["pseudo_perplexity"] == pytest.approx(math.exp(total / number), rel=1e-5)
    low, high = found["intervals"]["pseudo_perplexity"]
    assert low < found["metrics"]["pseudo_perplexity"] < high
    some = entry(capsys, runs["mlm"], later, "--pseudo-perplexity", 7, *words)
    assert some["pseudo_perplexity"]["documents"] == 7
    assert some["pseudo_perplexity"]["tokens"] < number
    other = entry(capsys, runs["mlm"], later, "--pseudo-perplexity", 7, "--seed", 1, *words)
    assert some["metrics"]["pseudo_perplexity"] != other["metrics"]["pseudo_perplexity"]
    assert some["metrics"]["loss"] == other["metrics"]["loss"] == found["metrics"]["loss"]


def test_decoder_that_is_not_exported_is_not_measured(
    runs: dict[str, Path], later: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = evaluated(capsys, runs["enhanced_mlm"], later)
    assert content["objective"] == "mlm"
    assert math.isfinite(content["sets"][str(later)]["metrics"]["loss"])


@pytest.mark.slow
def test_exported_folder_is_measured_by_the_objective_that_is_asked_for(
    runs: dict[str, Path], later: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Away from its run: by default as a masked language model, with sequences as long as it reads."""
    import shutil

    shutil.copytree(runs["diffusion"] / "model", tmp_path / "copy")
    copy = tmp_path / "copy"
    assert evaluated(capsys, copy, later)["objective"] == "mlm"
    bound = evaluated(
        capsys, copy, later, "--objective", "diffusion", "data.max_length=48", "--precision", "32-true"
    )
    assert bound["objective"] == "diffusion"
    found = bound["sets"][str(later)]["metrics"]["bits_per_token"]
    theirs = entry(capsys, runs["diffusion"], later, "--precision", "32-true")["metrics"]["bits_per_token"]
    assert found == pytest.approx(theirs, rel=1e-5)


@pytest.mark.slow
def test_texts_are_a_column_of_a_table(
    runs: dict[str, Path], later: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = [part for part in later.read_text().split("\n\n") if part]
    table = tmp_path / "later.jsonl"
    table.write_text("".join(json.dumps({"body": text}) + "\n" for text in documents))
    content = evaluated(capsys, runs["mlm"], table, "data.text_column=body")
    assert content["sets"][str(table)]["metrics"] == entry(capsys, runs["mlm"], later)["metrics"]
    assert content["interval"]["over"] == "documents"


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        ("", [], "is empty"),
        ("\n \n", [], "holds no text"),
        ("a", [], "none of the 1 tokens is a target: the text is too short to be measured"),
        ("herons", ["--objective", "rtd"], "--objective='rtd'; there are: mlm, diffusion, clm"),
        ("herons", ["data.max_length=4000"], "is more than the"),
    ],
)
def test_what_cannot_be_measured_is_one_line(
    runs: dict[str, Path], tmp_path: Path, content: str, words: list[str], message: str
) -> None:
    (tmp_path / "file.txt").write_text(content)
    done = tiryns_here(tmp_path, "evaluate", str(runs["mlm"]), "file.txt", *words)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert message in done.stderr


def test_mode_evaluate_measures_the_validation_sets_of_the_config(
    runs: dict[str, Path], later: Path, tmp_path: Path
) -> None:
    succeeded(tmp_path, "mode=evaluate", f"resume={runs['mlm']}", "data.micro_batch_tokens=auto")
    (folder,) = tmp_path.glob("outputs/*/*-evaluation")
    found = json.loads((folder / "evaluation.json").read_text())["sets"]["later"]["metrics"]
    results = json.loads((runs["mlm"] / "status.json").read_text())["results"]
    assert found["loss"] == results["val/later/loss"]
