"""Rows of pairs: what is read, what is refused, and how several sets share the global batches."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

import tiryns.conf  # noqa: F401
from tests.data.pairs.rows import TINY, pairs, scored, write
from tests.support.composed import composed
from tiryns.conf.registry import OPTIONS
from tiryns.runner.config.checks import check_config
from tiryns.runner.data import PairsData
from tiryns.runner.samplers import LengthGrouped, Shuffled
from tiryns.runner.samplers.mixed import OneSet
from tiryns.runner.tasks import get_task

ROWS: list[dict[str, Any]] = pairs(40, negatives=2)


def prepared(train: Any = ROWS, sets: Any = None, **fields: Any) -> PairsData:
    given = {"vocab_size": 200, "tokenizer": None, "train": None, "validation_documents": 0, **fields}
    made = OmegaConf.to_container(OmegaConf.merge(OmegaConf.structured(OPTIONS["data"]["pairs"]), given))
    assert isinstance(made, dict)
    del made["_target_"]
    made["task"] = get_task("contrastive")
    data = PairsData(**made)  # type: ignore[arg-type]
    data.set_datasets(train, **(sets or {}))
    data.prepare_data()
    return data


def texts_of(data: PairsData, row: int) -> list[str]:
    """The texts of a training sample, as they were tokenised."""
    ids, _ = data.train_set.gather(np.array([row]))
    lengths = data.train_set.extras(np.array([row]))["text_lengths"]
    return [
        str(data.tokenizer.decode(text, skip_special_tokens=True))
        for text in np.split(ids, np.cumsum(lengths)[:-1])
    ]


def test_row_is_its_query_passage_and_negatives() -> None:
    data = prepared(negative_columns="negative")
    for number, row in enumerate(ROWS):
        assert texts_of(data, number) == [row["query"], row["passage"], *row["negative"]]
    assert data.collator_arguments()["texts_per_row"] == 4
    assert texts_of(prepared(), 2) == [ROWS[2]["query"], ROWS[2]["passage"]]


def test_negatives_may_be_in_several_columns_and_missing() -> None:
    rows = [
        {"query": "a", "passage": "b", "0": 4, "1": "c", "2": None},
        {"query": "d", "passage": "e", "0": 3, "1": "", "2": "f"},
        {"query": "g", "passage": "h", "0": 2, "1": '["i", "j"]', "2": "[]"},  # as csv has lists
        {"query": "k", "passage": "l", "0": 1, "1": "[1]", "2": "12"},
        {"query": "m", "passage": "n", "0": 0, "1": "[" * 10**5, "2": "null"},
    ]
    data = prepared(rows, negative_columns=[1, 2], label_column=0)  # as pandas names them
    assert data.train_set.scores.tolist() == [4, 3, 2, 1, 0]
    found = [pair.negatives for pair in data.train_set.examples]
    assert found == [["c"], ["f"], ["i", "j"], ["[1]", "12"], ["[" * 10**5, "null"]]


def test_sets_that_are_measured_need_no_column_of_negatives() -> None:
    bare = [{"query": "seven foxes", "passage": "old bridges"}]
    data = prepared(sets={"val": bare, "test": bare}, negative_columns="negative")
    held_out_sets: list[Any] = [data.validation["validation"], data.test["test"]]
    for held_out in held_out_sets:
        assert [pair.negatives for pair in held_out.examples] == [[]]
    with pytest.raises(ValueError, match="has no column 'negative'"):
        prepared(bare, negative_columns="negative")


def test_prompts_and_lengths_are_those_of_each_side() -> None:
    data = prepared(query_prompt="herons ", passage_prompt="bridge ", negative_columns="negative")
    for number, (query, *others) in enumerate(texts_of(data, n) for n in range(9)):
        assert query == f"herons {ROWS[number]['query']}"
        assert others == [f"bridge {text}" for text in (ROWS[number]["passage"], *ROWS[number]["negative"])]
    data = prepared(max_length=10, max_query_length=8)
    lengths = data.train_set.text_lengths.reshape(-1, 2)
    assert lengths.max(0).tolist() == [8, 10]
    assert data.collator_arguments()["max_sequence_length"] == 10


def test_equal_texts_and_matches_have_equal_numbers() -> None:
    rows = [
        {"query": "a", "passage": "b", "topic": 1},
        {"query": "b", "passage": "c", "topic": None},
        {"query": "d", "passage": "b", "topic": "1"},
    ]
    train = prepared(rows, match_column="topic", query_prompt="which ").train_set
    ids = train.text_ids
    assert ids[1] == ids[2] == ids[5]
    assert len(set(ids.tolist())) == 4
    assert train.match_ids[0] == train.match_ids[2] != train.match_ids[1] == 0


@pytest.mark.parametrize(
    ("row", "fields", "message"),
    [
        ({"query": "a"}, {}, r"row 1.*no column 'passage'.*data.pair_column"),
        ({"query": "a", "passage": " "}, {}, "row 1.*column 'passage' is empty"),
        ({"query": "a", "passage": "b"}, {"negative_columns": "negative"}, "data.negative_columns"),
        (
            {"query": "a", "passage": "b", "negative": 3},
            {"negative_columns": "negative"},
            "holds 3, expected a text or",
        ),
        ({"query": "a", "passage": "b"}, {"label_column": "score"}, "data.label_column"),
        (
            {"query": "a", "passage": "b", "score": "high"},
            {"label_column": "score"},
            "'high', expected a number",
        ),
        ({"query": "a", "passage": "b", "score": None}, {"label_column": "score"}, "no score"),
    ],
)
def test_row_that_cannot_be_used_is_named(row: dict[str, Any], fields: dict[str, Any], message: str) -> None:
    good = {"query": "c", "passage": "d", "negative": "e", "score": 1.0}
    with pytest.raises(ValueError, match=message):
        prepared([good, row], **fields)


def test_held_out_rows_share_no_text_with_training() -> None:
    """Not even by way of a third row."""
    rows = pairs(60)
    for number in range(0, 60, 3):
        rows[number + 1]["query"] = rows[number]["query"]
        rows[number + 2]["passage"] = rows[number + 1]["passage"]
    data: Any = prepared(rows, validation_documents=0.3)
    sides = [
        {t for pair in part.examples for t in pair.texts}
        for part in (data.train_set, data.validation["validation"])
    ]
    assert not sides[0] & sides[1]
    assert len(data.validation["validation"]) % 3 == 0 < len(data.validation["validation"])


SETS = {"few": pairs(16, seed=1), "many": pairs(48, seed=2)}


def batches(sampler: type = Shuffled, size: int = 8, steps: int = 12, **fields: Any) -> Any:
    data = prepared(SETS, **fields)

    def make(**given: Any) -> Any:
        options = {"pool_batches": 2} if sampler is LengthGrouped else {}
        return sampler(**given, global_batch_size=size, seed=0, **options)

    return data, data._sampler(make, steps, None)


@pytest.mark.parametrize(
    ("weights", "expected"), [(None, {"few": 3, "many": 9}), ({"few": 2, "many": 1}, {"few": 8, "many": 4})]
)
def test_each_batch_is_of_one_set_by_its_share(weights: Any, expected: dict[str, int]) -> None:
    data, order = batches(weights=weights)
    drawn = [{data.train_set.examples[i].set for i in order.global_batch(step)[:, 1]} for step in range(12)]
    assert all(len(names) == 1 for names in drawn)
    assert Counter(name for (name,) in drawn) == expected


@settings(max_examples=20)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(4, 9))
def test_every_set_is_passed_over_once_before_any_row_comes_again(few: int, many: int, size: int) -> None:
    sizes = {"few": 9, "many": 31}
    whole = Shuffled(range(40), num_epochs=None, num_batches=60, global_batch_size=size, seed=3)  # type: ignore[arg-type]
    order = OneSet(whole, sizes, [few, many])
    for start, length in ((0, 9), (9, 31)):
        drawn = np.concatenate([np.empty((0, 2), np.int64), *(
            batch for batch in map(order.global_batch, range(60)) if start <= batch[0, 1] < start + length
        )])  # fmt: skip
        passes = [drawn[drawn[:, 0] == epoch, 1] for epoch in range(int(drawn[:, 0].max()) + 1)]
        assert all(sorted(one.tolist()) == list(range(start, start + length)) for one in passes[:-1])
        assert len(set(passes[-1].tolist())) == len(passes[-1])


def test_batches_depend_on_the_seed_and_resume_by_their_number() -> None:
    rows: Any = range(40)
    whole = [Shuffled(rows, None, 9, global_batch_size=4, seed=seed) for seed in (0, 0, 1)]
    first, again, other = (OneSet(one, {"few": 9, "many": 31}, [1, 2]) for one in whole)
    assert first.global_batch(7).tolist() == again.global_batch(7).tolist() != other.global_batch(7).tolist()
    assert first.fingerprint()["sets"] == {"few": "1/3", "many": "2/3"}


@pytest.mark.parametrize(
    ("sampler", "fields", "message"),
    [
        (Shuffled, {"size": 20}, "'few' has 16 rows, fewer than a global batch of 20"),
        (LengthGrouped, {}, "LengthGrouped sorts all samples together"),
        (Shuffled, {"weights": {"few": 1}}, "'many' must be a number above 0"),
        (
            Shuffled,
            {"weights": {"few": 1, "many": 1, "mny": 2}},
            r"data\.weights\.mny: data\.train has few, many.*did you mean 'many'",
        ),
    ],
)
def test_sets_that_make_no_batches_are_refused(sampler: type, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"(?i){message}"):
        batches(sampler, **fields)


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["objective.loss=cosent"], "data.label_column"),
        (
            ["objective.loss=cosine", "data.label_column=s", "objective.symmetric=true"],
            "objective.symmetric is a setting",
        ),
        (["objective.dimensions=[8,0]"], "objective.dimensions must each be"),
        (["objective.dimensions=[8]", "objective.dimension_weights=[1,2]"], "2 weights for the 1 sizes"),
        (["objective.temperature=0"], "objective.temperature"),
        (["module=pretraining"], "objective=contrastive needs module=finetuning"),
        (["data=stdlib_docstrings"], "choose objective=classification"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused_before_data_is_read(
    words: list[str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        check_config(composed([*TINY, "data.train=nowhere.jsonl", *words]))


def test_scores_beyond_a_cosine_are_refused(tmp_path: Path) -> None:
    from tiryns.runner.loop.assembly import assemble

    file = write(tmp_path / "scored.jsonl", scored())
    words = [*TINY, f"data.train={file}", "data.label_column=score", "objective.loss=cosine"]
    with pytest.raises(ValueError, match=r"scored.jsonl, line \d+\).* objective.max_score"):
        assemble(composed(words))
    share = assemble(composed([*words, "objective.max_score=4"])).data.train_batches(0, 1)[0]
    assert max(float(micro["scores"].max()) for micro in share["micro_batches"]) <= 1
