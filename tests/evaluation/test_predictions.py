"""Predictions of several ranks joined, windows joined to answers, and the files they are written to."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.data.labelled.tasks import prepared_data, questions, sentences, texts
from tiryns.runner.data.labelled.words.tags import tagging_of
from tiryns.runner.evaluation.files import write_predictions
from tiryns.runner.evaluation.kinds.labels import (
    ClassificationPredictions,
    LabelPredictions,
    NumberPredictions,
)
from tiryns.runner.evaluation.kinds.spans import QuestionPredictions
from tiryns.runner.evaluation.kinds.words import TokenPredictions


def sequences(option: str, rows: Any, **fields: Any) -> Any:
    return prepared_data(option, train=rows, **fields).train


def add(predictions: ClassificationPredictions, samples: list[int], chosen: list[int]) -> None:
    logits = torch.full((len(samples), 3), -2.0)
    logits[torch.arange(len(samples)), torch.tensor(chosen)] = 3.0
    predictions.add({"samples": torch.tensor(samples)}, {"logits": logits})


def test_ranks_are_joined_in_the_order_of_the_set_and_fillers_left_out() -> None:
    data = sequences("classification", texts(6))
    gold = data.labels.tolist()
    one = ClassificationPredictions(data)
    add(one, [0, 1, 2, 3, 4, 5], gold)
    one.join(lambda mine: [mine])
    parts = []
    for samples in ([5, 2, -1], [0, 4, 1, 3], [-1]):
        rank = ClassificationPredictions(data)
        add(rank, samples, [gold[i] if i >= 0 else 0 for i in samples])
        rank.join(lambda mine: parts.append(mine.copy()) or [mine])  # type: ignore[func-returns-value]
    several = ClassificationPredictions(data)
    several.join(lambda mine: [mine, *parts])
    assert list(several.rows()) == list(one.rows())
    assert several.metrics() == one.metrics()
    assert several.metrics()["accuracy"] == 1.0
    assert several.figure_names() == list(several.metrics())
    assert [row["id"] for row in several.rows()] == [str(i) for i in range(6)]


def test_probabilities_are_written_to_six_decimals() -> None:
    """More are rounding, which differs between machines."""
    rows = [{**row, "label": ["a", "b"]} for row in texts(6)]
    labels = LabelPredictions(sequences("classification", rows))
    labels.add({"samples": torch.arange(6)}, {"logits": torch.full((6, 2), 0.12345678)})
    label = ClassificationPredictions(sequences("classification", texts(6)))
    add(label, list(range(6)), [0] * 6)
    for predictions in (labels, label):
        predictions.join(lambda mine: [mine])
    assert {tuple(row["probability"]) for row in labels.rows()} == {(0.530825, 0.530825)}
    assert {row["probability"] for row in label.rows()} == {0.986703}


def test_no_label_has_the_probability_of_none_and_several_are_said() -> None:
    rows = [{**row, "label": ["a", "b"]} for row in texts(2)]
    data = prepared_data("classification", train=rows)
    assert data.reader.describe() == {"labels": "several at once: a, b"}
    labels = LabelPredictions(data.train)
    labels.add({"samples": torch.arange(2)}, {"logits": torch.tensor([[-2.0, -1.0], [-2.0, 1.0]])})
    labels.join(lambda mine: [mine])
    none, one = labels.rows()
    assert (none["predicted"], none["none"]) == ([], 0.731059)
    assert one["predicted"] == ["b"]
    assert "none" not in one


def test_places_that_were_not_evaluated_do_not_count() -> None:
    data = sequences("classification", texts(6))
    some = ClassificationPredictions(data)
    wrong = (int(data.labels[3]) + 1) % 3
    add(some, [1, 3], [int(data.labels[1]), wrong])
    some.join(lambda mine: [mine])
    assert some.metrics()["accuracy"] == 0.5
    assert [row["id"] for row in some.rows()] == ["1", "3"]
    assert sum(map(sum, some.tables()["confusion"])) == 2


def test_set_without_labels_is_predicted_but_not_measured() -> None:
    data = sequences("classification", texts(4))
    data.labels[:] = -100
    unlabelled = ClassificationPredictions(data)
    add(unlabelled, [0, 1, 2, 3], [0, 1, 2, 0])
    unlabelled.join(lambda mine: [mine])
    assert unlabelled.metrics() == {}
    assert [row["gold"] for row in unlabelled.rows()] == [None] * 4


def test_numbers_are_written_in_full() -> None:
    """The figures follow to the last digit from the lines that were written, and labels are as they were read."""
    rows = [{**row, "label": i / 7 + 0.1} for i, row in enumerate(texts(6))]
    data = sequences("classification", rows)
    found = NumberPredictions(data)
    logits = torch.tensor([[0.123456789], [1e-9], [0.5], [0.3], [2 / 3], [0.7]])
    found.add({"samples": torch.arange(6)}, {"logits": logits})
    found.join(lambda mine: [mine])
    lines = json.loads(json.dumps(list(found.rows())))
    assert [line["gold"] for line in lines] == [row["label"] for row in rows]
    errors = [(line["predicted"] - line["gold"]) ** 2 for line in lines]
    assert found.metrics()["mse"] == pytest.approx(sum(errors) / 6, rel=1e-14)
    assert found.figure_names()[0] == "spearman"
    assert set(found.figure_names()) == set(found.metrics())
    assert data.extras(np.arange(6))["example_labels"].dtype == np.float32, "what the model is trained on"


def test_word_without_pieces_has_the_most_frequent_label() -> None:
    rows = [{"words": ["herons", "\u200b", "runs"], "labels": ["B-ANIMAL", "O", "O"]}, *sentences(5)]
    data = sequences("token_classification", rows)
    assert (data.words == 1).sum() == 0, "the tokenizer makes something of it after all"
    found = TokenPredictions(data, constrained=True)
    words = np.unique(data.words[data.words >= 0])
    logits = torch.nn.functional.one_hot(torch.from_numpy(data.word_labels[words]), len(data.names)) * 9.0
    found.add({"words": torch.from_numpy(words).long()}, {"logits": logits})
    found.join(lambda mine: [mine])
    most = data.names[data.default_label]
    assert next(iter(found.rows()))["predicted"] == ["B-ANIMAL", most, "O"]
    assert set(found.figure_names()) == set(found.metrics()) >= {"entity_precision", "entity_recall"}
    assert found.metrics()["accuracy"] == pytest.approx(1.0 if most == "O" else 1 - 1 / len(data.word_labels))


def tagged(data: Any, constrained: bool) -> list[Any]:
    """Predictions of a model that is right but for `B-PLACE`, for which `I-PLACE` seems a little likelier."""
    found = TokenPredictions(data, constrained)
    logits = torch.zeros(len(data.word_labels), len(data.names))
    logits[torch.arange(len(logits)), torch.from_numpy(data.word_labels)] = 3.0
    begin, inside = (data.names.index(name) for name in ("B-PLACE", "I-PLACE"))
    doubtful = (data.word_labels == begin) & (np.roll(data.word_labels, 1) != inside)
    logits[torch.from_numpy(doubtful), inside] = 3.5
    order = torch.randperm(len(logits), generator=torch.Generator().manual_seed(0))
    order = order[torch.from_numpy(data.has_pieces)[order]]
    for words in order.split(7):  # a sentence's words may come from several samples
        found.add({"words": words}, {"logits": logits[words]})
    found.join(lambda mine: [mine])
    return list(found.rows())


def test_tags_of_a_sentence_are_predicted_together() -> None:
    data = sequences("token_classification", sentences(30))
    together, alone = tagged(data, constrained=True), tagged(data, constrained=False)
    assert [row["predicted"] for row in together] == [row["gold"] for row in together]
    tagging = tagging_of(data.names)
    assert tagging is not None
    assert not any(tagging.breaks("IOB2", row["predicted"]) for row in together)
    assert any(tagging.breaks("IOB2", row["predicted"]) for row in alone)
    true, other = np.exp(3.0), np.exp(3.5)
    rest = len(data.names) - 2
    begin = next(row for row in together if "B-PLACE" in row["predicted"])
    found = begin["probability"][begin["predicted"].index("B-PLACE")]
    assert found == pytest.approx(true / (true + other + rest), abs=1e-5), "that of the word by itself"


def test_tags_are_predicted_one_by_one_where_the_training_data_keeps_no_scheme(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rows = [{"words": ["herons"] * 2, "labels": ["B-ANIMAL", "I-ANIMAL"]}, *sentences(30)]
    for row in rows[1:]:
        row["labels"] = [label.replace("B-ANIMAL", "I-ANIMAL") for label in row["labels"]]
    with caplog.at_level("INFO", "tiryns"):
        data = sequences("token_classification", rows)
    first = next(n for n, row in enumerate(rows[1:], 1) if "I-ANIMAL" in row["labels"])
    assert f"one by one: IOB2 is broken in row {first}, IOB1 is broken in row 0\n" in caplog.text
    assert tagged(data, constrained=True) == tagged(data, constrained=False)


def test_word_without_pieces_does_not_decide_on_those_around_it() -> None:
    rows = [{"words": ["bridge"] * 40, "labels": ["B-PLACE", *["I-PLACE"] * 39]} for _ in range(5)]
    unseen = [
        {"words": words, "labels": ["O"] * len(words)} for words in (["runs", "\u200b", "runs"], ["\u200b"])
    ]
    data = sequences("token_classification", [*rows, *sentences(5), *unseen])
    assert data.names[data.default_label] == "I-PLACE"
    *_, inside, alone = tagged(data, constrained=True)
    assert inside["predicted"] == ["O", "O", "O"]
    assert alone["predicted"] == ["O"]
    assert (inside["probability"][1], alone["probability"]) == (0.0, [0.0])


def test_sentence_counts_once_all_its_words_are_predicted() -> None:
    data = sequences("token_classification", sentences(6))
    found = TokenPredictions(data, constrained=False)
    words = torch.arange(int(data.word_starts[3]) - 1)  # but the last of the third sentence
    found.add({"words": words}, {"logits": torch.zeros(len(words), len(data.names))})
    found.join(lambda mine: [mine])
    assert [row["id"] for row in found.rows()] == ["0", "1"]


def windows(data: Any, **values: list[float]) -> QuestionPredictions:
    """Predictions for every window, of whose scores, null scores, first and last tokens some are given."""
    made = QuestionPredictions(data, null_threshold=0.0)
    size = len(data)
    output = {
        "score": torch.tensor(values.get("score", [0.0] * size)),
        "null_score": torch.tensor(values.get("null", [-9.0] * size)),
        "probability": torch.full((size,), 0.5),
        "null_probability": torch.linspace(0.625, 0.75, size),
        "first": torch.tensor(values.get("first", [0.0] * size)).long(),
        "last": torch.tensor(values.get("last", [0.0] * size)).long(),
    }
    made.add({"samples": torch.arange(size)}, output)
    made.join(lambda mine: [mine])
    return made


def context_token(data: Any, window: int) -> int:
    """The first token of a window that lies in the context."""
    places = data.places(np.array([window]))
    return int(np.flatnonzero(data.char_starts[places] >= 0)[0])


def test_answer_comes_from_the_best_window() -> None:
    rows = questions(3)
    rows[0]["context"] = rows[0]["context"] + " river" * 80
    data = sequences("question_answering", rows, max_length=40, doc_stride=8)
    mine = np.flatnonzero(data.questions == 0)
    assert len(mine) > 2
    first = [float(context_token(data, window)) for window in range(len(data))]
    for best in mine:
        scores = [5.0 if window == best else float(window % 3) for window in range(len(data))]
        found = windows(data, score=scores, first=first, last=[f + 1 for f in first])
        places = data.places(np.array([best]))[context_token(data, int(best)) :]
        text = rows[0]["context"][data.char_starts[places[0]] : data.char_ends[places[1]]]
        assert found.answers[0][0] == text


def test_no_answer_must_be_allowed_and_score_more_in_every_window() -> None:
    rows = questions(5)  # the fifth has none, so predictions may be empty
    data = sequences("question_answering", rows, max_length=60, doc_stride=8)
    first = [float(context_token(data, window)) for window in range(len(data))]
    size = len(data)

    def empty(null: list[float]) -> list[bool]:
        found = windows(data, score=[1.0] * size, null=null, first=first, last=first)
        return [found.answers[i][0] == "" for i in range(5)]

    assert empty([2.0] * size) == [True] * 5
    assert windows(data, null=[2.0] * size).answers[0] == ("", 0.625), "the probability of no answer"
    assert empty([0.5] * size) == [False] * 5
    one_low = [0.5 if window == 0 else 2.0 for window in range(size)]
    assert empty(one_low) == [False, True, True, True, True]
    data.may_be_empty = False
    assert empty([2.0] * size) == [False] * 5


def test_measures_are_split_by_whether_there_is_an_answer() -> None:
    data = sequences("question_answering", questions(10), max_length=512, doc_stride=8)
    first = [float(context_token(data, window)) for window in range(len(data))]
    measured = windows(data, null=[9.0] * len(data), first=first, last=first)
    found = measured.metrics()
    assert set(measured.figure_names()) == set(found)
    assert measured.figure_names()[0] == "f1"
    assert found["exact_match"] == found["f1"] == pytest.approx(0.2)
    assert (found["f1_unanswerable"], found["f1_answerable"]) == (1.0, 0.0)


def test_files_hold_what_was_predicted(tmp_path: Path) -> None:
    data = sequences("question_answering", questions(4), max_length=512, doc_stride=8)
    first = [float(context_token(data, window)) for window in range(len(data))]
    predictions = windows(data, first=first, last=first)
    metrics = {"test/hard/f1": 0.25, "val/validation/f1": 0.5}
    write_predictions(
        tmp_path, {"test/hard": predictions}, metrics, {"task": "question_answering", "step": 7}
    )
    lines = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    assert [line["set"] for line in lines] == ["test/hard"] * 4
    assert {"set", "id", "text", "gold", "predicted", "probability", "excerpt"} == lines[0].keys()
    contexts = [example.context for example in data.examples]
    for line, context in zip(lines, contexts, strict=True):
        assert line["excerpt"].strip(".") in context
        assert line["gold"][0] in line["excerpt"]
    evaluation = json.loads((tmp_path / "evaluation.json").read_text())
    assert (evaluation["task"], evaluation["step"]) == ("question_answering", 7)
    assert evaluation["sets"]["test/hard"] == {
        "kind": "question_answering",
        "examples": 4,
        "metrics": {"f1": 0.25},
    }
    answers = json.loads((tmp_path / "answers-test-hard.json").read_text())
    assert answers == {line["id"]: line["predicted"] for line in lines}
    write_predictions(tmp_path, {"a/x.json": predictions, "a-x.json": predictions}, {}, {})
    names = sorted(file.name for file in tmp_path.glob("answers-a*"))
    assert names == ["answers-a%2Fx.json.json", "answers-a-x.json.json"]
