"""Class weights, label smoothing, focal loss and R-Drop: the sums do not show the cut, the layout or the padding."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from tests.data.labelled.tasks import prepared_data, sentences, texts
from tests.objectives.labelled import test_finetuning
from tests.objectives.labelled.test_finetuning import collated
from tests.support.precision import BF16, assert_gradients_close, gradients, rounding
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.packed.dropout_keys import add_embedding_noise, dropout_keys
from tiryns.runner.objectives import get_collator_cls
from tiryns.runner.objectives.base import Collator

pytestmark = pytest.mark.usefixtures("precision_of_training")

ALL = {"class_weights": "balanced", "label_smoothing": 0.1, "focal_gamma": 1.5, "r_drop": 0.7}
EACH = [{name: value} for name, value in ALL.items()] + [ALL]
SEVERAL = [["a"], [], ["a", "b"], ["c"], ["a"]]
ROWS: dict[str, list[dict[str, Any]]] = {
    "classification": texts(15),
    "multi_label": [{**row, "label": SEVERAL[i % 5]} for i, row in enumerate(texts(15))],
    "token_classification": sentences(15),
}
MULTI = {"class_weights": {"a": 3.0, "c": 0.5}, "label_smoothing": 0.1, "focal_gamma": 1.5, "r_drop": 0.7}


def parts(task: str, **settings: Any) -> tuple[Any, Any]:
    """Training sequences, and the collator with settings."""
    option = "token_classification" if task == "token_classification" else "classification"
    data = prepared_data(option, train=ROWS[task])
    return data.train, get_collator_cls(option)(**data.collator_arguments(), **settings)


def model(collator: Collator, dropout: float = 0.1, alpha: float = 0.0) -> Any:
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    made: Any = test_finetuning.model(collator, **rates).train()
    made.pretrained.classifier.weight.data.mul_(30)  # or all labels would be as likely
    if alpha:
        add_embedding_noise(made.pretrained, alpha)
    return made


def summed(task_model: Any, batches: list[MicroBatch], seed: int = 5) -> tuple[float, float, Any]:
    """The loss of a global batch in pieces, its weight and its gradients, with keyed dropout."""
    task_model.zero_grad()
    loss = 0.0
    for batch in batches:
        with dropout_keys(batch, seed):
            found = task_model(batch)["loss"]
            found.backward()
        loss += float(found.detach())
    clones = {n: None if g is None else g.clone() for n, g in gradients(task_model).items()}
    return loss, sum(float(batch["weight"]) for batch in batches), clones


@pytest.mark.rows(3)
@pytest.mark.usefixtures("also_in_fp64")
@pytest.mark.parametrize("alpha", [0.0, 5.0])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("task", ROWS)
def test_neither_cut_nor_layout_shows_with_dropout_and_noise(task: str, packed: bool, alpha: float) -> None:
    sequences, collator = parts(task, **(MULTI if task == "multi_label" else ALL))
    whole, cut = model(collator, alpha=alpha), model(collator, alpha=alpha)
    if packed:
        cut.pack_rows()
    every = list(range(len(sequences)))
    expected = summed(whole, [collated(sequences, collator, every)])
    pieces = [
        collated(sequences, collator, some, packed=packed) for some in (every[3:5], every[:3], every[5:])
    ]
    pieces.append(collated(sequences, collator, [0], packed=packed, filler=True))
    found = summed(cut, pieces)
    assert found[0] == pytest.approx(expected[0], rel=rounding(1e-5, 1e-2))
    assert found[1] == pytest.approx(expected[1], rel=1e-9)
    assert_gradients_close(found[2], expected[2], atol=2e-5, rtol=1e-4)


@pytest.mark.rows(3)
@pytest.mark.parametrize("settings", EACH, ids=str)
@pytest.mark.parametrize("task", ["classification", "token_classification"])
def test_each_setting_changes_training_and_leaves_validation(task: str, settings: dict[str, Any]) -> None:
    sequences, collator = parts(task, **settings)
    _, plain = parts(task)
    every = list(range(len(sequences)))
    batch, usual = (collated(sequences, one, every, evaluation=False) for one in (collator, plain))
    with dropout_keys(batch, 5):
        changed = model(collator)(batch)["loss"] / batch["weight"]
    with dropout_keys(usual, 5):
        unchanged = model(plain)(usual)["loss"] / usual["weight"]
    assert abs(float(changed.detach()) - float(unchanged.detach())) > 1e-4
    batch, usual = (collated(sequences, one, every, evaluation=True) for one in (collator, plain))
    assert batch["weight"] == usual["weight"]
    assert torch.equal(model(collator).eval()(batch)["loss"], model(plain).eval()(usual)["loss"])


def test_weighted_loss_of_a_global_batch_is_torchs_weighted_mean() -> None:
    sequences, collator = parts("classification", class_weights={"birds": 4, "stones": 0.5})
    task_model = model(collator, dropout=0.0)
    batches = [collated(sequences, collator, some) for some in ([0, 1, 2, 3], [4, 5], list(range(6, 15)))]
    loss, weight, _ = summed(task_model, batches)
    logits = torch.cat([task_model(batch)["logits"] for batch in batches])
    labels = torch.cat([batch["example_labels"] for batch in batches])
    weights = torch.tensor([4.0, 1.0, 0.5])  # of birds, none, stones
    assert loss / weight == pytest.approx(
        float(functional.cross_entropy(logits, labels, weight=weights)), rel=rounding(1e-5, 1e-3)
    )


@pytest.mark.parametrize("task", ["classification", "token_classification"])
def test_balanced_weights_make_labels_count_the_same(task: str) -> None:
    sequences, collator = parts(task, class_weights="balanced")
    batch = collated(sequences, collator, list(range(len(sequences))))
    labels = batch["example_labels"] if task == "classification" else batch["targets"]
    shares = np.bincount(labels.numpy()) * collator.class_weights
    assert shares == pytest.approx([len(labels) / len(shares)] * len(shares))
    assert batch["weight"] == pytest.approx(len(labels))


def test_balanced_weights_of_several_labels_weigh_both_answers_the_same() -> None:
    _, collator = parts("multi_label", class_weights="balanced")
    holds = [sum(label in SEVERAL[i % 5] for i in range(15)) for label in "abc"]
    assert collator.class_weights.tolist() == pytest.approx([(15 - n) / n for n in holds])


def test_passes_of_r_drop_drop_other_elements_and_the_same_in_every_cut() -> None:
    sequences, collator = parts("classification", r_drop=1.0)
    task_model = model(collator)
    seen: list[torch.Tensor] = []
    task_model.pretrained.dropout.register_forward_hook(lambda m, i, output: seen.append(output == 0))
    for some in ([0, 1], [1]):
        with dropout_keys(batch := collated(sequences, collator, some), 5):
            task_model(batch)
    (first, second), (first_alone, second_alone) = seen[:2], seen[2:]
    assert not torch.equal(first, second)
    assert torch.equal(first[1:], first_alone)
    assert torch.equal(second[1:], second_alone)


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        ("classification", {"class_weights": {"bird": 2}}, r"class_weights names 'bird', .* mean 'birds'"),
        ("classification", {"class_weights": [1, 2]}, r"class_weights has 2 numbers for 3 labels: birds"),
        ("classification", {"class_weights": [1, 2, -1]}, r"expected balanced, a number for each label"),
        ("classification", {"class_weights": "even"}, r"class_weights='even': expected balanced"),
        (
            "classification",
            {"label_smoothing": 1.0},
            r"objective\.label_smoothing must be a number in \[0, 1\)",
        ),
        ("classification", {"thresholds": "global"}, r"thresholds='global' is for texts with several labels"),
        ("multi_label", {"thresholds": "both"}, r"thresholds='both': expected global or per_label"),
        ("multi_label", {"thresholds": {"z": 0.2}}, r"thresholds names 'z', which is no label"),
        ("multi_label", {"thresholds": [0.2, 0.3]}, r"thresholds has 2 numbers for 3 labels"),
        ("multi_label", {"thresholds": 1.5}, r"or numbers between 0 and 1"),
        ("token_classification", {"class_weights": {"B-PLAC": 2}}, r"mean 'B-PLACE'"),
    ],
)
def test_wrong_settings_are_one_line(task: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        parts(task, **settings)
    assert "\n" not in str(error.value)


def test_numbers_have_no_labels_to_weigh() -> None:
    data = prepared_data("classification", train=[{**r, "label": i / 4} for i, r in enumerate(texts(9))])
    for name, value in ALL.items():
        setting: dict[str, Any] = {name: value}
        with pytest.raises(ValueError, match=r"is for labels, and this data has numbers"):
            get_collator_cls("classification")(**data.collator_arguments(), **setting)


def test_labels_without_examples_cannot_be_balanced() -> None:
    rows = [{**row, "label": "ac"[i % 2]} for i, row in enumerate(texts(9))]
    data = prepared_data("classification", train=rows, labels=["a", "b", "c"])
    with pytest.raises(ValueError, match=r"balanced: the training data has no examples of the label 'b'"):
        get_collator_cls("classification")(**data.collator_arguments(), class_weights="balanced")


def test_r_drop_needs_dropout() -> None:
    _, collator = parts("classification", r_drop=1.0)
    with pytest.raises(ValueError, match=r"objective\.r_drop=1 compares two passes .* this model has none"):
        model(collator, dropout=0.0)
    assert BF16 or model(collator).training_loss.r_drop == 1.0
