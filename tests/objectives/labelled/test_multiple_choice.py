"""Multiple choice: the loss by its formula and that of transformers, keys of choices, and lists of samples."""

from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForMultipleChoice, BertConfig, EuroBertConfig

from tests.data.labelled.tasks import choices
from tests.objectives.labelled.test_finetuning import collated, model, parts
from tests.support.precision import assert_close, rounding
from tiryns.runner.models.packed.dropout_keys import dropout_keys
from tiryns.runner.models.packed.rows import choose_layout
from tiryns.runner.objectives import MultipleChoiceCollator
from tiryns.runner.objectives.rows import IGNORED

pytestmark = pytest.mark.usefixtures("precision_of_training")

EURO: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
    "intermediate_size": 64,
}  # fmt: skip


def test_loss_is_the_softmax_over_the_choices_of_each_example() -> None:
    sequences, collator = parts("multiple_choice", choices(12))
    task_model = model(collator)
    batch = collated(sequences, collator, list(range(12)))
    assert len(set(batch["num_choices"].tolist())) > 2, "examples have different numbers of choices"
    output = task_model(batch)
    expected = 0.0
    for i, row in enumerate(choices(12)):
        fed = collated(sequences, collator, [i])
        scores = (
            task_model.pretrained(  # type: ignore[operator]
                input_ids=fed["input_ids"][None], attention_mask=fed["attention_mask"][None]
            )
            .logits[0]
            .float()
        )
        assert len(scores) == len(row["choices"])
        expected += float((scores.logsumexp(0) - scores[row["label"]]).detach())
        found = output["logits"][i]
        assert_close(found[: len(scores)], scores.detach(), atol=1e-5, rtol=1e-4)
        assert (found[len(scores) :] == -torch.inf).all()
    assert float(output["loss"].detach()) == pytest.approx(expected, rel=rounding(1e-5, 1e-2))


def test_an_architecture_without_a_head_is_scored_by_a_classifier_of_one_label() -> None:
    sequences, collator = parts("multiple_choice", choices(12))
    head = collator.model_arguments()["head"]
    config = EuroBertConfig(vocab_size=collator.vocab_size, pad_token_id=0, **EURO)
    task_model = collator.task_model(head.build(config)).eval()
    assert type(task_model.pretrained).__name__ == "EuroBertForSequenceClassification"
    assert task_model.pretrained.config.num_labels == 1
    batch = collated(sequences, collator, [3])
    scores = task_model.pretrained(
        input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]
    ).logits
    expected = torch.nn.functional.cross_entropy(scores.float().T, batch["example_labels"])
    assert float(task_model(batch)["loss"]) == pytest.approx(float(expected), rel=rounding(1e-5, 1e-2))
    assert choose_layout("auto", collator, task_model) == "packed"


def test_choices_of_an_example_drop_different_elements_and_the_same_in_any_cut() -> None:
    row = {"text": "seven herons watch", "choices": ["the river", "the river"], "label": 0}
    sequences, collator = parts("multiple_choice", [row, *choices(6)])
    task_model = model(collator)
    for module in task_model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.5
    task_model.train()

    def logits(indices: list[int]) -> torch.Tensor:
        batch = collated(sequences, collator, indices)
        with dropout_keys(batch, 7):
            return task_model(batch)["logits"]

    alone = logits([0])[0]
    assert alone[0] != alone[1], "equal choices drop alike"
    assert_close(logits([4, 0, 2])[1][:2], alone, atol=1e-5, rtol=1e-4)


def test_rows_tell_their_own_sums() -> None:
    sequences, collator = parts("multiple_choice", choices(12))
    sequences.labels[5] = IGNORED
    task_model: Any = model(collator)
    task_model.by_row = True
    batch = collated(sequences, collator, list(range(12)))
    output = task_model(batch)
    assert float(output["row_sums"]["loss"].sum()) == pytest.approx(float(output["loss"]), rel=1e-6)
    assert output["row_sums"]["weight"].tolist() == [1.0] * 5 + [0.0] + [1.0] * 6
    assert batch["weight"] == 11


def test_list_of_samples_is_a_batch_for_transformers() -> None:
    collator = MultipleChoiceCollator(0, 4, 50, extra_columns=["token_type_ids"])
    first = {"input_ids": [[2, 7, 3, 9, 3], [2, 7, 3, 8, 8, 3]], "label": 1}
    first["token_type_ids"] = [[0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1]]
    second = {"input_ids": [[2, 7, 3], [2, 6, 3]], "token_type_ids": [[0, 0, 1], [0, 0, 1]], "label": 0}
    samples: list[dict[str, Any]] = [first, second]
    batch = collator(samples)
    assert batch["input_ids"].shape == (2, 2, 6)
    assert batch["labels"].tolist() == [1, 0]
    assert batch["token_type_ids"][0, 1].tolist() == [0, 0, 0, 1, 1, 1]
    sizes: dict[str, Any] = {
        "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
    }  # fmt: skip
    theirs = AutoModelForMultipleChoice.from_config(BertConfig(vocab_size=50, **sizes))
    assert theirs(**batch).logits.shape == (2, 2)
    samples[1]["input_ids"].append([2, 3])
    with pytest.raises(ValueError, match="2 to 3 choices"):
        collator(samples)


def test_a_choice_is_as_a_document_of_its_own() -> None:
    sequences, collator = parts("multiple_choice", choices(12))
    batch = collated(sequences, collator, [2, 9])
    counts = [len(choices(12)[i]["choices"]) for i in (2, 9)]
    assert batch["num_choices"].tolist() == counts
    assert len(batch["input_ids"]) == len(batch["sample_keys"]) == sum(counts)
    assert len(np.unique(batch["sample_keys"])) == sum(counts)
    assert batch["tokens"] == int(sequences.lengths(np.array([2, 9])).sum())
