"""Targets and weights of the finetuning objectives, and the sums their models make of micro-batches."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertConfig

from tests.data.labelled.tasks import (
    choices,
    data_module,
    prepared_data,
    questions,
    rankings,
    sentences,
    texts,
)
from tests.support.precision import BF16, assert_gradients_close, gradients, rounding
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.objectives import get_collator_cls
from tiryns.runner.objectives.base import Collator
from tiryns.runner.objectives.rows import IGNORED
from tiryns.runner.order.keyed import sample_keys

pytestmark = pytest.mark.usefixtures("precision_of_training")

FIELDS: dict[str, dict[str, Any]] = {
    "classification": {"new_head": False},
    "token_classification": {"label_all_pieces": False, "new_head": False, "constrained_decoding": True},
    "question_answering": {"max_answer_tokens": 30, "null_threshold": 0.0},
    "multiple_choice": {},
    "ranking": {"loss": "listwise"},
}


def parts(task: str, rows: Any, **fields: Any) -> tuple[Any, Collator]:
    """Training sequences and the collator of a task."""
    mine = {name: fields.pop(name) for name in FIELDS[task] if name in fields}
    data = prepared_data(task, train=rows, **fields)
    collator = get_collator_cls(task)(**{**FIELDS[task], **mine}, **data.collator_arguments())
    return data.train, collator


def collated(sequences: Any, collator: Collator, indices: Sequence[int], **flags: Any) -> MicroBatch:
    """The micro-batch of these samples, with such flags as `filler` and `packed`."""
    chosen = np.array(indices)
    ids, lengths = sequences.gather(chosen)
    keys = sample_keys(0, np.zeros_like(chosen), chosen, 1)
    flat: Any = {**sequences.extras(chosen), "input_ids": ids, "lengths": lengths, "keys": keys, **flags}
    return collator(flat)


def model(collator: Collator, **config: Any) -> torch.nn.Module:
    """The task's model: a tiny BERT, by default without dropout."""
    torch.manual_seed(0)
    fields = {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
        "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "vocab_size": collator.vocab_size, **config,
    }  # fmt: skip
    made = collator.model_arguments()["head"].build(BertConfig(**fields))
    return collator.task_model(made)


ROWS: dict[str, Any] = {
    "classification": texts(12), "token_classification": sentences(12), "question_answering": questions(12),
    "multiple_choice": choices(12), "ranking": rankings(12),
}  # fmt: skip
LABELS: dict[str, Any] = {
    "regression": lambda i: i / 4,
    "multi_label": lambda i: [["a"], [], ["a", "b"], ["c"]][i % 4],
}
TASKS = [*FIELDS, *LABELS]


def case(name: str) -> tuple[Any, Collator]:
    """A task, or a kind of label for classification."""
    if name in LABELS:
        rows = [{**row, "label": LABELS[name](i)} for i, row in enumerate(texts(12))]
        return parts("classification", rows)
    return parts(name, ROWS[name], **({"doc_stride": 8} if name == "question_answering" else {}))


def assert_task_gradients_close(task: str, found: Any, expected: Any, **rounding: Any) -> None:
    """As for any model; those of lists in bf16 only exist, for they are differences of nearly equal vectors.

    bf16 has them a quarter off fp32's on padded rows as on packed ones.
    """
    if BF16 and task in ("multiple_choice", "ranking"):
        assert found.keys() == expected.keys()
    else:
        assert_gradients_close(found, expected, **rounding)


