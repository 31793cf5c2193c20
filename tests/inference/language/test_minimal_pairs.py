"""`mode=probe` on minimal pairs: the likelihoods are those of the formulas, computed by transformers alone."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer, PreTrainedTokenizerBase

from tests.conftest import few_of, train_here
from tests.support.in_process import refused, succeeded, tiryns_here
from tiryns.runner.data.demo.stdlib_minimal_pairs import FORMS, StdlibMinimalPairs

PAIRS = [
    ("seven herons watch the river", "seven herons watch river the", "order"),
    ("the old bridge runs under a river", "the old bridge runs under river", "article"),
    ("nobody speaks of winter again", "nobody nobody nobody", "words"),
    ("nobody watches", "seven seven herons herons herons watch", "words"),
]
"""Right, wrong, and the phenomenon; texts of several lengths."""

RUNS = {
    "mlm": [],
    "diffusion": ["objective=diffusion"],
    "clm": ["objective=clm", "model.architecture=gpt2"],
    "hybrid": ["objective=hybrid"],
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Callable[[str], Path]:
    """The run of an objective, on texts in small letters."""
    folder = tmp_path_factory.mktemp("trained")
    words = ["trainer.max_steps=30", "trainer.validate_every=0", "data.lowercase=true"]
    return cache(lambda kind: train_here(folder / kind, text_file, *words, *RUNS[kind]).path)


def rows(pairs: list[tuple[str, str, str]], named: bool = True) -> str:
    lines = (
        {"sentence_good": good, "sentence_bad": bad, **({"UID": kind} if named else {})}
        for good, bad, kind in pairs
    )
    return "".join(f"{json.dumps(line)}\n" for line in lines)


@torch.no_grad()
def pseudo_likelihood(folder: Path, text: str, tokenizer: PreTrainedTokenizerBase, never: list[int]) -> float:
    """Salazar et al. 2020, equation 1; tokens that are `never` guessed have no share."""
    model = AutoModelForMaskedLM.from_pretrained(folder).eval()
    ids, total = tokenizer(text, return_tensors="pt").input_ids, 0.0
    for place in range(1, ids.shape[1] - 1):
        masked = ids.clone()
        masked[0, place] = tokenizer.mask_token_id
        logits = model(input_ids=masked).logits[0, place]
        logits[never] = -torch.inf
        total += float(logits.log_softmax(-1)[ids[0, place]])
    return total


@torch.no_grad()
def likelihood(folder: Path, text: str, tokenizer: PreTrainedTokenizerBase, _: list[int]) -> float:
    """The chain rule over the ordinary tokens."""
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    ids = tokenizer(text, return_tensors="pt").input_ids
    logs = model(input_ids=ids).logits[0, :-2].log_softmax(-1)
    return float(logs.gather(1, ids[0, 1:-1, None]).sum())


def probed(folder: Path, run: Path, source: Path, *words: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The entry of `evaluation.json`, and the lines of `predictions.jsonl`."""
    named = ["model=pretrained", f"model.name_or_path={run}", f"data.test={source}", *words]
    folder.mkdir(exist_ok=True)
    succeeded(folder, "mode=probe", "data=minimal_pairs", "trainer=cpu", "outputs=out", *named)
    [made] = folder.glob("out/*/*/evaluation.json")
    lines = made.with_name("predictions.jsonl").read_text().splitlines()
    return json.loads(made.read_text())["sets"]["test/test"], [json.loads(line) for line in lines]


@pytest.mark.fp32
@pytest.mark.parametrize("objective", few_of(RUNS, ["mlm"]))
def test_scores_are_likelihoods_of_transformers(
    objective: str, tmp_path: Path, trained: Callable[[str], Path]
) -> None:
    run = trained(objective)
    (tmp_path / "pairs.jsonl").write_text(rows(PAIRS))
    entry, lines = probed(tmp_path, run, tmp_path / "pairs.jsonl")
    found = np.array([line["log_likelihoods"] for line in lines])
    tokenizer = AutoTokenizer.from_pretrained(run / "model")
    texts = [text for good, bad, _ in PAIRS for text in (good, bad)]
    if objective == "hybrid":  # transformers does not read it causally
        (tmp_path / "texts.txt").write_text("\n\n".join(texts))
        told = ["--objective", "clm", "--precision", "32-true", "--out", str(tmp_path / "told")]
        assert tiryns_here(tmp_path, "evaluate", str(run), "texts.txt", *told).returncode == 0
        rows_told = (tmp_path / "told" / "documents.jsonl").read_text().splitlines()
        expected = [-json.loads(row)["loss"] for row in rows_told]
    else:
        score = likelihood if objective == "clm" else pseudo_likelihood
        never = tokenizer.all_special_ids if objective == "diffusion" else []
        expected = [score(run / "model", text, tokenizer, never) for text in texts]
    np.testing.assert_allclose(found.reshape(-1), expected, rtol=1e-4)
    right = found[:, 0] > found[:, 1]
    shares = {"article": right[1], "order": right[0], "words": right[2:].mean()}
    assert {row["phenomenon"]: row["accuracy"] for row in entry["phenomena"]} == shares
    assert entry["metrics"]["accuracy"] == pytest.approx(np.mean([*shares.values()]))
    assert [line["predicted"] for line in lines] == [PAIRS[i][1 - int(one)] for i, one in enumerate(right)]


