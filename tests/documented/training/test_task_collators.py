"""`runner.objectives`: collators of labelled samples."""

from typing import Any

import pytest
import torch
import transformers

from tests.documented.collators import END, PAD, START, THREE, tiny
from tiryns.runner.objectives import (
    QuestionAnsweringCollator,
    SequenceClassificationCollator,
    TokenClassificationCollator,
)


def test_token_classification_has_a_label_per_token() -> None:
    collator = TokenClassificationCollator(*THREE, max_sequence_length=4, special_token_ids=[START, END])
    rows: list[dict[str, Any]] = [
        {"input_ids": [START, 11, 12, 13, 14, END], "labels": [0, 3, -100, 1, 2, 0]},
        {"input_ids": [START, 11, END], "labels": torch.tensor([0, 2, 0])},
    ]
    assert collator(rows)["labels"].tolist() == [[-100, 3, -100, 1], [-100, 2, -100, -100]]
    with pytest.raises(ValueError, match="sample 0 has 1 labels for 2 tokens"):
        collator([{"input_ids": [11, 12], "labels": [1]}])
    with pytest.raises(ValueError, match="sample 0 has no 'labels'"):
        collator([{"input_ids": [11, 12]}])


@pytest.mark.parametrize("labels", [[[0, 3, 0], [0, 2]], torch.tensor([[0, 3, 0], [0, 2, 9]])])
def test_token_classification_compute_labels(labels: Any) -> None:
    collator = TokenClassificationCollator(*THREE, special_token_ids=[START, END])
    ids = torch.tensor([[START, 11, 12], [START, 11, PAD]])
    made = collator.compute_labels(
        {"input_ids": ids, "attention_mask": (ids != PAD).long(), "labels": labels}
    )
    assert made["labels"].tolist() == [[-100, 3, 0], [-100, 2, -100]]


@pytest.mark.parametrize(
    ("labels", "kind"),
    [([2, 0], torch.int64), ([0.5, 1], torch.float32), ([[1, 0, 1], [0, 0, 0]], torch.float32)],
)
def test_sequence_classification_keeps_integers_and_numbers(labels: Any, kind: torch.dtype) -> None:
    collator = SequenceClassificationCollator(*THREE)
    rows = [{"input_ids": [7] * n, "label": label} for n, label in zip((3, 2), labels, strict=True)]
    batch = collator(rows)
    assert batch["labels"].dtype == kind
    assert batch["labels"].equal(torch.tensor(labels, dtype=kind))
    made = collator.compute_labels({"input_ids": batch["input_ids"], "labels": batch["labels"]})
    assert made["labels"].equal(batch["labels"])


def test_sequence_classification_refuses_text() -> None:
    with pytest.raises(ValueError, match="labels must be numbers, not 'good'"):
        SequenceClassificationCollator(*THREE)([{"input_ids": [7], "label": "good"}])


def question(types: str = "token_type_ids", **answers: Any) -> dict[str, Any]:
    """Four words of context after a question of one, as a fast tokenizer has them."""
    sequence = [None, 0, None, 1, 1, 1, 1, None]
    kinds = sequence if types == "sequence_ids" else [0, 0, 0, 1, 1, 1, 1, 1]
    return {
        "input_ids": [START, 20, END, 11, 12, 13, 14, END],
        types: kinds,
        "offset_mapping": [(0, 0), (0, 3), (0, 0), (0, 2), (3, 8), (9, 12), (13, 20), (0, 0)],
        "answers": {"text": [], "answer_start": [], **answers},
    }


@pytest.mark.parametrize("types", ["token_type_ids", "sequence_ids"])
def test_question_answering_points_at_first_and_last_token(types: str) -> None:
    rows = [
        question(types, text=["sea of", "no"], answer_start=[3, 0]),
        question(types, text=[" cliff "], answer_start=[12]),
        question(types),
        question(types, text=["no"], answer_start=[0]),
    ]
    rows[3] = {**rows[3], **{name: rows[3][name][:5] for name in ("input_ids", "offset_mapping", types)}}
    batch = QuestionAnsweringCollator(*THREE)(rows)
    assert set(batch) == {"input_ids", "attention_mask", "start_positions", "end_positions"}
    assert batch["start_positions"].tolist() == [4, 6, 0, 3]
    assert batch["end_positions"].tolist() == [5, 6, 0, 3]
    assert batch["start_positions"].dtype == torch.int64
    assert tiny(transformers.BertForQuestionAnswering)(**batch).loss.isfinite()
    cut = QuestionAnsweringCollator(*THREE, max_sequence_length=5)(rows)
    assert cut["start_positions"].tolist() == cut["end_positions"].tolist() == [0, 0, 0, 3]


def test_question_answering_compute_labels() -> None:
    rows = [question(text=["green"], answer_start=[3]), question()]
    padded: dict[str, Any] = {
        name: torch.tensor([row[name] for row in rows])
        for name in ("input_ids", "token_type_ids", "offset_mapping")
    }
    padded |= {"attention_mask": torch.ones(2, 8).long(), "answers": [row["answers"] for row in rows]}
    made = QuestionAnsweringCollator(*THREE).compute_labels(padded)
    assert made["start_positions"].tolist() == made["end_positions"].tolist() == [4, 0]
    with pytest.raises(ValueError, match="needs offset_mapping and token_type_ids"):
        QuestionAnsweringCollator(*THREE)([{"input_ids": [7], "answers": None}])
    with pytest.raises(ValueError, match="answers are"):
        QuestionAnsweringCollator(*THREE)([{**question(), "answers": "green"}])


def test_question_answering_with_token_types_beside() -> None:
    collator = QuestionAnsweringCollator(*THREE, extra_columns=["token_type_ids"])
    batch = collator([question()])
    assert batch["token_type_ids"].tolist() == [[0, 0, 0, 1, 1, 1, 1, 1]]