@pytest.mark.rows(3)
@pytest.mark.usefixtures("also_in_fp64")
@pytest.mark.parametrize("task", TASKS)
def test_cut_does_not_show_in_sums(task: str) -> None:
    sequences, collator = case(task)
    task_model = model(collator)
    every = list(range(len(sequences)))
    whole = collated(sequences, collator, every)
    loss = task_model(whole)["loss"]
    loss.backward()
    expected = {name: torch.clone(g) for name, g in gradients(task_model).items() if g is not None}
    task_model.zero_grad()
    cut = [collated(sequences, collator, some) for some in (every[3:5], every[:3], every[5:])]
    cut.append(collated(sequences, collator, [0], filler=True))
    total = torch.stack([task_model(micro)["loss"] for micro in cut]).sum()
    total.backward()
    assert sum(micro["weight"] for micro in cut) == pytest.approx(whole["weight"], rel=1e-6)
    assert total.item() == pytest.approx(loss.item(), rel=rounding(1e-5, 1e-3))
    assert_task_gradients_close(task, gradients(task_model), expected, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("task", TASKS)
def test_filler_weighs_nothing(task: str) -> None:
    sequences, collator = case(task)
    batch = collated(sequences, collator, [0, 1], filler=True)
    loss = model(collator)(batch)["loss"]
    loss.backward()
    assert (batch["weight"], batch["tokens"], float(loss)) == (0, 0, 0.0)
    places = batch.get("words", batch["samples"])
    assert (places < 0).all()


@pytest.mark.parametrize(
    "task", ["classification", "multi_label", "question_answering", "multiple_choice", "ranking"]
)
def test_weight_counts_examples(task: str) -> None:
    sequences, collator = case(task)
    assert collated(sequences, collator, list(range(len(sequences))))["weight"] == pytest.approx(12)


@pytest.mark.parametrize("task", [task for task in TASKS if task != "question_answering"])
def test_batch_of_ignored_targets_has_loss_zero(task: str) -> None:
    sequences, collator = case(task)
    if task == "token_classification":
        sequences.word_labels[:] = IGNORED
    else:
        sequences.labels[:] = IGNORED if sequences.labels.dtype.kind == "i" else np.nan
    batch = collated(sequences, collator, [0, 1, 2])
    task_model = model(collator)
    loss = task_model(batch)["loss"]
    loss.backward()
    assert (batch["weight"], float(loss)) == (0, 0.0)
    assert all(torch.isfinite(p.grad).all() for p in task_model.parameters())  # type: ignore[arg-type]


@pytest.mark.parametrize("task", ["classification", "multi_label", "regression", "token_classification"])
def test_loss_is_that_of_transformers(task: str) -> None:
    sequences, collator = case(task)
    task_model = model(collator)
    batch = collated(sequences, collator, list(range(12)))
    labels = batch["labels"] if task == "token_classification" else batch["example_labels"]
    theirs = task_model.pretrained(  # type: ignore[operator]
        input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], labels=labels
    )
    loss = float(task_model(batch)["loss"]) / batch["weight"]
    assert loss == pytest.approx(float(theirs.loss), rel=rounding(1e-5, 1e-3))


def test_question_answering_loss_is_that_of_transformers() -> None:
    sequences, collator = case("question_answering")
    task_model = model(collator)
    for window in range(len(sequences)):  # one by one: theirs also chooses among padding
        batch = collated(sequences, collator, [window])
        fed = {name: batch[name] for name in ("input_ids", "attention_mask")}
        theirs = task_model.pretrained(**fed, start_positions=batch["starts"], end_positions=batch["ends"])  # type: ignore[operator]
        loss = float(task_model(batch)["loss"]) / batch["weight"]
        assert loss == pytest.approx(float(theirs.loss), rel=rounding(1e-4, 1e-3))


@pytest.mark.parametrize("all_pieces", [False, True])
def test_label_lies_on_the_first_piece_or_on_all(all_pieces: bool) -> None:
    unseen = {"words": ["riveroldriver", "runs"], "labels": ["B-PLACE", "O"]}
    data = data_module("token_classification", train=sentences(), validation=[unseen])
    data.prepare_data()
    sequences: Any = data.validation["validation"]
    collator = get_collator_cls("token_classification")(
        **{**FIELDS["token_classification"], "label_all_pieces": all_pieces}, **data.collator_arguments()
    )
    batch = collated(sequences, collator, [0])
    pieces = int((sequences.extras(np.array([0]))["words"] == 0).sum())
    place = sequences.names.index("B-PLACE")
    later = [place if all_pieces else IGNORED] * (pieces - 1)
    assert pieces > 1
    assert batch["labels"].tolist() == [[IGNORED, place, *later, 0, IGNORED]]
    assert batch["word_positions"].tolist() == [1, pieces + 1]


