"""What a generator and a discriminator share, which gradient reaches what, and what is exported of both."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModel, AutoModelForMaskedLM, ElectraForPreTraining

from tests.models.pretraining.test_replaced_tokens import LENGTHS, detector
from tests.models.tiny import ARCHITECTURES, tiny
from tests.objectives.samples import documents, flat
from tests.support.precision import in_fp32
from tiryns.runner.inference.export import write_model


def generator_gradients(sharing: str, weight: float, size: float) -> dict[str, Tensor]:
    make, model = detector(shared_embeddings=sharing, discriminator_weight=weight, generator_size=size)
    batch = make(flat(documents(LENGTHS)))
    (model(batch)["loss"] / batch["weight"]).backward()
    named = model.generator.named_parameters()
    return {name: parameter.grad.clone() for name, parameter in named if parameter.grad is not None}


@pytest.mark.rows(3)
@pytest.mark.parametrize("size", [0.5, 1.0])
@pytest.mark.parametrize("sharing", ["all", "none", "gdes"])
def test_the_generator_learns_nothing_from_the_discriminator_but_through_shared_tables(
    sharing: str, size: float
) -> None:
    with_it, without = (generator_gradients(sharing, weight, size) for weight in (50.0, 0.0))
    apart = {name for name in with_it if not torch.allclose(with_it[name], without[name], atol=1e-8)}
    tables = {name for name in with_it if name.endswith("embeddings.weight")}
    assert len(tables) == 3
    assert apart == (tables if sharing == "all" else set())


def test_disentangled_tables_begin_as_the_generators_and_only_the_differences_learn() -> None:
    make, model = detector(shared_embeddings="gdes", generator_size=1.0, generator_depth=0.5)
    ours: Any = model.pretrained.get_input_embeddings()
    theirs: Any = model.generator.pretrained.get_input_embeddings()
    plain: Any = tiny("bert").get_input_embeddings()
    ids = torch.arange(9)
    torch.testing.assert_close(ours(ids), plain(ids))
    torch.testing.assert_close(theirs(ids), plain(ids))
    assert not ours.weight.any()
    batch = make(flat(documents(LENGTHS)))
    (model(batch)["loss"] / batch["weight"]).backward()
    assert ours.weight.grad.abs().sum() > 0
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    torch.testing.assert_close(ours(ids), ours.weight[ids] + theirs.weight[ids])


@pytest.mark.rows(3)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_any_encoder_learns_in_every_parameter_and_is_exported(architecture: str, tmp_path: Path) -> None:
    sharing = {"bert": "all", "roberta": "none"}.get(architecture, "gdes")
    make, model = detector(architecture, shared_embeddings=sharing, export_generator=True)
    batch = make(flat(documents(LENGTHS)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    (model(batch)["loss"] / batch["weight"]).backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []
    optimizer.step()
    with in_fp32():
        write_model(model, None, tmp_path / "model", "card", None, {})
    rows = {name: batch[name] for name in ("input_ids", "attention_mask")}
    real = batch["attention_mask"].bool()
    read = {"trust_remote_code": True}
    with torch.no_grad(), in_fp32():  # autocast still has the weights of before the step
        encoder = AutoModel.from_pretrained(tmp_path / "model", **read).eval()
        model.eval()
        torch.testing.assert_close(encoder(**rows)[0][real], model.pretrained.base_model(**rows)[0][real])
        generator = AutoModelForMaskedLM.from_pretrained(tmp_path / "model" / "generator", **read).eval()
        logits = model.generator.pretrained(**rows).logits[real]
        torch.testing.assert_close(generator(**rows).logits[real], logits, atol=1e-4, rtol=1e-4)
        if architecture == "electra":
            whole = ElectraForPreTraining.from_pretrained(tmp_path / "model").eval()
            torch.testing.assert_close(whole(**rows).logits[real], model.detect(batch)[real])
