"""Labelled data as samples: held out, labelled, tokenised, cut into windows; and data that is not right."""

import itertools
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.labelled.tasks import data_module, questions, sentences, texts
from tiryns.runner.data.labelled.question_answering import place_answer
from tiryns.runner.data.labelled.words.annotations import CHARACTERS, Mark


def prepared(option: str, **fields: Any) -> Any:
    data = data_module(option, **fields)
    data.prepare_data()
    return data


def ids(sequences: Any, sample: int) -> list[int]:
    return sequences.gather(np.array([sample]))[0].tolist()


def test_samples_are_the_tokenizers_ids() -> None:
    rows = texts()
    data = prepared("classification", train=rows, validation_documents=0)
    assert data.validation == {}
    for i in (0, 7, 59):
        assert ids(data.train, i) == data.tokenizer(rows[i]["text"])["input_ids"]
    order = np.array([5, 0, 5])
    flat, lengths = data.train.gather(order)
    assert lengths.tolist() == data.train.lengths(order).tolist()
    assert flat.tolist() == ids(data.train, 5) + ids(data.train, 0) + ids(data.train, 5)
    extras = data.train.extras(order)
    names = data.collator_arguments()["labels"]
    assert [names[i] for i in extras["example_labels"]] == [rows[i]["label"] for i in order]


def test_held_out_texts_are_not_trained_on() -> None:
    rows = [*texts(50), *texts(50)]  # every text twice
    data = prepared("classification", train=rows, validation_documents=10)
    trained = {e.text for e in data.train.examples}
    held_out = {e.text for e in data.validation["validation"].examples}
    assert len(held_out) == 10
    assert not trained & held_out
    assert len(trained | held_out) == len({row["text"] for row in rows})
    again = prepared("classification", train=rows[::-1], validation_documents=10)
    assert {e.text for e in again.validation["validation"].examples} == held_out
    other = prepared("classification", train=rows, validation_documents=10, seed=4)
    assert {e.text for e in other.validation["validation"].examples} != held_out


def test_set_datasets_takes_data_made_in_code() -> None:
    from datasets import Dataset

    data = data_module("classification")
    data.set_datasets(Dataset.from_list(texts()), {"near": texts(9, 1), "far": texts(8, 2)}, texts(7, 3))
    data.prepare_data()
    assert data.validation_names == ["near", "far"]
    assert [len(s) for s in data.validation.values()] == [9, 8]
    assert data.test_names == ["test"]
    with pytest.raises(ValueError, match="call set_datasets before prepare_data"):
        data.set_datasets(texts())


def test_pairs_have_token_types_where_the_tokenizer_has_them(tmp_path: Path) -> None:
    rows = [{"text": "old bridge", "other": "seven herons watch", "label": i % 2} for i in range(4)]
    plain = prepared("classification", train=rows, pair_column="other", validation_documents=0)
    assert "token_type_ids" not in plain.train.extras(np.arange(2))
    plain.tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    plain.tokenizer.save_pretrained(tmp_path)
    data = prepared(
        "classification", train=rows, pair_column="other", validation_documents=0, tokenizer=str(tmp_path)
    )
    types = data.train.extras(np.array([0]))["token_type_ids"].tolist()
    expected = data.tokenizer("old bridge", "seven herons watch")
    assert ids(data.train, 0) == expected["input_ids"]
    assert types == expected["token_type_ids"]
    assert set(types) == {0, 1}


def test_test_set_may_lack_labels() -> None:
    data = prepared(
        "classification", train=texts(), test=[{"text": "herons"}, {"text": "bridge", "label": "stones"}]
    )
    assert data.test["test"].labels.tolist() == [-100, data.collator_arguments()["labels"].index("stones")]
    with pytest.raises(ValueError, match=r"row 0 has no column 'label'; it has: text. Set data.label_column"):
        prepared("classification", train=texts(), validation=[{"text": "herons"}])


def test_fingerprint_tells_other_labels_from_the_same() -> None:
    rows = texts()
    same = [prepared("classification", train=rows).fingerprint() for _ in range(2)]
    renamed = [{**row, "label": {"none": "zero"}.get(row["label"], row["label"])} for row in rows]
    swapped = [
        {**row, "label": {"none": "birds", "birds": "none"}.get(row["label"], row["label"])} for row in rows
    ]
    others = [prepared("classification", train=some).fingerprint() for some in (renamed, swapped)]
    assert same[0] == same[1]
    assert len({same[0], *others}) == 3


def test_pieces_know_their_words() -> None:
    unseen = {"words": ["riveroldriver", "herons", "bridgeruns"], "labels": ["B-PLACE", "B-ANIMAL", "O"]}
    sets = [sentences(2)[0], unseen]
    data = prepared("token_classification", train=sentences(), validation=sets)
    sequences = data.validation["validation"]
    extras = sequences.extras(np.array([1]))
    flat, _ = sequences.gather(np.array([1]))
    first = sequences.word_starts[1]
    for i, (word, label) in enumerate(zip(unseen["words"], unseen["labels"], strict=True)):
        mine = extras["words"] == first + i
        assert data.tokenizer.decode(flat[mine]).replace(" ", "").replace("##", "") == word
        assert {sequences.names[n] for n in extras["token_labels"][mine]} == {label}
        assert extras["first_pieces"][mine].tolist() == [True] + [False] * (mine.sum() - 1)
    assert (extras["words"] >= 0).sum() > 3, "no word has several pieces"
    assert sequences.names[0] == "O"