@pytest.mark.slow
@pytest.mark.fp32
def test_wrong_sentences_are_found_wrong_and_files_are_phenomena(
    tmp_path: Path, trained: Callable[[str], Path]
) -> None:
    """Pairs of a folder; with the columns exchanged the accuracy is what lacks to 1; equal sentences are half right."""
    run = trained("mlm")
    folder = tmp_path / "pairs"
    folder.mkdir()
    for name, part in (("first", PAIRS[:2]), ("second", PAIRS[2:])):
        (folder / f"{name}.jsonl").write_text(rows(part, named=False))
    entry, _ = probed(tmp_path / "a", run, folder)
    columns = ["data.good_column=sentence_bad", "data.bad_column=sentence_good"]
    exchanged, _ = probed(tmp_path / "b", run, folder, *columns)
    assert [row["phenomenon"] for row in entry["phenomena"]] == ["first", "second"]
    assert entry["metrics"]["accuracy"] == 1 - exchanged["metrics"]["accuracy"] != 0.5
    low, high = entry["intervals"]["accuracy"]
    assert 0 <= low <= entry["metrics"]["accuracy"] <= high <= 1
    (tmp_path / "equal.jsonl").write_text(rows([("Herons", "herons", "case"), PAIRS[0]]))
    equal, _ = probed(tmp_path / "c", run, tmp_path / "equal.jsonl")
    assert equal["equally_likely"] == 1
    assert equal["phenomena"][0] == {"phenomenon": "case", "pairs": 1, "accuracy": 0.5}


@pytest.mark.parametrize("objective", few_of(["mlm", "clm"], ["mlm"]))
def test_sentence_that_the_tokenizer_does_not_know_is_told(
    objective: str, tmp_path: Path, trained: Callable[[str], Path]
) -> None:
    """It would be the most likely of all, with a likelihood of 1."""
    (tmp_path / "pairs.jsonl").write_text(rows([*PAIRS, ("seven herons", "\u9dfa \u9dfa", "words")]))
    named = ["model=pretrained", f"model.name_or_path={trained(objective)}", "data.test=pairs.jsonl"]
    error = refused(tmp_path, "mode=probe", "data=minimal_pairs", "trainer=cpu", *named)
    assert "the model's tokenizer knows no part of the sentence '\u9dfa \u9dfa'" in error


@pytest.mark.slow
def test_suite_of_babylm_reads_its_folders(tmp_path: Path, trained: Callable[[str], Path]) -> None:
    for name, part in (("blimp_filtered", PAIRS), ("supplement_filtered", PAIRS[:1])):
        (tmp_path / "given" / name).mkdir(parents=True)
        (tmp_path / "given" / name / "first.jsonl").write_text(rows(part))
    words = [
        "suite=babylm", f"model={trained('mlm')}", "suite.data=given", "trainer=cpu", "hydra.sweep.dir=suite",
    ]  # fmt: skip
    succeeded(tmp_path, *words)
    told = json.loads((tmp_path / "suite" / "suite.json").read_text())
    assert told["complete"]
    [row] = told["models"]
    assert row["tasks"].keys() == {"blimp", "supplement"}
    assert {one["on"] for one in told["runs"]} == {"test"}


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    ("pairs", "words", "problem"),
    [
        (PAIRS, [], "random weights find the right sentence of a pair in half of the cases"),
        ([("a river", "a river", "x")], [], "pairs.jsonl, line 1: both sentences are 'a river'"),
        (PAIRS, ["data.bad_column=bad"], "has no column 'bad'; it has: sentence_good, sentence_bad, UID"),
        (PAIRS, ["mode=train"], "data=minimal_pairs is measured by mode=probe, and nothing trains on it"),
    ],
)
def test_what_cannot_be_measured_is_one_line(
    pairs: list[tuple[str, str, str]], words: list[str], problem: str, tmp_path: Path
) -> None:
    (tmp_path / "pairs.jsonl").write_text(rows(pairs))
    error = refused(
        tmp_path, "mode=probe", "data=minimal_pairs", "data.test=pairs.jsonl", "trainer=cpu",
        "model=bert_tiny", *words,
    )  # fmt: skip
    [line] = [line for line in error.splitlines() if "error" in line]
    assert problem in line


def test_pairs_of_the_standard_library_differ_in_one_change() -> None:
    pairs = StdlibMinimalPairs().rows()
    assert {pair["UID"] for pair in pairs} == {*FORMS, "word_order"}
    assert len({pair["sentence_good"] for pair in pairs}) > 300
    for pair in pairs:
        good, bad = pair["sentence_good"].split(" "), pair["sentence_bad"].split(" ")
        changed = [(a, b) for a, b in zip(good, bad, strict=True) if a != b]
        if pair["UID"] == "word_order":
            assert len(changed) == 2
            assert changed[0] == changed[1][::-1]
        else:
            assert len(changed) == 1
            assert FORMS[pair["UID"]][changed[0][0]] == changed[0][1]
