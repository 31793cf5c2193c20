"""Every head of every encoder is trained by the optimizers that treat matrices as such, as what it is."""

from math import prod
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tests.conftest import few_of
from tests.models.every_encoder import ENCODERS, tasks_of, tiny_model
from tests.objectives.samples import END, VOCABULARY
from tiryns.runner.optim import get_optimizer
from tiryns.runner.optim.roles import parts

QUICK: dict[str, dict[str, Any]] = {
    "galore": {"update_proj_gap": 1},
    "muon": {},
    "shampoo": {"preconditioning_compute_steps": 1, "start_preconditioning_step": 1},
    "soap": {"precondition_frequency": 1},
}
"""Settings with which two steps come to everything."""


def graded(model: PreTrainedModel) -> PreTrainedModel:
    """The model with the gradients of a loss over all that its head gives for two texts."""
    length = prod(getattr(model.config, "axial_pos_shape", [16]))  # Reformer trains on texts of one length
    ids = torch.randint(5, VOCABULARY, (2, length), generator=torch.Generator().manual_seed(0))
    ids[:, -1] = END
    outputs = model.train()(input_ids=ids, attention_mask=torch.ones_like(ids))
    given = [value for name, value in outputs.items() if "logits" in name and isinstance(value, Tensor)]
    torch.stack([(value - 1).square().mean() for value in given]).sum().backward()
    return model


def check(model: PreTrainedModel, optimizer_name: str) -> None:
    """Two steps change every parameter with a gradient; hidden matrices lie in layers, or before output embeddings."""
    body = {id(p) for p in model.base_model.parameters()}
    optimizer = get_optimizer(optimizer_name, model, QUICK[optimizer_name])
    for group in optimizer.param_groups:
        if group["name"].startswith("matrices"):
            for name, parameter in zip(group["param_names"], group["params"], strict=True):
                in_layers = id(parameter) in body and any(part.isdigit() for part in name.split("."))
                assert in_layers or (id(parameter) not in body and before_output(model, parameter)), name
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer.step()
    optimizer.step()
    for name, parameter in model.named_parameters():
        assert parameter.isfinite().all(), name
        if parameter.grad is not None and parameter.grad.norm() > 1e-9:
            assert not torch.equal(parameter, before[name]), name


def before_output(model: PreTrainedModel, parameter: nn.Parameter) -> bool:
    """Whether a matrix outside the body transforms hidden states for the output embeddings of a language model."""
    output = model.get_output_embeddings()
    return output is not None and parameter is not output.weight


FEW = (
    "albert", "bert", "convbert", "deberta-v2", "distilbert", "electra", "flaubert", "modernbert", "mpnet", "roberta",
)  # fmt: skip
"""Architectures of all kinds of layers and heads; the others are tried by `make test-all`."""


@pytest.mark.rows(1)
@pytest.mark.parametrize("architecture", few_of(ENCODERS, FEW))
def test_every_head_is_trained(architecture: str) -> None:
    for task in tasks_of(architecture):
        if (architecture, task) == ("longformer", "question_answering"):
            continue  # it computes texts with three separators alone
        counts = (1, 2, 77) if task in ("classification", "token_classification") else (2,)
        for num_labels in counts:
            fields = {} if task in ("mlm", "question_answering") else {"num_labels": num_labels}
            model = graded(tiny_model(architecture, task, **fields))
            found = parts(model)
            assert any(part.role == "head" for part in found.values()) or task == "mlm", task
            for name in QUICK:
                check(model, name)


def test_roles_of_what_names_do_not_tell() -> None:
    expected = {
        ("electra", "classification"): {
            "electra.embeddings_project.weight": "projection",
            "classifier.out_proj.weight": "head",
            "classifier.dense.weight": "head",
        },
        ("roberta", "classification"): {
            "classifier.out_proj.weight": "head",
            "roberta.encoder.layer.0.attention.output.dense.weight": "matrix",
        },
        ("albert", "mlm"): {
            "albert.encoder.embedding_hidden_mapping_in.weight": "projection",
            "albert.encoder.albert_layer_groups.0.albert_layers.0.ffn.weight": "matrix",
            "predictions.dense.weight": "matrix",
        },
        ("bert", "classification"): {
            "bert.pooler.dense.weight": "head",
            "bert.embeddings.position_embeddings.weight": "embedding",
            "classifier.weight": "head",
        },
        ("flaubert", "mlm"): {
            "transformer.ffns.1.lin1.weight": "matrix",
            "transformer.layer_norm1.1.weight": "norm",
        },
        ("ibert", "token_classification"): {"ibert.embeddings.word_embeddings.weight": "embedding"},
        ("mpnet", "mlm"): {
            "mpnet.encoder.relative_attention_bias.weight": "embedding",
            "lm_head.dense.weight": "matrix",
        },
    }
    for (architecture, task), names in expected.items():
        found = parts(tiny_model(architecture, task))
        assert {name: found[name].role for name in names} == names


def test_rates_fall_by_layer_where_names_do_not_tell() -> None:
    rates = {
        name: group["lr"]
        for group in get_optimizer(
            "adamw", tiny_model("flaubert", "classification"), {"lr": 1.0, "layer_decay": 0.5}
        ).param_groups
        for name in group["param_names"]
    }
    assert rates["transformer.embeddings.weight"] == 0.125
    assert rates["transformer.ffns.0.lin1.weight"] == rates["transformer.layer_norm1.0.weight"] == 0.25
    assert rates["transformer.attentions.1.q_lin.weight"] == 0.5
    assert rates["sequence_summary.summary.weight"] == 1.0
