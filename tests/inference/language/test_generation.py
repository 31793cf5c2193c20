"""Continuations of texts by causal language models: the model's own, keyed, and the same whatever else is asked."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, BertLMHeadModel

import tiryns
from tests.conftest import few_of, train_here
from tests.inference.conftest import evaluated
from tiryns.runner.cli.commands import main
from tiryns.runner.inference.kinds import PredictOptions
from tiryns.runner.inference.predictor import Predictor

GREEDY = PredictOptions(max_new_tokens=8, temperature=0)
PROMPTS = ["the old bridge", "seven herons", "nobody"]
RUNS = {
    "clm": ["objective=clm"],
    "decoder": ["objective=clm", "model=encoder", "model.architecture=gpt2", "model.num_hidden_layers=2",
                "model.num_attention_heads=2", "model.max_position_embeddings=64"],
    "hybrid": ["objective=hybrid", "objective.causal_share=0.5"],
    "both": ["objective=hybrid", "objective.causal_share=0.5", "objective.shifted=false"],
}  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> dict[str, Path]:
    folder, words = tmp_path_factory.mktemp("causal"), ["trainer.max_steps=3", "trainer.validate_every=3"]
    return {name: train_here(folder / name, text_file, *words, *others).path for name, others in RUNS.items()}


@pytest.mark.parametrize("name", few_of(["clm", "decoder", "hybrid"], ["clm"]))
def test_greedy_continuations_are_those_of_transformers(runs: dict[str, Path], name: str) -> None:
    model, tokenizer = runs[name] / "model", AutoTokenizer.from_pretrained(runs[name] / "model")
    loader: Any = AutoModelForCausalLM if name == "decoder" else BertLMHeadModel
    theirs = loader.from_pretrained(model, **({} if name == "decoder" else {"is_decoder": True})).eval()
    predictor = Predictor(runs[name])
    assert predictor.task == "generation"
    allowed = [i for i in range(len(tokenizer)) if i not in tokenizer.all_special_ids]
    for found in predictor.predict(PROMPTS, GREEDY):
        ids = tokenizer(found["text"]).input_ids[:-1]  # without the token that ends a text
        first = len(ids)
        for _ in range(8):
            with torch.no_grad():
                logits = theirs(input_ids=torch.tensor([ids])).logits[0, -1]
            ids.append(allowed[int(logits[allowed].argmax())])
        text = tokenizer.decode(ids, skip_special_tokens=True)
        assert text == tokenizer.decode(ids[:first], skip_special_tokens=True) + found["predicted"]
        assert found["predicted"]


def test_a_sampled_continuation_does_not_depend_on_the_others(runs: dict[str, Path]) -> None:
    predictor = Predictor(runs["clm"])
    options = PredictOptions(max_new_tokens=6, seed=4)
    whole = predictor.predict(PROMPTS, options)
    assert predictor.predict(["another", *PROMPTS[1:]], options)[1:] == whole[1:]
    predictor.kind.at_once = 2
    assert predictor.predict(PROMPTS, options) == whole, "in batches of two"
    other = predictor.predict(PROMPTS, PredictOptions(max_new_tokens=6, seed=5))
    assert [row["predicted"] for row in other] != [row["predicted"] for row in whole]
    twice = predictor.predict(PROMPTS[:1] * 2, options)
    assert twice[0]["predicted"] != twice[1]["predicted"]


@pytest.mark.slow
def test_command_reads_texts_and_files(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(PROMPTS))
    capsys.readouterr()
    words = ["--max-new-tokens", "8", "--temperature", "0"]
    main(["predict", str(runs["clm"]), str(tmp_path / "texts.txt"), *words])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [{name: row[name] for name in ("text", "predicted")} for row in found] == (
        expected := Predictor(runs["clm"]).predict(PROMPTS, GREEDY)
    )
    assert tiryns.open_run(runs["clm"]).predict(PROMPTS, max_new_tokens=8, temperature=0) == expected
    main(["predict", str(runs["clm"]), PROMPTS[0], *words, "--json"])
    assert json.loads(capsys.readouterr().out)["predictions"][0]["predicted"] == expected[0]["predicted"]


@pytest.mark.parametrize("name", ["hybrid", "both"])
def test_a_hybrid_fills_in_masks_where_it_learnt_to_guess_them(runs: dict[str, Path], name: str) -> None:
    """At the token before the mask, or in its place."""
    predictor = Predictor(runs[name])
    assert predictor.predict(["seven herons"], GREEDY)[0]["predicted"]
    options = PredictOptions(steps=1, temperature=0)
    [found] = predictor.predict(["seven [MASK] watch"], options)
    folder = runs[name] / "model"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    pretrained = tiryns.open_run(runs[name]).model()
    ids = tokenizer("seven [MASK] watch", return_tensors="pt").input_ids
    place = ids[0].tolist().index(tokenizer.mask_token_id)
    with torch.no_grad():
        logits = pretrained(input_ids=ids).logits[0, place - (name == "hybrid")]
    logits[tokenizer.all_special_ids] = -math.inf
    ids[0, place] = logits.argmax()
    assert found["predicted"] == tokenizer.decode(ids[0], skip_special_tokens=True)


def test_what_an_encoder_was_trained_as_is_in_its_config_and_card(runs: dict[str, Path]) -> None:
    notes = {}
    for name, run in runs.items():
        notes[name] = json.loads((run / "model" / "config.json").read_text()).get("tiryns_objective")
        assert ("causal mask" in (run / "model" / "README.md").read_text()) == (name != "decoder")
    assert notes == {"clm": "clm", "decoder": None, "hybrid": "hybrid_shifted", "both": "hybrid"}


@pytest.mark.parametrize("name", few_of(["clm", "decoder", "hybrid"], ["decoder"]))
def test_evaluation_is_the_runs_validation_and_exact(
    runs: dict[str, Path], name: str, text_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = json.loads((runs[name] / "status.json").read_text())["results"]
    later = tmp_path / "later.txt"
    later.write_text("seven herons watch the river.\n\nnobody speaks of winter again.\n\n" * 5)
    found = evaluated(capsys, runs[name], later)["sets"][str(later)]["metrics"]
    nats = found["clm_loss"] if name == "hybrid" else found["loss"]
    assert found["perplexity"] == pytest.approx(math.exp(nats))
    assert {
        "val/held_out/perplexity",
        "val/held_out/accuracy",
        "val/held_out/bits_per_byte",
    } <= results.keys()
    assert {"accuracy", "bits_per_byte"} <= found.keys()
    if name == "decoder":
        tokenizer = AutoTokenizer.from_pretrained(runs[name] / "model")
        theirs = AutoModelForCausalLM.from_pretrained(runs[name] / "model").eval()
        losses = []
        for text in ("seven herons watch the river.", "nobody speaks of winter again."):
            ids = torch.tensor([tokenizer(text).input_ids[:-1]])
            with torch.no_grad():
                losses += [theirs(input_ids=ids, labels=ids).loss.item()] * (ids.shape[1] - 1)
        assert found["loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-4)
    with pytest.raises(SystemExit, match="perplexity over documents is exact"):
        main(["evaluate", str(runs[name]), str(later), "--pseudo-perplexity", "all"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (PredictOptions(max_new_tokens=0), "max_new_tokens=0"),
        (PredictOptions(temperature=-1.0), "temperature=-1.0"),
    ],
)
def test_what_cannot_be_is_refused(runs: dict[str, Path], options: PredictOptions, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Predictor(runs["clm"]).predict(["a text"], options)
    with pytest.raises(ValueError, match="give a shorter one"):
        Predictor(runs["decoder"]).predict(["the old bridge " * 40])
