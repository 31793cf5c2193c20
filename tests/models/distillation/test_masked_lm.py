"""A student of masked language modelling: its loss from the formula, however the batch is cut; the teacher left alone."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from tests.models.tiny import taught, tiny
from tests.objectives.samples import VOCABULARY, collator, documents, flat
from tests.support.precision import assert_close, assert_gradients_close, gradients
from tiryns.conf.objective.pretraining import MaskedLanguageModeling
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.distillation.masked_lm import DistilledMaskedLM
from tiryns.runner.models.packed.dropout_keys import dropout_keys
from tiryns.runner.models.pretraining import sparse_head
from tiryns.runner.models.pretraining.sparse_head import SparseMaskedLM

LENGTHS = [9, 4, 12, 30, 17]
PLAIN, HIDDEN = taught(0.5, 0.5), taught(0.5, 0.5, hidden_weight=0.5)
UNIFORM = taught(0.5, 0.5, hidden_weight=0.5, hidden_layers="uniform")
NO_DROPOUT: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
DEEP: dict[str, Any] = {"num_hidden_layers": 3, "hidden_size": 48, "seed": 1}


def student_of(teacher: PreTrainedModel, options: MaskedLanguageModeling, **sizes: Any) -> DistilledMaskedLM:
    pretrained = tiny(sizes.pop("architecture", "bert"), **{**NO_DROPOUT, **sizes})
    torch.manual_seed(3)
    return DistilledMaskedLM(pretrained, SparseMaskedLM(teacher), options).train()


def micro_batch(indices: list[int] | None = None, **more: Any) -> MicroBatch:
    return collator("mlm")(flat(documents(LENGTHS), indices=indices, **more))


def by_formula(model: DistilledMaskedLM, teacher: PreTrainedModel, batch: MicroBatch, layers: Any) -> Tensor:
    """The loss of recipes: a_mlm CE + a_ce T^2 KL + a_cos (1 - cos), of whole models on padded rows."""
    options, degrees = model.options, model.options.teacher_temperature
    rows: Any = {name: batch[name] for name in ("input_ids", "attention_mask")}
    chosen = batch["labels"] != -100
    ours = model.pretrained(**rows, output_hidden_states=True)
    with torch.no_grad():
        theirs = teacher(**rows, output_hidden_states=True)
    s, t = ours.logits[chosen].float(), theirs.logits[chosen].float()
    total = torch.zeros(())
    for student, teachers, label in zip(s, t, batch["labels"][chosen], strict=True):
        total = total - options.label_weight * student.softmax(-1)[label].log()
        kept = teachers.argsort(descending=True)[: options.top_k]
        p = (teachers[kept] / degrees).softmax(-1)
        q = (student / degrees).softmax(-1)[kept]
        total = total + options.teacher_weight * degrees**2 * (p * (p / q).log()).sum()
    for i, j in layers:
        mine, other = ours.hidden_states[i][chosen].float(), theirs.hidden_states[j][chosen].float()
        mine = mine if model.widen is None else mine @ model.widen.weight.T.float()
        cos = (mine * other).sum(-1) / mine.norm(dim=-1) / other.norm(dim=-1)
        total = total + options.hidden_weight * (1 - cos).sum() / len(layers)
    return total


@pytest.mark.rows(3)
@pytest.mark.parametrize("student", ["bert", "modernbert"])
@pytest.mark.parametrize(
    ("options", "layers"),
    [
        (PLAIN, []),
        (taught(0.0, 1.0, 1.0), []),
        pytest.param(taught(0.3, 2.0, 4.0, top_k=7), [], marks=pytest.mark.fp32),  # or rounding chooses
        (taught(1.0, 0.5, hidden_weight=0.7), [(2, 3)]),
        (taught(1.0, 0.0, hidden_weight=0.7, hidden_layers="uniform"), [(1, 2), (2, 3)]),
    ],
)
def test_loss_and_gradient_are_those_of_the_formula(
    student: str, options: MaskedLanguageModeling, layers: Any
) -> None:
    teacher = tiny("roberta", **DEEP)
    model = student_of(teacher, options, architecture=student)
    plain, batch = copy.deepcopy(model), micro_batch()
    found = model(batch)["loss"]
    found.backward()
    expected = by_formula(plain, teacher, batch, layers)
    expected.backward()
    assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert_gradients_close(gradients(model), gradients(plain), atol=1e-4, rtol=1e-3)


def test_of_equal_widths_nothing_is_added_to_the_state() -> None:
    model = student_of(tiny(seed=1), taught(1.0, 1.0, hidden_weight=1.0))
    plain = SparseMaskedLM(tiny())
    assert model.state_dict().keys() == plain.state_dict().keys()
    assert [n for n, _ in model.named_parameters()] == [n for n, _ in plain.named_parameters()]
    assert model.flop_counts() == plain.flop_counts()
    assert list(model.fixed_models()) == ["objective.teacher"]


def test_the_teacher_is_asked_and_not_trained() -> None:
    teacher = tiny("bert", seed=1, hidden_dropout_prob=0.5)
    before = copy.deepcopy(teacher.state_dict())
    model, batch = student_of(teacher, PLAIN), micro_batch()
    first, again = model(batch)["loss"], model(batch)["loss"]
    assert first.equal(again), "no dropout in the teacher"
    first.backward()
    assert all(p.grad is None for p in teacher.parameters())
    assert not teacher.training
    assert all(before[name].equal(value) for name, value in teacher.state_dict().items())


@pytest.mark.parametrize("packed", [False, True])
def test_without_weight_it_is_plain_masked_language_modelling_to_the_bit(packed: bool) -> None:
    dropped: dict[str, Any] = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    model = student_of(tiny(seed=1, **dropped), taught(1.0, 0.0), **dropped)
    asked = student_of(tiny(seed=1, **dropped), taught(1.0, 1e-30), **dropped)
    plain, batch = SparseMaskedLM(tiny(**dropped)).train(), micro_batch(packed=packed)
    losses = []
    for each in (model, asked, plain):
        if packed:
            each.pack_rows()
        with dropout_keys(batch, 5):
            losses.append(each(batch)["loss"])
        losses[-1].backward()
    assert losses[0].equal(losses[2])
    for name, gradient in gradients(plain).items():
        assert gradient is not None
        assert gradients(model)[name].equal(gradient)  # type: ignore[union-attr]
    assert_gradients_close(
        gradients(asked), gradients(plain), rtol=1e-5, atol=1e-6
    )  # the teacher takes none of the bits


@pytest.mark.rows(2)
@pytest.mark.usefixtures("also_in_fp64")
@pytest.mark.parametrize("options", [UNIFORM, taught(0.5, 0.5, top_k=5)])
def test_packed_rows_micro_batches_and_chunks_add_up_to_the_same(
    options: MaskedLanguageModeling, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = student_of(tiny(**DEEP), options)
    packed, parts, chunked = (copy.deepcopy(whole) for _ in range(3))
    expected = whole(micro_batch())["loss"]
    expected.backward()
    packed.pack_rows()
    found = packed(micro_batch(packed=True))["loss"]
    found.backward()
    cut = [parts(micro_batch([0, 2]))["loss"], parts(micro_batch([1, 3, 4]))["loss"]]
    sum(cut).backward()
    monkeypatch.setattr(sparse_head, "LOGITS_AT_ONCE", 3 * VOCABULARY)
    pieces = chunked(micro_batch())["loss"]
    pieces.backward()
    for loss, model in ((found, packed), (sum(cut), parts), (pieces, chunked)):
        assert_close(torch.as_tensor(loss), expected, rtol=1e-5, atol=1e-5)
        assert_gradients_close(gradients(model), gradients(whole), atol=1e-4, rtol=1e-3)


def test_sums_of_rows_add_up_to_the_loss() -> None:
    model = student_of(tiny(seed=1), HIDDEN)
    model.by_row = True
    out = model(micro_batch())
    assert_close(out["row_sums"]["loss"].sum().float(), out["loss"])


def test_micro_batch_without_targets_has_a_gradient_of_nothing() -> None:
    model = student_of(tiny(**DEEP), UNIFORM)
    loss = model(micro_batch(filler=True))["loss"]
    loss.backward()
    assert float(loss.detach()) == 0
    assert not any(float(p.grad.abs().sum()) for p in model.parameters() if p.grad is not None)


def test_validation_measures_labels_alone() -> None:
    model, plain = student_of(tiny(seed=1), PLAIN).eval(), SparseMaskedLM(tiny())
    ours, theirs = model(micro_batch(evaluation=True)), plain.eval()(micro_batch(evaluation=True))
    assert ours["loss"].equal(theirs["loss"])
    assert ours["correct"].equal(theirs["correct"])


def test_teacher_that_cannot_be_packed_is_named_and_leaves_the_student_padded() -> None:
    model = student_of(tiny("deberta-v2"), PLAIN)
    before = model.pretrained.config._attn_implementation
    with pytest.raises(ValueError, match=r"the teacher: .*data.layout=padded"):
        model.pack_rows()
    assert model.pretrained.config._attn_implementation == before
    other = student_of(tiny(seed=1), PLAIN, architecture="deberta-v2")
    with pytest.raises(ValueError, match="deberta-v2"):
        other.pack_rows()
    assert other.teacher.position_offset is None
    assert other.try_padding() == ""
    other(micro_batch())["loss"].backward()
