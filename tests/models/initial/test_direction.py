"""An encoder whose weights are loaded reads both ways, or it is refused where that is needed."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification, PreTrainedModel

from tests.models.every_encoder import ENCODERS, EVERY, OTHERS, tasks_of, tiny_model
from tests.models.test_every_encoder import PACKED
from tests.models.tiny import tiny
from tiryns.runner.models.distillation.teacher import load_teacher
from tiryns.runner.models.encoder import load_encoder
from tiryns.runner.models.head import LANGUAGE_MODEL, MASKED_LM, Head
from tiryns.runner.models.packed.causal import Direction
from tiryns.runner.models.weights import load_trained, load_weights, reads_one_way

pytestmark = pytest.mark.fp32

TEXT = [name for name in ENCODERS if name in EVERY and "mlm" in tasks_of(name)]


OWN_ATTENTION = {"layoutlm", "neomme"}
"""Encoders whose padded rows do not ask for an attention that can be replaced, in some version of transformers."""


@pytest.mark.rows(7)
@pytest.mark.parametrize("architecture", TEXT)
def test_every_encoder_reads_both_ways_and_is_known_where_it_does_not(architecture: str) -> None:
    model = tiny_model(architecture, "mlm")
    assert not reads_one_way(model)
    Direction(
        model.base_model, causal=True
    )  # for those whose padded rows have an attention that can be replaced
    assert reads_one_way(model) or architecture not in PACKED - OWN_ATTENTION


@pytest.mark.parametrize("architecture", ["gpt2", "llama", "qwen3", "modernbert-decoder"])
def test_decoders_are_known(architecture: str) -> None:
    assert architecture in OTHERS
    assert reads_one_way(tiny_model(architecture, "classification"))


def causal(folder: Path) -> PreTrainedModel:
    """A BERT whose config makes it read causally, as a library might."""
    model = tiny("bert")
    model.save_pretrained(folder)
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"is_decoder": True}))
    return model


def load(folder: Path, head: Head) -> Any:
    return load_encoder(str(folder), {}, None, head, new_vocabulary=False)


CLASSIFIER = Head(AutoModelForSequenceClassification, {"num_labels": 3})
NEEDS_BOTH = {
    "masked": lambda folder: load(folder, MASKED_LM),
    "classifier": lambda folder: load(folder, CLASSIFIER),
    "new head": lambda folder: load(folder, CLASSIFIER._replace(fresh=True)),
    "teacher": lambda folder: load_teacher(str(folder), "AutoModelForMaskedLM", None),
    "embeddings": lambda folder: load_weights(AutoModel, str(folder)),
    "evaluated": lambda folder: load_trained(AutoModelForMaskedLM, str(folder)),
}


@pytest.mark.rows(3)
@pytest.mark.parametrize("way", NEEDS_BOTH)
def test_causal_encoder_is_refused_where_both_ways_are_needed(way: str, tmp_path: Path) -> None:
    causal(tmp_path)
    with pytest.raises(ValueError, match=r"\(bert\) reads one way only: .*is_decoder=false.*objective=clm"):
        NEEDS_BOTH[way](tmp_path)
    tiny("bert").save_pretrained(tmp_path)
    NEEDS_BOTH[way](tmp_path)


def test_next_tokens_are_guessed_by_what_reads_one_way(tmp_path: Path) -> None:
    model: Any = causal(tmp_path)
    assert torch.equal(
        load(tmp_path, LANGUAGE_MODEL).get_input_embeddings().weight, model.get_input_embeddings().weight
    )
    again = load_encoder(str(tmp_path), {"is_decoder": False}, None, new_vocabulary=False)
    assert not reads_one_way(again)


def test_trial_leaves_no_trace() -> None:
    model = tiny("bert").train()
    state = torch.get_rng_state()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    reads_one_way(model)
    assert model.training
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