def test_long_sentence_goes_on_in_further_samples() -> None:
    words = ["bridge", "herons"] * 60
    rows = [{"words": words, "labels": ["B-X", "O"] * 60}, {"words": ["river"], "labels": ["O"]}]
    data = prepared("token_classification", train=rows, validation_documents=0, max_length=16, vocab_size=60)
    assert len(data.train) > 8
    assert data.train.lengths(np.arange(len(data.train))).max() <= 16
    extras = data.train.extras(np.arange(len(data.train)))
    assert np.bincount(extras["words"][extras["first_pieces"]]).tolist() == [1] * 121


def test_every_answer_is_whole_in_some_window() -> None:
    rows = questions(40)
    data = prepared("question_answering", train=rows, validation_documents=0, max_length=48, doc_stride=12)
    assert len(data.train) > len(rows)
    assert data.train.lengths(np.arange(len(data.train))).max() <= 48
    found = set()
    for window in range(len(data.train)):
        extras = data.train.extras(np.array([window]))
        begin, end = extras["answer_spans"][0]
        inside = extras["char_starts"] >= 0
        if begin >= 0 and extras["char_starts"][inside].min() <= begin and extras["char_ends"].max() >= end:
            found.add(int(data.train.questions[window]))
    assert found == {i for i, row in enumerate(rows) if row["answers"]["text"]}
    weights = np.bincount(data.train.questions, weights=data.train.sample_weights)
    np.testing.assert_allclose(weights, 1.0, rtol=1e-6)


@pytest.mark.parametrize(("length", "stride"), [(20, 4), (12, 3), (10, 4), (16, 8), (64, 48), (48, 8)])
def test_short_windows_advance_and_lose_no_answer(length: int, stride: int, caplog: Any) -> None:
    rows = [row for row in questions(12) if row["answers"]["text"]]
    data = prepared(
        "question_answering", train=rows, max_length=length, doc_stride=stride, validation_documents=0
    )
    train = data.train
    assert train.lengths(np.arange(len(train))).max() == length
    assert len(train) > len(rows)
    for number, row in enumerate(rows):
        windows = np.flatnonzero(train.questions == number)
        found = [train.extras(np.array([one]))["char_starts"] for one in windows]
        starts = [int(one[one >= 0].min()) for one in found]
        assert all(one < other for one, other in itertools.pairwise(starts)), "each window begins further on"
        assert row["answers"]["answer_start"][0] in np.concatenate(found)
    assert any("questions are cut to" in line for line in caplog.messages) == (length != 48)
    with pytest.raises(ValueError, match=r"leaves no room for questions beside data.doc_stride=60"):
        prepared("question_answering", train=rows, max_length=64, doc_stride=60)


def test_wrong_answer_start_is_moved_or_left_out_and_named(caplog: pytest.LogCaptureFixture) -> None:
    context = "a heron and a crane and a heron by the river"
    answers = [("crane", 14), ("crane", 12), ("heron", 16), ("swan", 2)]
    rows = [
        {
            "id": f"q{i}",
            "question": "which",
            "context": context,
            "answers": [{"text": text, "answer_start": start}],
        }
        for i, (text, start) in enumerate(answers)
    ]
    with caplog.at_level(logging.WARNING):
        test = [rows[0], {**rows[1], "answers": ""}]
        data = prepared("question_answering", train=rows, validation=rows, test=test, doc_stride=8)
    assert [e.id for e in data.train.examples] == ["q0", "q1"]
    assert [e.span for e in data.train.examples] == [(14, 19), (14, 19)]
    assert [e.id for e in data.validation["validation"].examples] == ["q0", "q1", "q2", "q3"]
    assert [e.answers for e in data.test["test"].examples] == [["crane"], None]
    assert "the answer_start of 1 of 4 answers was moved to the text: row 1" in caplog.text
    both = "row 2, 'heron' is 'ane a' at 16; row 3, 'swan' is 'hero' at 2"
    assert f"the answer_start of 2 of 4 answers does not match its text: {both}" in caplog.text


def test_answer_is_looked_for_nearby_only() -> None:
    context = "x" * 500 + "heron"
    assert place_answer(context, Mark(500, None, text="heron"), CHARACTERS) == ((500, 505), "right")
    assert place_answer(context, Mark(460, None, text="heron"), CHARACTERS) == ((500, 505), "moved")
    assert place_answer(context, Mark(3, None, text="heron"), CHARACTERS) == (None, "wrong")
    assert place_answer(context, Mark(3, None, text=""), CHARACTERS) == (None, "wrong")


