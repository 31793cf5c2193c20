"""A pretraining run leaves what its model guesses for masked tokens, and that agrees with the model it exports."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from tests.objectives.samples import collator, flat
from tiryns.runner.models.pretraining.sparse_head import SparseMaskedLM
from tiryns.runner.modules.samples import NUM_SAMPLES, guessed_samples


@pytest.mark.rows(1)
@pytest.mark.parametrize("overrides", [["data.layout=packed"], ["data.layout=padded", "objective=diffusion"]])
def test_run_leaves_samples(run_here: Callable[..., Any], text_file: Path, overrides: list[str]) -> None:
    one, some = text_file.with_name("one.txt"), text_file.with_name("some.txt")
    one.write_text("winter")
    some.write_text("\n".join(text_file.read_text().splitlines()[:4]))
    sets = f"data.validation={{some: {some}, one_word: {one}}}"
    run = run_here("trainer.max_steps=2", "trainer.validate_every=2", sets, *overrides)
    figures = (run.path / "metrics.csv").read_text().splitlines()[0]
    assert "val/some/loss" in figures
    assert ("one_word" in figures) == ("objective=diffusion" in overrides), "a set without a target has none"
    samples = json.loads((run.path / "samples.json").read_text())["some"]
    assert 0 < len(samples) <= NUM_SAMPLES
    text = " ".join(text_file.read_text().split())
    for sample in samples:
        whole = "".join(piece if isinstance(piece, str) else piece["true"] for piece in sample)
        assert "".join(whole.split())[:40] in "".join(text.split())
        targets = [piece for piece in sample if isinstance(piece, dict)]
        assert targets
        for target in targets:
            shares = [share for _, share in target["guesses"]]
            assert shares == sorted(shares, reverse=True)
    assert any(isinstance(sample[-1], str) for sample in samples), "what follows the last target is shown"
    assert "Samples" in (run.path / "report.html").read_text()


@pytest.mark.slow
def test_guesses_are_those_of_the_exported_model(run_here: Callable[..., Any]) -> None:
    run = run_here("trainer.max_steps=2", "trainer.validate_every=0")
    assert not (run.path / "samples.json").exists()
    model = AutoModelForMaskedLM.from_pretrained(run.path / "model").eval()
    tokenizer = AutoTokenizer.from_pretrained(run.path / "model")
    encoded = tokenizer(["the old river runs under seven herons", "nobody speaks of winter"])["input_ids"]
    tokens = {name: getattr(tokenizer, name) for name in ("pad_token_id", "mask_token_id")}
    made = collator("mlm", **tokens, vocab_size=len(tokenizer), special_token_ids=tokenizer.all_special_ids)
    batch = made(flat([np.array(ids) for ids in encoded]))
    samples = guessed_samples(SparseMaskedLM(model).eval(), batch, tokenizer)
    with torch.no_grad():
        logits = model(batch["input_ids"], attention_mask=batch["attention_mask"]).logits.flatten(0, 1)
    likeliest = logits[batch["target_positions"]].argmax(-1)
    ours = [piece["guesses"][0][0] for sample in samples for piece in sample if isinstance(piece, dict)]
    assert ours == [str(tokenizer.decode([token])).strip() for token in likeliest.tolist()]
    right = [piece["right"] for sample in samples for piece in sample if isinstance(piece, dict)]
    assert right == (likeliest == batch["targets"]).tolist()
