"""Joint tagging: the loss by hand, heads as models of their own, and means over each column's own targets."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.data.labelled.tasks import prepared_data, tags
from tests.objectives.labelled.test_finetuning import collated, model
from tests.support.precision import assert_close, assert_gradients_close, gradients, rounding
from tiryns.runner.data.batches import share_of
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.finetuning import TokenClassifier
from tiryns.runner.objectives import JointTaggingCollator, get_collator_cls
from tiryns.runner.objectives.rows import IGNORED

pytestmark = pytest.mark.usefixtures("precision_of_training")

COLUMNS = ["kind", "part"]
EVERY = list(range(12))


def made(rows: Any, columns: list[str] = COLUMNS, **objective: Any) -> tuple[Any, Any]:
    data = prepared_data("joint_tagging", train=rows, tag_columns=columns)
    return data.train, get_collator_cls("joint_tagging")(**objective, **data.collator_arguments())


def partly(rows: Any) -> Any:
    """Every third row lacks one column, every other third the other."""
    lacking = {0: "kind", 1: "part"}
    return [{k: v for k, v in row.items() if k != lacking.get(i % 3)} for i, row in enumerate(rows)]


def test_loss_is_the_weighted_sum_of_the_columns_means() -> None:
    sequences, collator = made(partly(tags(12)), column_weights={"part": 0.25})
    joint: Any = model(collator)
    batch = collated(sequences, collator, EVERY)
    logits = joint.pretrained(
        input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]
    ).logits.float()
    totals, counts = {"kind": 0.0, "part": 0.0}, {"kind": 0, "part": 0}
    numbers = {name: place for place, name in enumerate(collator.labels)}
    starts = {"kind": 0, "part": len(collator.column_labels["kind"])}
    first = sequences.words.first_pieces
    for i, row in enumerate(partly(tags(12))):
        places = np.flatnonzero(first[sequences.places(np.array([i]))])
        for name in set(COLUMNS) & set(row):
            own = logits[i, :, starts[name] : starts[name] + len(collator.column_labels[name])]
            for place, label in zip(places, row[name], strict=True):
                totals[name] -= float(
                    own[place].log_softmax(-1)[numbers[f"{name}={label}"] - starts[name]].detach()
                )
                counts[name] += 1
    expected = totals["kind"] / counts["kind"] + 0.25 * totals["part"] / counts["part"]
    found = float(joint(batch)["loss"].detach()) / batch["weight"]
    assert found == pytest.approx(expected, rel=rounding(1e-5, 1e-2))
    assert batch["denominators"] == counts
    assert counts["kind"] != counts["part"]


def test_each_head_is_a_token_classification_model_on_the_same_encoder() -> None:
    sequences, collator = made(tags(12))
    joint: Any = model(collator)
    batch = collated(sequences, collator, EVERY)
    joint(batch)["loss"].backward()
    start, total = 0, torch.zeros_like(joint.pretrained.bert.encoder.layer[0].output.dense.weight)
    for name, labels in collator.column_labels.items():
        own_sequences, own = made(tags(12), [name])
        alone: Any = TokenClassifier(model(own).pretrained)  # type: ignore[arg-type]
        alone.pretrained.bert.load_state_dict(joint.pretrained.bert.state_dict())
        rows = slice(start, start + len(labels))
        with torch.no_grad():
            alone.pretrained.classifier.weight.copy_(joint.pretrained.classifier.weight[rows])
            alone.pretrained.classifier.bias.copy_(joint.pretrained.classifier.bias[rows])
        fed: MicroBatch = {**batch, "targets": collated(own_sequences, own, EVERY)["tag_targets"][:, 0]}
        output = alone(fed)
        output["loss"].backward()
        assert_close(joint(batch)["logits"][:, rows], output["logits"], atol=1e-5, rtol=1e-5)
        ours = joint.pretrained.classifier.weight.grad[rows]
        assert_close(ours, alone.pretrained.classifier.weight.grad, atol=1e-4, rtol=1e-3)
        total += alone.pretrained.bert.encoder.layer[0].output.dense.weight.grad
        start += len(labels)
    assert_close(joint.pretrained.bert.encoder.layer[0].output.dense.weight.grad, total, atol=1e-4, rtol=1e-2)


def test_the_cut_does_not_show_where_rows_lack_columns() -> None:
    sequences, collator = made(partly(tags(12)))
    joint: Any = model(collator)
    found = []
    for cut in ([EVERY], [EVERY[3:5], EVERY[:3], EVERY[5:]]):
        share = share_of([collated(sequences, collator, some) for some in cut])
        share["micro_batches"].append(collated(sequences, collator, [0], filler=True))
        share["micro_batches"][-1]["batch_totals"] = share["micro_batches"][0]["batch_totals"]
        joint.zero_grad()
        total = torch.stack([joint(micro)["loss"] for micro in share["micro_batches"]]).sum()
        total.backward()
        found.append((total.item(), {n: g.clone() for n, g in gradients(joint).items() if g is not None}))
    assert found[1][0] == pytest.approx(found[0][0], rel=rounding(1e-5, 1e-3))
    assert_gradients_close(found[1][1], found[0][1], atol=2e-5, rtol=1e-4)
    parts = [[i for i in EVERY if i % 3 == 0], [i for i in EVERY if i % 3]]
    alone = [float(joint(collated(sequences, collator, some))["loss"].detach()) for some in parts]
    assert sum(alone) != pytest.approx(found[0][0], rel=1e-2), "means of parts are other means"


def test_no_token_sees_a_label() -> None:
    sequences, collator = made(tags(12))
    joint: Any = model(collator)
    batch = collated(sequences, collator, EVERY)
    before = joint(batch)["logits"]
    for one in sequences.columns.values():
        one.word_labels[:] = one.word_labels[::-1].copy()
    after = collated(sequences, collator, EVERY)
    assert not torch.equal(batch["tag_targets"], after["tag_targets"])
    assert torch.equal(joint(after)["logits"], before)


def test_batch_without_targets_has_loss_0() -> None:
    sequences, collator = made(tags(12))
    for one in sequences.columns.values():
        one.word_labels[:] = IGNORED
    batch = collated(sequences, collator, [0, 1])
    joint: Any = model(collator)
    loss = joint(batch)["loss"]
    loss.backward()
    assert (batch["weight"], float(loss.detach())) == (0, 0.0)


def test_weights_are_of_columns() -> None:
    labels = ["a=x", "a=y", "b=x"]
    for given, problem in (
        ({"c": 1}, "'c', which is no column; there are: a, b"),
        ({"a": -1}, "0 or more"),
        ({"a": 0, "b": 0}, "not all are 0"),
    ):
        with pytest.raises(ValueError, match=problem):
            JointTaggingCollator(0, 4, 50, labels=labels, column_weights=given)
    with pytest.raises(ValueError, match="data=joint_tagging"):
        JointTaggingCollator(0, 4, 50, labels=["x", "y"])


def test_samples_in_a_list_become_padded_rows() -> None:
    collator = JointTaggingCollator(0, 4, 50, labels=["kind=a", "kind=b", "part=c"])
    samples = [
        {"input_ids": [11, 12], "tag_labels": [[0, 0], [1, -100]]},
        {"input_ids": [13], "tag_labels": [[1, 0]]},
    ]
    batch = collator(samples)
    assert batch["input_ids"].tolist() == [[11, 12], [13, 0]]
    assert batch["labels"].tolist() == [[[0, 0], [1, IGNORED]], [[1, 0], [IGNORED, IGNORED]]]
