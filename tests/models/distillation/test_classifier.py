"""A student of classification: its loss from the formula for each kind of label, and the teacher that it takes."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.models.tiny import taught
from tests.objectives.labelled.test_finetuning import case, collated, model
from tests.support.precision import assert_close, assert_gradients_close, gradients
from tiryns.conf.objective.labelled import SequenceClassification
from tiryns.runner.models.distillation.classifier import DistilledClassifier
from tiryns.runner.models.finetuning import SequenceClassifier
from tiryns.runner.objectives.base import Collator

KINDS = ["classification", "multi_label", "regression"]
WEIGHTS = taught(0.25, 0.75, 3.0, kind=SequenceClassification)


def teacher_of(collator: Collator, seed: int = 1) -> SequenceClassifier:
    made = model(collator, num_labels=max(1, len(collator.labels)))  # type: ignore[attr-defined]
    generator = torch.Generator().manual_seed(seed)
    for parameter in made.parameters():
        parameter.data.add_(torch.randn(parameter.shape, generator=generator), alpha=0.05)
    assert isinstance(made, SequenceClassifier)
    return made


def student_of(
    collator: Collator, teacher: SequenceClassifier, options: SequenceClassification
) -> DistilledClassifier:
    plain = model(collator)
    assert isinstance(plain, SequenceClassifier)
    made = DistilledClassifier(plain.pretrained, plain.problem_type)
    return made.learn_from(teacher, options).train()


def added_by_formula(kind: str, ours: Tensor, theirs: Tensor, temperature: float) -> Tensor:
    """T^2 KL(softmax(t/T) || softmax(s/T)) of each row, summed; of each label's two outcomes; or squared differences."""
    if kind == "regression":
        return (ours - theirs).square().sum()
    s, t = ours / temperature, theirs / temperature
    if kind == "classification":
        p, q = t.softmax(-1), s.softmax(-1)
        return temperature**2 * (p * (p / q).log()).sum()
    p, q = t.sigmoid(), s.sigmoid()
    kl = p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()
    return temperature**2 * kl.mean(-1).sum()


@pytest.mark.parametrize("kind", KINDS)
def test_loss_and_gradient_are_those_of_the_formula(kind: str) -> None:
    sequences, collator = case(kind)
    teacher = teacher_of(collator)
    plain: Any = model(collator)
    student = student_of(collator, teacher, WEIGHTS)
    batch = collated(sequences, collator, [*range(8)])
    found = student(batch)["loss"]
    found.backward()
    rows: Any = {name: batch[name] for name in ("input_ids", "attention_mask")}
    ours, theirs = plain.pretrained(**rows).logits, teacher.pretrained(**rows).logits.detach()
    added = added_by_formula(kind, ours.float(), theirs.float(), 3.0)
    expected = 0.25 * plain(batch)["loss"] + 0.75 * added
    expected.backward()
    assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert_gradients_close(gradients(student), gradients(plain), atol=1e-5, rtol=1e-4)
    student.by_row = True
    assert_close(student(batch)["row_sums"]["loss"].sum().float(), found)
    assert student.eval()(batch)["loss"].equal(plain.eval()(batch)["loss"]), "measured on labels alone"


@pytest.mark.rows(2)
@pytest.mark.usefixtures("also_in_fp64")
@pytest.mark.parametrize("kind", KINDS)
def test_packed_rows_and_micro_batches_add_up_to_the_same(kind: str) -> None:
    sequences, collator = case(kind)
    models = [student_of(collator, teacher_of(collator), WEIGHTS) for _ in range(3)]
    whole, parts, packed = models
    every = collated(sequences, collator, [*range(9)])
    cut = [collated(sequences, collator, some) for some in ([3, 4], [0, 1, 2], [*range(5, 9)])]
    cut.append(collated(sequences, collator, [0], filler=True))
    whole(every)["loss"].backward()
    torch.stack([parts(micro)["loss"] for micro in cut]).sum().backward()
    packed.pack_rows()
    ids, lengths = sequences.gather(torch.arange(9).numpy())
    flat = {**sequences.extras(torch.arange(9).numpy()), "input_ids": ids, "lengths": lengths, "packed": True}
    packed(collator({**flat, "keys": every["sample_keys"].numpy().view("uint64")}))["loss"].backward()
    for model_ in (parts, packed):
        assert_gradients_close(gradients(model_), gradients(whole), atol=2e-5, rtol=1e-4)


