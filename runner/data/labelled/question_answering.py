"""Question answering data as in SQuAD (1.1 and 2.0): questions on contexts, answered by spans of them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiryns.runner import log
from tiryns.runner.data.labelled.examples import ExampleReader, TaskSequences, concatenate, encode
from tiryns.runner.data.labelled.spelling import is_missing, truth_of, whole_number
from tiryns.runner.data.labelled.words.annotations import Mark, file_of, offset_units
from tiryns.runner.data.micro_batch import FlatSamples, TaskArguments, Tokenizer
from tiryns.runner.data.read.bad_rows import BadRow, first_of
from tiryns.runner.data.read.rows import LabelRule, Row, Rows

NEARBY = 64
"""Characters around a wrong `answer_start` in which the text of the answer is searched."""


class Question(NamedTuple):
    """A question on a context. `answers` are the accepted texts: [] if the question has no answer, None if unknown.

    `span` is the first answer's place in the context, in characters; None if no answer is known or its place is wrong.
    """

    id: str
    question: str
    context: str
    answers: list[str] | None
    span: tuple[int, int] | None
    where: str


class QuestionSequences(TaskSequences):
    """Windows of contexts, each after its question."""

    examples: Sequence[Question]
    questions: NDArray[np.int64]  # [D], the example of each window
    char_starts: NDArray[np.int32]  # [N], each token's first character in the context; -1 outside of it
    char_ends: NDArray[np.int32]  # [N], the character after its last
    answer_spans: NDArray[np.int32]  # [E, 2], first and last character of the answer; -1 without one
    sample_weights: NDArray[np.float32]  # [D], adding up to 1 over a question's windows, or to 0
    may_be_empty: bool  # whether questions may have no answer
    example_of, targets = "questions", ("questions", "char_starts", "answer_spans")

    def extras(self, indices: NDArray[np.int64]) -> FlatSamples:
        """Adds the tokens' places in the context, the answer's place [D, 2], and the weights of the windows."""
        places = self.places(indices)
        return {
            **super().extras(indices),
            "char_starts": self.char_starts[places],
            "char_ends": self.char_ends[places],
            "answer_spans": self.answer_spans[self.questions[indices]],
            "sample_weights": self.sample_weights[indices],
        }


@dataclass(eq=False)
class QuestionAnsweringReader(ExampleReader[Question]):
    """Columns of question answering data, whose contexts are cut into windows.

    The answers are a mapping of `text` and `answer_start` (of one answer, or lists as in the hub's data sets), a list of
    mappings of one answer each, or JSON of these. If an answer's text is not at its `answer_start`, it is searched within
    `NEARBY` characters. If it occurs there once, the answer is moved; otherwise the question is left out of training. The
    log counts both cases and names the first ones. Ids identify predictions, so a row with an earlier row's id is bad.
    """

    rows_hold: ClassVar[str] = "answers"
    learnt: ClassVar[tuple[str, ...]] = ("may_be_empty",)

    text_column: str
    context_column: str
    label_column: str
    id_column: str | None
    doc_stride: int

    def examples(self, rows: Rows, labelled: bool) -> list[Question]:
        read: list[tuple[Question, list[Mark]]] = []
        first: dict[str, str] = {}
        for number, row in enumerate(rows.rows, rows.first):
            with rows.bad.row():
                question = row.text(self.text_column, "data.text_column").strip()
                context = row.text(self.context_column, "data.context_column")
                is_labelled = labelled or not is_missing(row.values.get(self.label_column))
                marks = _answers(row, self.label_column, self.rule) if is_labelled else []
                answers = [mark.text or "" for mark in marks] if is_labelled else None
                name = row.id(self.id_column, number)
                if name in first:
                    twice = f"the id {name!r:.60} is that of {first[name]} too"
                    raise BadRow(row.where, f"{twice}; predictions are identified by it", "doubled id")
                first[name] = row.where
                read.append((Question(name, question, context, answers, None, row.where), marks))
        units = offset_units(((one.where, one.context, marks) for one, marks in read), self.by_characters)
        questions: list[Question] = []
        places: dict[str, list[str]] = {"right": [], "moved": [], "wrong": []}
        for one, marks in read:
            span = None
            if marks:
                span, state = place_answer(one.context, marks[0], units[file_of(one.where)])
                text, start = marks[0].text or "", marks[0].start
                wrong = f", {text!r:.40} is {one.context[start : start + len(text)]!r:.40} at {start}"
                places[state].append(one.where + ("" if span else wrong))
            questions.append(one._replace(span=span))
        for state, problem in (("moved", "was moved to the text"), ("wrong", "does not match its text")):
            if phrases := places[state]:
                counts = f"{len(phrases)} of {len(questions)}"
                log.warning("the answer_start of %s answers %s: %s", counts, problem, first_of(phrases))
        return questions

    def learn(self, examples: list[Question], rows: Rows) -> None:
        """Notes whether there are questions without an answer: only then may a prediction be empty."""
        self.may_be_empty = any(e.answers == [] for e in examples)
        if not any(e.span for e in examples):
            raise ValueError("no training question has an answer that is in its context")

    def tokenize(
        self, examples: list[Question], tokenizer: Tokenizer, max_length: int, training: bool
    ) -> QuestionSequences:
        """Returns windows of at most `max_length` tokens; neighbouring windows share `doc_stride` tokens."""
        if training:
            examples = [e for e in examples if e.span is not None or not e.answers]
        questions = _truncated_questions(examples, tokenizer, max_length, self.doc_stride)
        cut = {"truncation": "only_second", "max_length": max_length, "stride": self.doc_stride}
        both = questions, [e.context for e in examples]
        pairs = list(encode(tokenizer, *both, return_overflowing_tokens=True, **cut))
        owners, windows = np.array([owner for owner, _ in pairs], dtype=np.int64), [w for _, w in pairs]
        types = [w.type_ids for w in windows] if "token_type_ids" in tokenizer.model_input_names else None
        sequences = QuestionSequences(examples, [w.ids for w in windows], types)
        outside = concatenate([[s != 1 for s in w.sequence_ids] for w in windows], np.bool_)
        sequences.char_starts = concatenate([[a for a, _ in w.offsets] for w in windows], np.int32)
        sequences.char_ends = concatenate([[b for _, b in w.offsets] for w in windows], np.int32)
        sequences.char_starts[outside] = sequences.char_ends[outside] = -1
        spans = [e.span or (-1, -1) for e in examples]
        sequences.answer_spans = np.array(spans, dtype=np.int32).reshape(-1, 2)
        counts = np.array([e.span is not None or e.answers == [] for e in examples], dtype=bool)
        sequences.sample_weights = (counts[owners] / np.bincount(owners)[owners]).astype(np.float32)
        sequences.questions, sequences.may_be_empty = owners, self.may_be_empty
        return sequences

    def texts(self, examples: list[Question]) -> Iterator[str]:
        """Yields the context of each question; questions on the same context are held out together."""
        return (e.context for e in examples)

    def collator_arguments(self) -> TaskArguments:
        """Returns the column of the context, and the number of tokens that neighbouring windows share."""
        return {"context_column": self.context_column, "doc_stride": self.doc_stride}

    def describe(self) -> dict[str, str]:
        return {"windows": f"{self.doc_stride} tokens shared by neighbours"}


def place_answer(context: str, answer: Mark, unit: str) -> tuple[tuple[int, int] | None, str]:
    """Returns an answer's span in characters, and `right`, or `moved` if its text is nearby; else None and `wrong`."""
    text, place = answer.text or "", answer.place(context, unit)
    if place and context[slice(*place)] == text:
        return place, "right"
    start = place[0] if place else answer.start
    low = max(0, start - NEARBY)
    around = context[low : start + len(text) + NEARBY]
    if text and around.count(text) == 1:
        position = low + around.index(text)
        return (position, position + len(text)), "moved"
    return None, "wrong"


def _answers(row: Row, name: str, rule: LabelRule) -> list[Mark]:
    """Returns text and start of a row's answers; empty if `is_impossible` (by older rules, only `true` and `True`)."""
    answers = cell = row.column(name, "data.label_column")
    impossible = row.values.get("is_impossible")
    if rule is not LabelRule.AS_NAMED:
        impossible = impossible in (True, "true", "True")
    if not is_missing(impossible) and truth_of(impossible) is None:
        problem = f"column 'is_impossible' holds {impossible!r:.40}, expected true or false"
        raise BadRow(row.where, problem, "no truth value")
    if truth_of(impossible):  # its answers are plausible ones
        return []
    try:
        if isinstance(cell, str):
            answers = json.loads(cell)
        if isinstance(answers, Mapping) and isinstance(answers["text"], str):
            answers = [answers]
        if isinstance(answers, Mapping):
            pairs = list(zip(answers["text"], answers["answer_start"], strict=True))
        else:
            pairs = [(answer["text"], answer["answer_start"]) for answer in answers]
        return [Mark(whole_number(start), None, text=str(text)) for text, start in pairs if text != ""]
    except (KeyError, TypeError, ValueError):
        problem = f"column {name!r} holds {cell!r:.80}, expected answers with 'text' and 'answer_start'"
        raise BadRow(row.where, problem, "no answers") from None


def _truncated_questions(
    examples: list[Question], tokenizer: Tokenizer, max_length: int, doc_stride: int
) -> list[str]:
    """Returns the questions, cut so that a window has room for more context tokens than it shares with the next one."""
    both = max_length - tokenizer.num_special_tokens_to_add(pair=True) - doc_stride
    room = max(both - 16, both // 3)  # the context has 16 of its own, in a short window two thirds
    if room < 1:
        raise ValueError(
            f"data.max_length={max_length} leaves no room for questions beside data.doc_stride={doc_stride}: "
            "lower doc_stride or raise max_length"
        )
    questions, num_cut = [e.question for e in examples], 0
    for i, encoding in encode(tokenizer, list(questions), add_special_tokens=False):
        if len(encoding.ids) > room:
            questions[i] = questions[i][: encoding.offsets[room - 1][1]]
            num_cut += 1
    if num_cut:
        counts = f"{num_cut:,} of {len(questions):,} questions are cut to {room} tokens"
        log.warning("%s: windows have %d tokens and share %d of them", counts, max_length, doc_stride)
    return questions