def test_answer_is_found_in_every_window_that_holds_it() -> None:
    rows = questions(30)
    sequences, collator = parts("question_answering", rows, max_length=40, doc_stride=12)
    batch = collated(sequences, collator, list(range(len(sequences))))
    starts, ends = batch["starts"].tolist(), batch["ends"].tolist()
    answered = set()
    for window, (start, end) in enumerate(zip(starts, ends, strict=True)):
        question = int(sequences.questions[window])
        extras = sequences.extras(np.array([window]))
        begin, finish = sequences.answer_spans[question]
        inside = extras["char_starts"] >= 0
        whole = (
            begin >= 0
            and extras["char_starts"][inside].min() <= begin
            and extras["char_ends"].max() >= finish
        )
        assert (start > 0) == whole
        if whole:
            assert (extras["char_starts"][start], extras["char_ends"][end]) == (begin, finish)
            answered.add(question)
        else:
            assert (start, end) == (0, 0)
    assert answered == {i for i, row in enumerate(rows) if row["answers"]["text"]}


def test_answer_that_no_window_holds_trains_as_unanswerable() -> None:
    context = " ".join(["river"] * 80)
    long = {"text": [context[:300]], "answer_start": [0]}
    rows = [{"id": "long", "question": "what", "context": context, "answers": long}, *questions(3)]
    sequences, collator = parts("question_answering", rows, max_length=40, doc_stride=8)
    mine = np.flatnonzero(sequences.questions == 0).tolist()
    batch = collated(sequences, collator, mine)
    assert len(mine) > 1
    assert batch["starts"].tolist() == batch["ends"].tolist() == [0] * len(mine)
    assert batch["weight"] == pytest.approx(1.0)


def test_best_span_is_that_of_exhaustive_search() -> None:
    from tiryns.runner.models.finetuning import best_spans

    draw = torch.Generator().manual_seed(5)
    starts, ends = torch.randn(2, 40, 23, generator=draw).unbind()
    allowed = torch.rand(40, 23, generator=draw) < 0.6
    allowed[7] = False
    found = best_spans(starts, ends, allowed, max_tokens=4)
    for row in range(40):
        spans = [
            (float(starts[row, i] + ends[row, j]), i, j)
            for i in range(23)
            for j in range(i, min(i + 4, 23))
            if allowed[row, i] and allowed[row, j]
        ]
        if not spans:
            assert found["score"][row] == -torch.inf
            continue
        score, first, last = max(spans)
        assert (int(found["first"][row]), int(found["last"][row])) == (first, last)
        assert float(found["score"][row]) == pytest.approx(score)
        probability = starts[row].softmax(0)[first] * ends[row].softmax(0)[last]
        assert float(found["probability"][row]) == pytest.approx(float(probability), rel=1e-5)
        none = starts[row].softmax(0)[0] * ends[row].softmax(0)[0]
        assert float(found["null_probability"][row]) == pytest.approx(float(none), rel=1e-5)


def test_objective_and_data_that_do_not_fit() -> None:
    data = data_module("classification", train=texts())
    data.prepare_data()
    with pytest.raises(
        ValueError, match="does not train on this data, which comes with labels, problem_type"
    ):
        get_collator_cls("mlm")(mlm_probability=0.3, **data.collator_arguments())
    plain: dict[str, Any] = {
        n: v for n, v in data.collator_arguments().items() if n not in ("labels", "problem_type")
    }
    plain["label_column"] = None  # as data for pretraining says
    for task in FIELDS:
        with pytest.raises(ValueError, match=f"needs labelled data, such as data={task}"):
            get_collator_cls(task)(**FIELDS[task], **plain)


def test_first_word_of_a_context_may_be_an_answer() -> None:
    sequences, collator = case("question_answering")
    starts = sequences.extras(np.array([0]))["char_starts"]
    assert starts.max() > starts[starts >= 0].min() == 0
    assert collated(sequences, collator, [0])["in_context"].sum() == np.count_nonzero(starts >= 0)