def test_without_weight_it_is_plain_classification_and_another_teacher_is_another_gradient() -> None:
    sequences, collator = case("classification")
    batch = collated(sequences, collator, [*range(8)])
    off = student_of(collator, teacher_of(collator), taught(1.0, 0.0, kind=SequenceClassification))
    plain = model(collator).train()
    first, second = (student_of(collator, teacher_of(collator, seed), WEIGHTS) for seed in (1, 2))
    for each in (off, plain, first, second):
        each(batch)["loss"].backward()
    for name, gradient in gradients(plain).items():
        assert torch.equal(gradients(off)[name], gradient)  # type: ignore[arg-type]
    ours, theirs = (
        torch.cat([g.flatten() for g in gradients(m).values() if g is not None]) for m in (first, second)
    )
    assert float((ours - theirs).norm()) > 0.05 * float(ours.norm())


def test_an_unlabelled_text_counts_for_nothing() -> None:
    sequences, collator = case("classification")
    student = student_of(collator, teacher_of(collator), WEIGHTS)
    sequences.labels[2] = -100
    some, fewer = collated(sequences, collator, [0, 1, 2]), collated(sequences, collator, [0, 1])
    assert some["weight"] == fewer["weight"] == 2
    assert_close(student(some)["loss"], student(fewer)["loss"], rtol=1e-5, atol=1e-6)


def saved(folder: Path, pretrained: Any, tokenizer: Any) -> str:
    pretrained.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def test_the_objective_loads_the_teacher_and_checks_it(tmp_path: Path) -> None:
    from tests.data.labelled.tasks import data_module, texts
    from tiryns.runner.objectives import get_collator_cls

    data = data_module("classification", train=texts(12), validation_documents=0)
    data.prepare_data()
    make, given = get_collator_cls("classification"), data.collator_arguments()
    plain = make(**given)
    place = saved(tmp_path / "teacher", teacher_of(plain).pretrained, data.tokenizer)
    student = make(**given, teacher=place).task_model(model(plain).pretrained)  # type: ignore[arg-type]
    assert isinstance(student, DistilledClassifier)
    chosen = (
        student.options.label_weight,
        student.options.teacher_weight,
        student.options.teacher_temperature,
    )
    assert chosen == (0.5, 0.5, 2.0)
    others = data_module("classification", train=texts(40, seed=5), validation_documents=0, vocab_size=60)
    others.prepare_data()
    with pytest.raises(ValueError, match=r"objective.teacher: .* other tokens .*data.tokenizer="):
        make(**{**given, "tokenizer": others.tokenizer}, teacher=place).task_model(model(plain).pretrained)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"objective.teacher: .* 3 labels .* the data has 2 .*data.labels"):
        make(**{**given, "labels": ["birds", "stones"]}, teacher=place).task_model(model(plain).pretrained)  # type: ignore[arg-type]
    body = saved(tmp_path / "body", teacher_of(plain).pretrained.base_model, data.tokenizer)
    with pytest.raises(ValueError, match=r"objective.teacher: .*missing"):
        make(**given, teacher=body).task_model(model(plain).pretrained)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"objective.teacher: cannot load the model 'nowhere'"):
        make(**given, teacher="nowhere").task_model(model(plain).pretrained)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"objective.teacher_temperature must be .* not 0"):
        make(**given, teacher_temperature=0)
