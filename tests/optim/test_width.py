"""Parametrizations by width: which rates and weights they scale, and that muP's factor of the logits is what it says."""

import copy
import re
from typing import Any

import pytest
import torch
from lightning.pytorch import LightningModule
from omegaconf import flag_override
from torch import nn
from transformers import AutoConfig, AutoModelForMaskedLM
from transformers.modeling_outputs import MaskedLMOutput

from tests.optim.tiny import tiny_bert
from tests.support.composed import composed
from tiryns.runner.config.permissions import on_command_line
from tiryns.runner.loop.assembly import assemble
from tiryns.runner.optim import get_optimizer, parameter_groups
from tiryns.runner.optim.width import initialise_by_width

SIZES: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 100,
}  # fmt: skip

MATRICES = ("dense.weight", "query.weight", "key.weight", "value.weight")
NORM = ("cls.predictions.transform.LayerNorm.weight", "cls.predictions.transform.LayerNorm.bias")


def rates(model: nn.Module, kind: str, base_width: int) -> dict[str, float]:
    made = parameter_groups(model, 1.0, 0.1, False, 1.0, [], parametrization=kind, base_width=base_width)
    return {name: group["lr"] for group in made for name in group["param_names"]}


def encoder(architecture: str) -> Any:
    torch.manual_seed(0)
    return AutoModelForMaskedLM.from_config(AutoConfig.for_model(architecture, **SIZES, pad_token_id=0))


@pytest.mark.parametrize(
    ("kind", "endings", "rate"),
    [("embedding", ("_embeddings.weight",), 4.0), ("mup", (*MATRICES, *NORM), 0.25)],
)
def test_rates_are_scaled_by_width(kind: str, endings: tuple[str, ...], rate: float) -> None:
    """Of embeddings alone, or of matrices and of the norm before the logits."""
    found = rates(tiny_bert(), kind, base_width=16)
    assert found == {name: rate if name.endswith(endings) else 1.0 for name in found}


@pytest.mark.parametrize("kind", ["embedding", "mup"])
def test_at_the_base_width_every_parametrization_is_the_standard_one(kind: str) -> None:
    model = tiny_bert()
    assert set(rates(model, kind, base_width=64).values()) == {1.0}
    before = copy.deepcopy(model.state_dict())
    initialise_by_width(model, base_width=64)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    "architecture", ["bert", "modernbert", "roberta", "esm", "eurobert", "electra", "deberta-v2"]
)
def test_logits_of_a_model_are_smaller_by_the_ratio(architecture: str) -> None:
    model, ids = encoder(architecture).eval(), torch.randint(5, 100, (2, 7))
    norms = [m for m in model.modules() if "norm" in type(m).__name__.lower() and hasattr(m, "weight")]
    for matrix in (p for p in model.parameters() if p.ndim > 1):
        assert matrix.std() > 0
    before = model(input_ids=ids).logits
    with torch.no_grad():
        for parameter in norms[-1].parameters():
            parameter.mul_(0.25)
    assert torch.allclose(model(input_ids=ids).logits, before * 0.25, rtol=1e-4, atol=1e-6)


class Scaled(nn.Module):
    """A model whose logits are multiplied behind the output embeddings, before their bias."""

    def __init__(self, model: Any, factor: float) -> None:
        super().__init__()
        self.model, self.factor = model, factor

    def forward(self, input_ids: torch.Tensor) -> Any:
        bias = self.model.get_output_embeddings().bias
        return MaskedLMOutput(logits=(self.model(input_ids=input_ids).logits - bias) * self.factor + bias)


def step_of(optimizer: torch.optim.Optimizer, model: nn.Module, ids: torch.Tensor) -> float:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(input_ids=ids).logits.flatten(0, 1), ids.flatten())
    loss.backward()
    optimizer.step()
    return float(loss.detach())


def test_factor_in_the_norm_trains_as_one_behind_the_logits() -> None:
    ratio, inside = 0.25, tiny_bert().double()
    behind = Scaled(copy.deepcopy(inside), ratio)
    initialise_by_width(inside, base_width=16)
    theirs = dict(behind.model.named_parameters())
    with torch.no_grad():
        for name, parameter in inside.named_parameters():
            if not name.startswith("cls.predictions.transform.LayerNorm"):
                theirs[name].copy_(parameter)
    width = {"parametrization": "mup", "base_width": 16}
    ours = get_optimizer(
        "adamw", inside, {"lr": 1e-3, "weight_decay": 0.0, "betas": (0.9, 0.99), "eps": 1e-30, **width}
    )
    groups = [{"params": [p], "lr": 1e-3 * (ratio if n.endswith(MATRICES) else 1)} for n, p in theirs.items()]
    other = torch.optim.AdamW(groups, weight_decay=0.0, betas=(0.9, 0.99), eps=1e-30)
    for step in range(6):
        ids = torch.randint(5, 100, (4, 9), generator=torch.Generator().manual_seed(step))
        losses = [step_of(ours, inside, ids), step_of(other, behind, ids)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-9), step
    assert losses[0] < 5.05


def test_matrices_begin_as_large_as_their_width_asks() -> None:
    model = tiny_bert()
    before = copy.deepcopy(model.state_dict())
    initialise_by_width(model, base_width=16)
    after = model.state_dict()
    query, words = (
        "bert.encoder.layer.0.attention.self.query.weight",
        "bert.embeddings.word_embeddings.weight",
    )
    assert torch.allclose(after[query], before[query] * 0.5)
    assert torch.equal(after[words], before[words])
    assert after["cls.predictions.transform.LayerNorm.weight"].unique().tolist() == [0.25]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ["optimizer=muon", "optimizer.parametrization=embedding"],
            "has the rules of Adam: choose one of adam, adamw",
        ),
        (["model.init=megatron", "optimizer.parametrization=mup"], "says how weights begin"),
        (
            ["model=pretrained", "model.name_or_path=x", "optimizer.parametrization=mup"],
            "says how weights begin",
        ),
        (["optimizer.parametrization=mu"], "there are: standard, embedding, mup"),
    ],
)
def test_settings_that_the_rules_do_not_hold_for_are_refused(words: list[str], why: str) -> None:
    from tiryns.runner.config.checks import check_config

    with pytest.raises(ValueError, match=re.escape(why)):
        check_config(composed(words))


def test_models_without_a_norm_before_the_logits_and_bare_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="needs a model of transformers"):
        rates(nn.Linear(3, 3), "mup", 8)
    with pytest.raises(ValueError, match="need a model, not groups"):
        rates([{"params": [nn.Parameter(torch.zeros(2, 2))]}], "mup", 8)  # type: ignore[arg-type]
    headless = tiny_bert().bert
    with pytest.raises(ValueError, match="choose parametrization=embedding"):
        initialise_by_width(headless, 16)


class Holder(LightningModule):
    """A module of the user's own that takes the model of the config."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model


def test_weights_of_plain_data_begin_by_width_too() -> None:
    config = composed(["trainer=cpu"])
    with flag_override(config, ["struct", "readonly"], [False, False]):
        config.data = {"_target_": "tests.config.plain_components.Points"}
        config.module = {"_target_": "tests.optim.test_width.Holder"}
        config.model = {"_target_": "transformers.BertForMaskedLM", "config": {**SIZES, "hidden_size": 128}}
        config.allowed_targets, config.checkpoint.monitor = ["tests"], None
        config.optimizer.parametrization, config.optimizer.base_width = "mup", 32
    with on_command_line(["allowed_targets=[tests]"]):
        model = assemble(config).model
    assert model.cls.predictions.transform.LayerNorm.weight.unique().tolist() == [0.25]