@pytest.mark.parametrize(
    ("option", "rows", "expected"),
    [
        ("classification", [{"text": "  ", "label": "a"}], r"row 0: the text in column 'text' is empty"),
        ("classification", [{"text": 3, "label": "a"}], "row 0: column 'text' holds a int, expected text"),
        ("classification", [{"txt": "a", "label": "a"}], r"no column 'text'; it has: txt, label\. .*text_column=txt$"),
        ("classification", [{"text": "a", "label": None}], "row 0: there is no label in column 'label'"),
        ("classification", [{"text": "a", "label": 1}, {"text": "b", "label": "x"}], "labels are of mixed types"),
        ("token_classification", [{"words": ["a", "b"], "labels": ["O"]}], "row 0: 2 words, but 1 labels"),
        ("token_classification", [{"words": "a b", "labels": ["O"]}], "expected a list of words"),
        ("token_classification", [{"words": [], "labels": []}], "row 0: the sentence in column 'words' is empty"),
        ("token_classification", [{"words": ["a", "b"], "labels": ["O", 1]}], "mixed types, int and str"),
        ("token_classification", [{"words": ["a"], "labels": [True]}], "row 0: the labels are bool; expected text or"),
        ("token_classification", [{"words": ["a", "b"], "labels": ["O", " "]}], "row 0: the label of word 2 is empty"),
        ("token_classification", [{"words": ["a"], "labels": [-100]}], "the label is -100; class numbers begin at 0"),
        ("question_answering", [{"question": "q", "context": "c", "answers": "c"}], "expected answers with 'text' and"),
        ("question_answering", [{"question": "q", "context": "", "answers": []}], "text in column 'context' is empty"),
        ("question_answering", [{"question": "q", "context": "c", "answers": []}], "no training question has an answer"),
        ("classification", [], "data.train: 0 rows holds no examples"),
        ("classification", None, "data.train names no training data"),
    ],
)  # fmt: skip
def test_rows_that_are_not_of_the_task(option: str, rows: Any, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        prepared(option, train=rows, validation_documents=0)


def test_unknown_label_in_validation_is_named() -> None:
    wrong = [{"text": "a swan", "label": "bird"}]
    with pytest.raises(ValueError, match=r"row 0: the label 'bird' does not occur .*Did you mean 'birds'"):
        prepared("classification", train=texts(), validation=wrong)
    tagged = [{"words": ["swan"], "labels": ["B-BIRD"]}]
    with pytest.raises(ValueError, match="row 0: the label 'B-BIRD' does not occur in the training data"):
        prepared("token_classification", train=sentences(), validation=tagged)


def test_a_label_without_another_example_stays_in_training() -> None:
    common = [{"text": f"bird {i}", "label": "ab"[i % 2]} for i in range(100)]
    rare = [{"text": f"rare {i}", "label": f"rare{i}"} for i in range(60)]
    data = prepared("classification", train=[*common, *rare], validation_documents=0.2)
    trained = {example.label.label for example in data.train.examples}
    held = {example.label.label for example in data.evaluated_sets["val/validation"].examples}
    assert trained == {"a", "b", *(row["label"] for row in rare)}
    assert held == {"a", "b"}


def test_labels_named_beforehand() -> None:
    rows = [{"words": ["a", "b"], "labels": [0, 1]}, {"words": ["a"], "labels": [0]}]
    wrong = [{"words": ["a"], "labels": ["B-BRID"]}]
    names = ["O", "B-BIRD", "I-BIRD"]

    def tagged(rows: Any, labels: list[Any]) -> Any:
        return prepared("token_classification", train=rows, labels=labels, validation_documents=0)

    data = tagged(rows, names)
    assert data.collator_arguments()["labels"] == names
    assert data.train.examples[0].labels == ["O", "B-BIRD"]
    assert tagged(rows, [1, 0]).train.examples[0].labels == ["0", "1"]
    with pytest.raises(ValueError, match="row 0: the label is 1; class numbers are 0 to 0"):
        tagged(rows, ["O"])
    with pytest.raises(ValueError, match=r"'B-BRID' is not among data\.labels: .*mean 'B-BIRD'"):
        tagged(wrong, names)
    with pytest.raises(ValueError, match=r"data\.labels names O more than once"):
        tagged(rows, ["O", "O"])
    with pytest.raises(ValueError, match=r"data\.labels names a more than once: name each once"):
        prepared("classification", train=texts(), labels=["a", "b", "a"])


def test_longer_than_the_model_reads(tmp_path: Path) -> None:
    tokenizer = prepared("classification", train=texts()).tokenizer
    tokenizer.model_max_length = 32
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"data.max_length=64 is more than the 32 tokens"):
        prepared("classification", train=texts(), tokenizer=str(tmp_path))


def test_unknown_task() -> None:
    with pytest.raises(ValueError, match=r"data.task='classificaton'; .*Did you mean 'classification'"):
        data_module("classification", task="classificaton")
