"""A model whose rotary bases have changed is the model that transformers builds with them, weights and all."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM, PreTrainedModel

from tests.models.every_encoder import EVERY, tiny_config
from tests.models.packed.test_rows import micro_batches
from tiryns.runner.models.positions import RotaryPhases
from tiryns.runner.models.pretraining.sparse_head import SparseMaskedLM
from tiryns.runner.order.timeline import Timeline

ONE_BASE = ("esm", "esmc", "eurobert", "gte", "jina_embeddings_v3", "nomic_bert")
TWO_BASES = tuple(
    name for name in ("modernbert", "neomme", "ultrabert") if name in EVERY
)  # of newer releases, too
TIMELINE = Timeline(["short", "long"], [10, 5])


def fields(architecture: str) -> dict[str, Any]:
    """So that each has local and other layers."""
    own: dict[str, Any] = {"esm": {"position_embedding_type": "rotary", "mask_token_id": 4}}
    own |= {name: {"layer_types": ["full_attention", "sliding_attention"]} for name in TWO_BASES}
    return dict(own.get(architecture, {}))


def built(architecture: str, theta: float | None = None, local: float | None = None) -> PreTrainedModel:
    """A model whose config has these bases before it is built."""
    config = tiny_config(architecture, **fields(architecture))
    if architecture == "esm":
        config.rope_theta = theta or config.rope_theta
    else:
        parts = config.rope_parameters
        parts = {"full_attention": parts} if "rope_theta" in parts else parts
        for kind, value in (("full_attention", theta), ("sliding_attention", local)):
            if value is not None:
                parts[kind]["rope_theta"] = value
    torch.manual_seed(0)
    model = AutoModelForMaskedLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # some begin with matrices of zeros
            parameter += 0.1 * torch.randn(parameter.shape)
    return model


def states(model: PreTrainedModel) -> Tensor:
    """The logits of one padded row of two."""
    ids = torch.arange(5, 5 + 48).reshape(2, 24) % 50
    mask = torch.ones_like(ids)
    mask[1, 16:] = 0
    with torch.no_grad():
        return model(input_ids=ids, attention_mask=mask)[0]


def changed(architecture: str, **own: float) -> PreTrainedModel:
    """A model in the second phase, whose bases are these."""
    model = built(architecture)
    RotaryPhases(model, TIMELINE, [{}, own]).set(10)
    return model


@pytest.mark.parametrize("architecture", ONE_BASE + TWO_BASES)
def test_base_of_a_phase_is_that_of_a_model_built_with_it(architecture: str) -> None:
    present, model = states(built(architecture)), changed(architecture, rope_theta=77.0)
    torch.testing.assert_close(states(model), states(built(architecture, 77.0)), rtol=0, atol=0)
    assert (states(model) - present).abs().max() > 1e-4


@pytest.mark.parametrize("architecture", TWO_BASES)
def test_local_layers_have_a_base_of_their_own(architecture: str) -> None:
    local, both = changed(architecture, local_rope_theta=33.0), {"rope_theta": 77.0, "local_rope_theta": 33.0}
    torch.testing.assert_close(states(local), states(built(architecture, None, 33.0)), rtol=0, atol=0)
    expected = states(built(architecture, 77.0, 33.0))
    torch.testing.assert_close(states(changed(architecture, **both)), expected, rtol=0, atol=0)
    assert (states(local) - expected).abs().max() > 1e-4


@pytest.mark.parametrize("architecture", ["modernbert", "eurobert"])
def test_packed_rows_and_autocast_have_the_base(architecture: str) -> None:
    texts = [torch.randint(5, 30, (n,), generator=torch.Generator().manual_seed(n)).numpy() for n in (9, 30)]
    losses = []
    for model in (changed(architecture, rope_theta=77.0), built(architecture, 77.0), built(architecture)):
        task = SparseMaskedLM(model)
        packed, padded = micro_batches(texts)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            found = [float(task(padded)["loss"])]
            task.pack_rows()
            losses.append([*found, float(task(packed)["loss"])])
    assert losses[0] == losses[1]
    assert all(a != b for a, b in zip(losses[0], losses[2], strict=True))


def test_phase_without_a_base_has_that_of_the_model() -> None:
    model, first = built("modernbert"), built("modernbert")
    before = copy.deepcopy(model.config.rope_parameters)
    rotary = RotaryPhases(model, TIMELINE, [{"rope_theta": 77.0}, {}])
    rotary.set(9)
    torch.testing.assert_close(states(model), states(built("modernbert", 77.0)), rtol=0, atol=0)
    rotary.set(10)
    torch.testing.assert_close(states(model), states(first), rtol=0, atol=0)
    assert model.config.rope_parameters == before


def test_scaled_positions_are_computed_anew_from_the_base() -> None:
    """Frequencies of such a kind are more than powers of the base, and their outputs are scaled."""
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}

    def scaled(theta: float) -> PreTrainedModel:
        config = tiny_config("eurobert", rope_parameters={**scaling, "rope_theta": theta})
        torch.manual_seed(0)
        return AutoModelForMaskedLM.from_config(config).eval()

    model = scaled(10_000.0)
    RotaryPhases(model, TIMELINE, [{"rope_theta": 77.0}, {}]).set(0)
    torch.testing.assert_close(states(model), states(scaled(77.0)), rtol=0, atol=0)


@pytest.mark.slow
def test_compiled_encoder_follows_the_base_without_compiling_anew() -> None:
    graphs = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    model = built("eurobert")
    rotary = RotaryPhases(model, TIMELINE, [{}, {"rope_theta": 77.0}])
    model.base_model.compile(backend=backend, dynamic=True)
    states(model)
    compiled = len(graphs)
    rotary.set(10)
    torch.testing.assert_close(states(model), states(built("eurobert", 77.0)), rtol=1e-5, atol=1e-5)
    assert len(graphs) == compiled > 0


def test_exported_config_has_the_base(tmp_path: Any) -> None:
    changed("modernbert", rope_theta=77.0).save_pretrained(tmp_path)
    loaded = AutoModelForMaskedLM.from_pretrained(tmp_path)
    torch.testing.assert_close(states(loaded), states(built("modernbert", 77.0)), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("architecture", "own", "message"),
    [
        (
            "bert",
            {"rope_theta": 77.0},
            r"phases\[1\] \(long\).model.rope_theta: BertForMaskedLM has no rotary pos",
        ),
        (
            "eurobert",
            {"local_rope_theta": 77.0},
            r"local_rope_theta: EuroBertForMaskedLM has no layers of local",
        ),
        ("modernbert", {"rope_theta": 0}, r"rope_theta=0: expected a number above 0"),
        ("modernbert", {"rope_theta": "high"}, r"rope_theta='high': expected a number above 0"),
    ],
)
def test_base_that_cannot_be_is_named(architecture: str, own: dict[str, Any], message: str) -> None:
    model = AutoModelForMaskedLM.from_config(tiny_config(architecture))
    with pytest.raises(ValueError, match=message):
        RotaryPhases(model, TIMELINE, [{}, own])
