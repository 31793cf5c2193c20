"""`runner.objectives`: collators of lists of samples, as the `collate_fn` of a DataLoader."""

import inspect
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch.utils.data import DataLoader

from tests.documented.collators import END, PAD, START, THREE, UNKNOWN, samples, tiny
from tiryns.runner.objectives import (
    Collator,
    EnhancedMaskedLanguageModelingCollator,
    MaskedDiffusionCollator,
    MaskedLanguageModelingCollator,
    QuestionAnsweringCollator,
    SequenceClassificationCollator,
    TokenClassificationCollator,
    get_collator_cls,
)
from tiryns.runner.order.keyed import sample_keys

PRETRAINING: list[Any] = [
    MaskedLanguageModelingCollator,
    EnhancedMaskedLanguageModelingCollator,
    MaskedDiffusionCollator,
]
LEADING = ["pad_token_id", "mask_token_id", "vocab_size", "text_column"]
DOCUMENTED: list[tuple[Any, dict[str, Any]]] = [
    (Collator, {"text_column": "text", "label_column": None, "max_sequence_length": 1024}),
    (
        MaskedLanguageModelingCollator,
        {"text_column": "text", "max_sequence_length": 1024, "mlm_probability": 0.3},
    ),
    (
        EnhancedMaskedLanguageModelingCollator,
        {"text_column": "text", "label_column": None, "max_sequence_length": 1024},
    ),
    (
        TokenClassificationCollator,
        {"text_column": "text", "label_column": "labels", "max_sequence_length": 1024},
    ),
    (
        SequenceClassificationCollator,
        {"text_column": "text", "label_column": "label", "max_sequence_length": 1024},
    ),
    (
        QuestionAnsweringCollator,
        {"text_column": "question", "label_column": "answers", "context_column": "context",
         "max_sequence_length": 1024, "doc_stride": 128},
    ),
    (
        MaskedDiffusionCollator,
        {"text_column": "text", "max_sequence_length": 1024, "num_steps": 1000, "sampling_eps": 0.1,
         "noise_eps": 1e-3, "min_masked": None, "max_masked": None},
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("collator", "defaults"), DOCUMENTED, ids=lambda value: getattr(value, "__name__", "")
)
def test_documented_parameters_lead_with_their_defaults(collator: Any, defaults: dict[str, Any]) -> None:
    parameters = inspect.signature(collator).parameters
    assert list(parameters)[: 3 + len(defaults)] == [*LEADING[:3], *defaults]
    assert {name: parameters[name].default for name in defaults} == defaults
    assert all(p.default is not p.empty for p in list(parameters.values())[3:] if p.kind != p.VAR_KEYWORD)


def test_collator_is_abstract() -> None:
    with pytest.raises(TypeError, match="compute_labels"):
        Collator(*THREE)  # type: ignore[abstract]


class Copy(Collator):
    """Adds nothing: the labels are those of the column."""

    def compute_labels(self, tokenized: dict[str, Any]) -> dict[str, Any]:
        return {"input_ids": tokenized["input_ids"]}


@pytest.mark.parametrize(
    ("given", "labels", "kind"),
    [
        ([1, 0], [1, 0], torch.int64),
        ([0.7, 2], [0.7, 2.0], torch.float32),
        ([np.float64(0.7), torch.tensor(0.5)], [0.7, 0.5], torch.float32),
        ([[1, 2, 3], [4]], [[1, 2, 3], [4, -100, -100]], torch.int64),
        ([torch.tensor([1, 2, 3]), [-100]], [[1, 2, 3], [-100, -100, -100]], torch.int64),
    ],
)
def test_subclass_has_the_labels_of_its_column(given: Any, labels: Any, kind: torch.dtype) -> None:
    rows = [{"input_ids": [7, 8, 9], "target": given[0]}, {"input_ids": [7], "target": given[1]}]
    batch = Copy(*THREE, label_column="target")(rows)
    assert set(batch) == {"input_ids", "attention_mask", "labels"}
    assert batch["labels"].dtype == kind
    assert batch["labels"].equal(torch.tensor(labels, dtype=kind))


def test_subclass_with_compute_labels_alone_is_called() -> None:
    class Next(Collator):
        def compute_labels(self, tokenized: dict[str, Any]) -> dict[str, Any]:
            assert tokenized["input_ids"].shape == (2, 3)
            return {**tokenized, "labels": tokenized["input_ids"].roll(-1, 1)}

    batch = Next(*THREE)([{"input_ids": [7, 8, 9], "key": 3}] * 2)
    assert set(batch) == {"input_ids", "attention_mask", "labels"}
    assert batch["labels"].tolist() == [[8, 9, 7]] * 2
    with pytest.raises(ValueError, match="Next has no task_model"):
        Next(*THREE).task_model(tiny(transformers.BertForMaskedLM))


@pytest.mark.parametrize(
    "task", ["mlm", "enhanced_mlm", "diffusion", "classification", "token_classification"]
)
def test_call_cuts_pads_and_takes_tensors(task: str) -> None:
    rows = samples(12)
    batch = get_collator_cls(task)(*THREE, max_sequence_length=9, special_token_ids=[START, END])(rows)
    ids, mask = batch["input_ids"], batch["attention_mask"]
    assert ids.dtype == mask.dtype == torch.int64
    assert ids.shape == mask.shape == (12, 9)
    for row, kept, sample in zip(ids, mask, rows, strict=True):
        length = min(9, len(sample["input_ids"]))
        assert kept.tolist() == [1] * length + [0] * (9 - length)
        assert row[length:].eq(PAD).all()
    if task not in ("classification", "diffusion"):
        assert batch["labels"][mask == 0].eq(-100).all()
    assert get_collator_cls(task)(*THREE)(rows[:1])["input_ids"].shape == (1, len(rows[0]["input_ids"]))


def test_call_keeps_tokens_that_are_masked_out_of_it() -> None:
    rows = [{"input_ids": [7, 8, 9, PAD], "attention_mask": [1, 1, 0, 0]}]
    batch = MaskedLanguageModelingCollator(*THREE, mlm_probability=1.0)(rows)
    assert batch["attention_mask"].tolist() == [[1, 1, 0, 0]]
    assert batch["labels"].tolist() == [[7, 8, -100, -100]]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([], "no samples"),
        ([{"text": "not tokenised"}], "sample 0 has no input_ids, but is with text"),
        (["a text"], "sample 0 has no input_ids, but is a str"),
        ([{"input_ids": [[7]]}], "sample 0 has input_ids of shape"),
        (
            [{"input_ids": [7, 8], "attention_mask": [1]}],
            "sample 0 has 1 values of attention_mask for 2 tokens",
        ),
        ([{"input_ids": [7, 100]}], "token 100 is not in the vocabulary of 100"),
        ({"input_ids": [[7]]}, "expected a list of samples"),
    ],
)
def test_call_says_what_is_wrong(wrong: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MaskedLanguageModelingCollator(*THREE)(wrong)


@pytest.mark.parametrize("collator", PRETRAINING)
def test_compute_labels_leaves_its_argument_alone(collator: Any) -> None:
    ids = torch.tensor([[START, 11, 12, 13, END], [START, 14, END, PAD, PAD]])
    tokenized = {"input_ids": ids.clone(), "attention_mask": (ids != PAD).long()}
    before = {name: value.clone() for name, value in tokenized.items()}
    made = collator(*THREE, special_token_ids=[START, END])
    for _ in range(20):
        found = made.compute_labels(tokenized)
        targets = found["labels"] != -100
        assert found["labels"][targets].equal(ids[targets])
        assert found["input_ids"][~targets].equal(ids[~targets])
        assert not targets[ids < 5].any()
        assert found["input_ids"].shape == found["labels"].shape == (2, 5)
    assert all(before[name].equal(tokenized[name]) for name in before)
    assert set(tokenized) == set(before)


@pytest.mark.parametrize("collator", PRETRAINING)
def test_collate_fn_is_repeatable_and_new_in_each_pass(collator: Any) -> None:
    made = collator(*THREE, special_token_ids=[UNKNOWN, START, END])
    dataset: Any = samples()
    loader = DataLoader(dataset, batch_size=8, collate_fn=made)

    def passes() -> list[list[torch.Tensor]]:
        torch.manual_seed(3)
        name = "row_seeds" if collator is EnhancedMaskedLanguageModelingCollator else "labels"
        return [[batch[name] for batch in loader] for _ in range(2)]

    first, again = passes(), passes()
    assert all(
        a.equal(b) for one, two in zip(first, again, strict=True) for a, b in zip(one, two, strict=True)
    )
    assert not all(a.equal(b) for a, b in zip(*first, strict=True)), "another pass, other masks"


@pytest.mark.parametrize("collator", PRETRAINING)
def test_keys_give_the_masks_of_a_run(collator: Any) -> None:
    made, rows = collator(*THREE, special_token_ids=[START, END]), samples(6)
    keys = sample_keys(7, np.zeros(6, dtype=np.int64), np.arange(6), 1)
    mine = made([{**row, "key": int(key)} for row, key in zip(rows, keys, strict=True)])
    flat = {
        "input_ids": np.concatenate([torch.as_tensor(row["input_ids"]).numpy() for row in rows]),
        "lengths": np.array([len(row["input_ids"]) for row in rows], dtype=np.int32),
        "keys": keys,
        "batch_key": int(np.bitwise_xor.reduce(keys)),
    }
    theirs = made(flat)
    for name in ("input_ids", "attention_mask", "labels"):
        assert mine[name].equal(theirs[name])
    if collator is MaskedDiffusionCollator:
        weights = mine["target_weights"].flatten()[theirs["target_positions"]]
        assert weights.equal(theirs["target_weights"])
        assert float(mine["weight"]) == theirs["weight"]
    if collator is EnhancedMaskedLanguageModelingCollator:
        assert mine["row_seeds"].equal(theirs["row_seeds"])


def test_batches_are_what_models_of_transformers_take() -> None:
    cases: list[tuple[Any, Any, dict[str, Any]]] = [
        (MaskedLanguageModelingCollator, transformers.BertForMaskedLM, {}),
        (SequenceClassificationCollator, transformers.BertForSequenceClassification, {"num_labels": 3}),
        (TokenClassificationCollator, transformers.BertForTokenClassification, {"num_labels": 2}),
    ]
    for collator, auto, fields in cases:
        for batch in DataLoader(samples(16), batch_size=8, collate_fn=collator(*THREE)):  # type: ignore[arg-type]
            assert set(batch) == {"input_ids", "attention_mask", "labels"}
            loss = tiny(auto, **fields)(**batch).loss
            assert loss.isfinite()


@pytest.mark.parametrize(
    ("name", "cls"),
    [
        ("mlm", MaskedLanguageModelingCollator),
        ("enhanced_mlm", EnhancedMaskedLanguageModelingCollator),
        ("classification", SequenceClassificationCollator),
        ("token_classification", TokenClassificationCollator),
        ("question_answering", QuestionAnsweringCollator),
        ("diffusion", MaskedDiffusionCollator),
    ],
)
def test_get_collator_cls(name: str, cls: type[Collator]) -> None:
    assert get_collator_cls(name) is cls
    with pytest.raises(ValueError, match=name):
        get_collator_cls("no such objective")
