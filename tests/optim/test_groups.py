"""Which parameters decay, which rates they get, and what may be said about them by name."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModel

from tests.models.every_encoder import tiny_model
from tests.models.tiny import SIZES
from tests.optim.tiny import VOCABULARY, tiny_bert
from tiryns.runner.optim import get_optimizer, groups_table, parameter_groups
from tiryns.runner.optim.roles import parts

LAYER = "bert.encoder.layer.{}."
MATRICES = [
    LAYER.format(i) + name
    for i in range(2)
    for name in (
        "attention.self.query.weight",
        "attention.self.key.weight",
        "attention.self.value.weight",
        "attention.output.dense.weight",
        "intermediate.dense.weight",
        "output.dense.weight",
    )
] + ["cls.predictions.transform.dense.weight"]
EMBEDDINGS = [f"bert.embeddings.{kind}_embeddings.weight" for kind in ("word", "position", "token_type")]


def groups(model: Any, **settings: Any) -> list[dict[str, Any]]:
    defaults: dict[str, Any] = {
        "lr": 1.0, "weight_decay": 0.1, "decay_embeddings": False, "layer_decay": 1.0, "overrides": [],
    }  # fmt: skip
    return parameter_groups(model, **{**defaults, **settings})


def names_by_group(made: list[dict[str, Any]]) -> dict[str, list[str]]:
    return {group["name"]: group["param_names"] for group in made}


def test_the_two_lists_of_a_bert() -> None:
    model = tiny_bert()
    names = names_by_group(groups(model))
    assert names["decay"] == MATRICES
    assert names["embeddings"] == EMBEDDINGS
    rest = [name for name, _ in model.named_parameters() if name not in MATRICES + EMBEDDINGS]
    assert names["no_decay"] == rest
    assert all(name.endswith("bias") or "LayerNorm" in name for name in rest)


@pytest.mark.parametrize("embeddings", [False, True])
@pytest.mark.parametrize("vectors", [False, True])
def test_embeddings_and_vectors_decay_when_asked(embeddings: bool, vectors: bool) -> None:
    made = groups(tiny_bert(), decay_embeddings=embeddings, decay_vectors=vectors)
    decays = {group["name"]: group["weight_decay"] for group in made}
    assert decays == {"decay": 0.1, "embeddings": 0.1 * embeddings, "no_decay": 0.1 * vectors}


OTHERS: dict[str, Callable[[], Any]] = {
    "modernbert": lambda: tiny_model("modernbert", "mlm"),
    "distilbert": lambda: tiny_model("distilbert", "classification"),
    "roberta": lambda: tiny_model("roberta", "mlm"),
    "vit": lambda: AutoModel.from_config(AutoConfig.for_model("vit", image_size=16, patch_size=8, **SIZES)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_no_architecture_decays_norms_vectors_or_embeddings(name: str) -> None:
    model = OTHERS[name]()
    made = {group["name"]: group for group in groups(model)}
    norms = {
        id(p)
        for module in model.modules()
        if "norm" in type(module).__name__.lower()
        for p in module.parameters()
    }
    tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    for parameter in made["decay"]["params"]:
        assert parameter.ndim >= 2
        assert id(parameter) not in norms | tables
    matrices = sum(p.ndim >= 2 and id(p) not in norms | tables for p in model.parameters())
    tokens = {"vit": ["embeddings.cls_token", "embeddings.position_embeddings"]}.get(name, [])
    assert len(made["decay"]["params"]) == matrices - len(tokens)
    assert set(tokens) <= set(made.get("embeddings", {"param_names": []})["param_names"])
    assert sum(len(group["params"]) for group in made.values()) == len(list(model.parameters()))


def test_a_tied_head_is_an_embedding_and_counts_once() -> None:
    model = tiny_bert()
    assert model.cls.predictions.decoder.weight is model.bert.embeddings.word_embeddings.weight
    parameters = [p for group in groups(model) for p in group["params"]]
    assert len(parameters) == len({id(p) for p in parameters}) == len(list(model.parameters()))
    untied = tiny_bert(tie_word_embeddings=False)
    assert parts(untied)["cls.predictions.decoder.weight"].role == "head"


def test_matrices_inside_norms_do_not_decay() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm((4, 8)))
    assert names_by_group(groups(model)) == {
        "decay": ["0.weight"],
        "no_decay": ["0.bias", "1.weight", "1.bias"],
    }


def test_frozen_parameters_are_left_out() -> None:
    model = tiny_bert()
    model.bert.embeddings.requires_grad_(False)
    assert not any("embeddings" in name for group in groups(model) for name in group["param_names"])
    with pytest.raises(ValueError, match="everything is frozen"):
        groups(model.requires_grad_(False))


def test_layer_decay_falls_from_the_head_to_the_embeddings() -> None:
    rate = {
        name: group["lr"] for group in groups(tiny_bert(), layer_decay=0.5) for name in group["param_names"]
    }
    assert rate["cls.predictions.transform.dense.weight"] == 1.0
    assert rate["bert.encoder.layer.1.output.dense.weight"] == 0.5
    assert rate["bert.encoder.layer.0.output.dense.bias"] == 0.25
    assert rate["bert.embeddings.word_embeddings.weight"] == rate["bert.embeddings.LayerNorm.bias"] == 0.125
    with pytest.raises(ValueError, match="no list of layers"):
        groups(nn.Linear(2, 2), layer_decay=0.5)
    with pytest.raises(ValueError, match="layer_decay=0"):
        groups(tiny_bert(), layer_decay=0.0)


def test_overrides_by_pattern() -> None:
    made = groups(
        tiny_bert(),
        overrides=[
            {"pattern": "*.layer.0.*", "lr_scale": 0.5},
            {"pattern": r"re:query\.weight$", "lr": 0.25, "weight_decay": 0.3},
            {"pattern": "*.LayerNorm.bias", "weight_decay": 0.7},
            {"pattern": "*.layer.0.*.value.weight", "lr_scale": 0.1},
        ],
    )
    of = {name: (group["lr"], group["weight_decay"]) for group in made for name in group["param_names"]}
    assert of["bert.encoder.layer.0.attention.self.key.weight"] == (0.5, 0.1)
    assert of["bert.encoder.layer.0.attention.self.value.weight"] == (0.1, 0.1), "the last one applies"
    assert of["bert.encoder.layer.0.attention.self.query.weight"] == (0.25, 0.3)
    assert of["bert.encoder.layer.1.attention.self.query.weight"] == (0.25, 0.3)
    assert of["bert.embeddings.LayerNorm.bias"] == (1.0, 0.7)
    assert of["bert.encoder.layer.1.attention.self.key.weight"] == (1.0, 0.1)
    assert len({group["name"] for group in made}) == len(made)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ({"pattern": "*.layer.7.*", "lr": 1.0}, r"pattern '\*.layer.7.\*' matches no trainable parameter"),
        ({"pattern": "*.1.output.dens.bias", "lr": 1.0}, r"such as .*encoder\.layer\.1\.output\.dense\.bias"),
        ({"pattern": "*"}, "expected a pattern .* not "),
        ({"pattern": "*", "lr": 1.0, "lr_scale": 2.0}, r"lr \(or lr_scale\), .* not "),
        ({"pattern": "*", "lr": -1.0}, "0 or more, not .*-1.0"),
        ({"pattern": "*", "lr": 1.0, "learning_rate": 1.0}, "not .*'learning_rate'"),
        ({"lr": 1.0}, "expected a pattern"),
    ],
)
def test_an_override_that_cannot_be_meant_is_an_error(override: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        groups(tiny_bert(), overrides=[override])


def test_compiling_a_part_changes_no_name() -> None:
    model = tiny_bert()
    before = names_by_group(groups(model))
    model.bert.encoder = torch.compile(model.bert.encoder)  # type: ignore[assignment]
    assert names_by_group(groups(model)) == before


def test_muon_takes_the_hidden_matrices_and_adamw_the_rest() -> None:
    made = {
        group["name"]: group
        for group in get_optimizer("muon", tiny_bert(tie_word_embeddings=False)).param_groups
    }
    assert made["matrices"]["use_muon"]
    assert made["matrices"]["param_names"] == MATRICES
    assert not any(made[name]["use_muon"] for name in ("decay", "embeddings", "no_decay"))
    assert made["decay"]["param_names"] == ["cls.predictions.decoder.weight"]
    assert made["matrices"]["lr"] != made["embeddings"]["lr"] == made["no_decay"]["lr"]


def test_galore_projects_the_hidden_matrices() -> None:
    made = {group["name"]: group for group in get_optimizer("galore", tiny_bert(), {"rank": 7}).param_groups}
    assert made["matrices"]["param_names"] == MATRICES
    assert made["matrices"]["rank"] == 7
    assert "rank" not in made["embeddings"]
    share = get_optimizer("galore", tiny_bert(intermediate_size=32), {"rank": 0.25}).param_groups
    ranks = {name: group["rank"] for group in share if "rank" in group for name in group["param_names"]}
    assert ranks["bert.encoder.layer.0.attention.self.key.weight"] == 16
    assert ranks["bert.encoder.layer.0.intermediate.dense.weight"] == 8
    assert [group["name"] for group in share][:2] == ["matrices/rank16", "matrices/rank8"]


def test_bare_parameters_follow_the_same_rule() -> None:
    model = tiny_bert()
    assert names_by_group(groups(model.named_parameters())) == names_by_group(groups(model))
    by_shape = groups([nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2))])
    assert names_by_group(by_shape) == {"decay": ["parameter0"], "no_decay": ["parameter1"]}
    with pytest.raises(ValueError, match="is a str"):
        groups(["weight"])


def test_the_table_has_a_row_per_group() -> None:
    rows = groups_table(get_optimizer("adamw", tiny_bert(), {"lr": 0.5}))
    assert [row["name"] for row in rows] == ["decay", "embeddings", "no_decay"]
    assert rows[1]["parameters"] == 64 * (VOCABULARY + 16 + 2)
    assert rows[0]["example"] == MATRICES[0]
    assert rows[0]["tensors"] == len(MATRICES)
    assert {row["lr"] for row in rows} == {0.5}


@pytest.mark.parametrize(
    ("name", "limit", "entry"), [("soap", "max_precondition_dim", "Q"), ("splus", "max_dim", "q_sides")]
)
def test_sides_up_to_the_limit_have_a_basis_and_the_vocabulary_has_none(
    name: str, limit: str, entry: str
) -> None:
    shapes = {"layer.0.weight": (96, 64), "layer.1.weight": (97, 64), "embeddings.weight": (65, 64)}
    named = [(n, nn.Parameter(torch.randn(shape))) for n, shape in shapes.items()]
    optimizer = get_optimizer(name, named, {limit: 96})
    for _, weight in named:
        weight.grad = torch.randn_like(weight)
    optimizer.step()
    sides = [[0 if s is None else len(s) for s in optimizer.state[weight][entry]] for _, weight in named]
    assert sides == [[96, 64], [0, 64], [0, 64]]
