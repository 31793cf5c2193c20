"""Rows of lists: how they become samples, what is held out together, and lists of which nothing can be learnt."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.labelled.tasks import prepared_data, rankings
from tiryns.runner.data.demo.stdlib_choices import StdlibRanking
from tiryns.runner.evaluation.metrics import get_metrics_for_task
from tiryns.runner.evaluation.ranks import TiedRanks

GOOD = {"query": "who watches", "passage": ["herons", "stones"], "label": [1, 0]}


def prepared(rows: Any, **fields: Any) -> Any:
    return prepared_data("ranking", train=rows, **fields)


def lists(data: Any) -> list[tuple[str, list[str], list[float]]]:
    return [(e.text, e.candidates, e.label) for e in data.train.examples]


def test_each_candidate_is_read_behind_its_query() -> None:
    rows = rankings(20)
    data = prepared(rows)
    for i, row in enumerate(rows):
        ids, _ = data.train.gather(np.array([i]))
        expected = [data.tokenizer(row["query"], passage)["input_ids"] for passage in row["passage"]]
        assert ids.tolist() == [token for one in expected for token in one]
    extras = data.train.extras(np.array([7, 0, 7]))
    assert extras["num_choices"].tolist() == [len(rows[i]["passage"]) for i in (7, 0, 7)]
    assert extras["example_labels"].tolist() == [grade for i in (7, 0, 7) for grade in rows[i]["label"]]
    assert extras["example_labels"].dtype == np.float32


def test_three_forms_are_the_same_lists(tmp_path: Path) -> None:
    passages = {"which flies": ["a heron", "a stone", "the river"], "what freezes": ["the river", "noon"]}
    listed: list[dict[str, Any]] = [
        {"query": q, "passage": p, "label": [1] + [0] * (len(p) - 1)} for q, p in passages.items()
    ]
    long = [
        {"query": row["query"], "passage": passage, "label": grade}
        for row in listed
        for passage, grade in zip(row["passage"], row["label"], strict=True)
    ]
    long = [long[i] for i in (0, 3, 1, 4, 2)]  # rows of a query need not follow each other
    columns = [{"query": q, "positive": p[0], "negative": p[1:]} for q, p in passages.items()]
    table = tmp_path / "long.csv"
    table.write_text(
        "query,passage,label\n" + "".join(f"{r['query']},{r['passage']},{r['label']}\n" for r in long)
    )
    named = {"pair_column": "positive", "negative_columns": "negative"}
    expected = [(row["query"], row["passage"], [float(grade) for grade in row["label"]]) for row in listed]
    for rows, fields in ((listed, {}), (long, {}), (str(table), {}), (columns, named)):
        data = prepared(rows, **fields)
        assert lists(data) == expected
    assert data.train.fingerprint == prepared(listed).train.fingerprint
    assert (
        data.train.fingerprint
        != prepared([{**row, "label": row["label"][::-1]} for row in listed]).train.fingerprint
    )


def test_rows_of_one_id_are_a_list() -> None:
    rows = [{"query": "who", "qid": i % 2, "passage": f"heron {i}", "label": i // 2} for i in range(6)]
    assert [len(found[1]) for found in lists(prepared(rows, id_column="qid"))] == [3, 3]
    assert [found.id for found in prepared(rows, id_column="qid").train.examples] == ["0", "1"]
    assert [len(found[1]) for found in lists(prepared(rows))] == [6]


def test_lists_of_one_query_are_held_out_together() -> None:
    rows = [{**row, "query": f"query {i % 5}"} for i, row in enumerate(rankings(40))]
    data = prepared(rows, validation_documents=0.4)
    trained, held = ({e.text for e in some.examples} for some in (data.train, data.validation["validation"]))
    assert trained
    assert held
    assert not trained & held
    assert len(data.train) + len(data.validation["validation"]) == 40


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"label": [0, 0]}, "no candidate is relevant, expected a grade above 0"),
        ({"label": [1]}, "there are 1 grades for 2 candidates: expected one for each"),
        ({"label": [1, -1]}, "the grade of candidate 2 is -1, expected a number from 0"),
        ({"label": ["good", 0]}, "the grade of candidate 1 is 'good', expected a number from 0"),
        ({"label": [1, float("nan")]}, "the grade of candidate 2 is nan, expected a number from 0"),
        ({"label": [float("inf"), 0]}, "the grade of candidate 1 is inf, expected a number from 0"),
        ({"label": None}, "there are 0 grades for 2 candidates"),
        ({"passage": ["herons"], "label": [1]}, "there is one candidate only, expected two or more"),
        ({"passage": ["herons", " "]}, "candidate 2 of 2 is empty"),
        ({"passage": []}, r"the candidates are \[\]: expected a list of two or more"),
        ({"query": " "}, "the text in column 'query' is empty"),
        ({"query": None, "passage": "heron", "label": 1}, "the text in column 'query' is empty"),
    ],
)
def test_lists_that_cannot_be_used_are_told_or_left_out(change: dict[str, Any], told: str) -> None:
    rows = [GOOD, {**GOOD, **change}]
    with pytest.raises(ValueError, match=f"^row 1: {told}.*; data.on_bad_row=skip leaves such rows out$"):
        prepared(rows, on_bad_row="error")
    data = prepared(rows, on_bad_row="skip")
    assert len(data.train) == 1
    assert sum(len(places) for places in data.bad["train"].places.values()) == 1


def test_test_sets_may_lack_grades() -> None:
    test = [{"query": "who", "passage": ["herons", "stones"]}, {**GOOD, "label": [1, None]}, GOOD]
    data = prepared([GOOD], test=test)
    assert [example.label for example in data.test["test"].examples] == [None, None, [1.0, 0.0]]
    assert np.isnan(data.test["test"].labels).tolist() == [True] * 4 + [False] * 2
    assert data.baselines()["test/test/chance_mrr_at_10"] == pytest.approx(0.75)


@pytest.mark.slow
def test_guessing_is_measured_as_random_scores_are() -> None:
    rows = rankings(200)
    found = prepared(rows[:9], validation=rows).baselines()
    draw = np.random.default_rng(0)
    for name, metric in get_metrics_for_task("ranking").items():
        for _ in range(20):
            metric.update([draw.random(len(row["label"])) for row in rows], [row["label"] for row in rows])
        assert found[f"val/validation/chance_{name}"] == pytest.approx(float(metric.compute()), abs=0.01)


@pytest.mark.slow
def test_the_demonstration_has_the_own_module_and_does_not_tell_it_otherwise() -> None:
    rows, trained = StdlibRanking("test").rows(), StdlibRanking("train").rows()
    assert not {row["query"] for row in rows} & {row["query"] for row in trained}
    for row in rows:
        assert len({*row["passage"]}) == 8
        assert row["label"].count(2) == 1
        packages = [name.partition(".")[0].lstrip("_") for name in row["passage"]]
        own = packages[row["label"].index(2)]
        assert [package == own for package in packages] == [grade > 0 for grade in row["label"]]
    places = np.mean([np.array(row["label"]) == 2 for row in trained], 0)
    assert places == pytest.approx(np.full(8, 1 / 8), abs=0.03)
    # the module that is most frequent in training, alike for every docstring
    frequent = Counter(row["passage"][row["label"].index(2)] for row in trained)
    by_frequency = [[frequent[name] for name in row["passage"]] for row in rows]
    figures = [
        TiedRanks.of(scores, row["label"]).ndcg() for scores, row in zip(by_frequency, rows, strict=True)
    ]
    chance = [TiedRanks.of([0.0] * 8, row["label"]).ndcg() for row in rows]
    assert np.mean(chance) == pytest.approx(np.mean(figures), abs=0.1)
