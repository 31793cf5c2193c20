"""Folders of BEIR: what is read, and the figures of ranks by grades."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import ndcg_score

from tests.modules.conftest import NEW
from tests.support.in_process import tiryns_here
from tiryns.conf.data.pairs import Retrieval
from tiryns.runner.data.labelled.measured import RetrievalPairs
from tiryns.runner.evaluation.ranks import DEEP, Ranking, cosines, rank

PASSAGES = 130
WORDS = ["heron", "river", "bridge", "winter", "reeds", "water", "stands", "old", "closed"]


def beir(folder: Path) -> Path:
    """A folder with 12 queries, of which q10 has no relevant passage and q11 no grades, and 130 passages."""
    (folder / "qrels").mkdir(parents=True)
    passages = [
        {
            "_id": f"p{n}",
            "title": f"{WORDS[n % 9]} {n}" if n % 3 else "",
            "text": f"{WORDS[n % 4]} of {n * 7}",
        }
        for n in range(PASSAGES)
    ]
    passages.append({"_id": "q3", "title": "", "text": "heron 3 stands"})
    queries = [{"_id": f"q{n}", "text": f"{WORDS[n % 9]} {n} stands", "metadata": {}} for n in range(12)]
    for name, rows in (("corpus", passages), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    grades = [(f"q{n}", f"p{(n * 11 + 5 * k) % PASSAGES}", k % 3) for n in range(10) for k in range(n + 2)]
    for split, some in {"test": [*grades, ("q10", "p1", 0)], "dev": grades[:9], "train": grades}.items():
        lines = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in some)]
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return folder


def prepared(**fields: Any) -> RetrievalPairs:
    values = {name: value for name, value in vars(Retrieval(**fields)).items() if name != "_target_"}
    data = RetrievalPairs(**{**values, "tokenizer": None, "vocab_size": 120})
    data.prepare_data()
    return data


def test_a_folder_is_read_as_beir_reads_it(tmp_path: Path) -> None:
    folder = str(beir(tmp_path / "beir"))
    data = prepared(test=folder, validation=folder, train=f"{folder}@dev")
    assert data.tokenizer.vocab_size > 30
    found = data.sets["test/test"]
    assert found.queries[:2] == ["heron 0 stands", "river 1 stands"]
    assert found.passages[:2] == ["heron of 0", "river 1 river of 7"]
    assert len(found.queries) == 10
    assert len(found.passages) == PASSAGES + 1
    assert found.num_left_out == 2
    assert (found.relevant[1], found.grades and found.grades[1]) == ([16, 21], [1.0, 2.0])
    assert found.excluded_passages == [[], [], [], [PASSAGES], *[[]] * 6]
    assert len(data.sets["val/validation"].queries) == 3


def trec_eval(top: list[int], grades: dict[int, float]) -> dict[str, float]:
    """Figures of one query by their formulas, of numbers of passages in their order."""
    gains = sorted(grades.values(), reverse=True)
    at = {k: sum(number in grades for number in top[:k]) for k in range(1, 101)}
    ranks = [k for k in range(1, 101) if k <= len(top) and top[k - 1] in grades]
    return {
        "ndcg_at_10": sum(grades.get(n, 0) / math.log2(k + 2) for k, n in enumerate(top[:10]))
        / sum(gain / math.log2(k + 2) for k, gain in enumerate(gains[:10])),
        "mrr_at_10": max([1 / k for k in ranks if k <= 10], default=0),
        "recall_at_10": at[10] / len(grades),
        "map_at_100": sum(at[k] / k for k in ranks) / len(grades),
        "recall_at_100": at[100] / len(grades),
    }


def drawn() -> tuple[Any, Any, list[dict[int, float]]]:
    """Vectors of 15 queries and 140 passages, some of them equal, and grades of 1 to 3."""
    generator = torch.Generator().manual_seed(1)
    queries, passages = (torch.randn(count, 5, generator=generator) for count in (15, 140))
    passages[100:120] = passages[20:40]
    return queries, passages, [{(q * 9 + 7 * k) % 140: 1.0 + k % 3 for k in range(q + 1)} for q in range(15)]


def ranked(excluded: list[list[int]] | None = None) -> Ranking:
    queries, passages, graded = drawn()
    own = [list(one) for one in graded], [list(one.values()) for one in graded]
    return rank(queries, passages, *own, excluded, DEEP)


def test_figures_are_those_of_their_formulas_and_of_scikit_learn() -> None:
    queries, passages, graded = drawn()
    excluded = [[next(iter(one))] if q % 4 == 1 else [] for q, one in enumerate(graded)]
    found, all_ranked = ranked(excluded), ranked()
    for q, grades in enumerate(graded):
        scores = cosines(queries[q].expand_as(passages), passages).numpy().round(12)
        order = [n for n in np.argsort(-scores, kind="stable").tolist() if n not in excluded[q]]
        assert found.first[q].tolist() == order[:100]
        expected = trec_eval(order[:100], grades)
        for name, values in found.figures.items():
            assert values[q] == pytest.approx(expected[name], abs=1e-12), name
        truth = np.array([[grades.get(n, 0) for n in range(len(passages))]])
        broken = (scores - 1e-9 * np.arange(len(passages)))[None]  # ties, as ours
        assert all_ranked.figures["ndcg_at_10"][q] == pytest.approx(ndcg_score(truth, broken, k=10), abs=1e-9)
    assert any(
        (found.figures[name] != all_ranked.figures[name]).any() for name in ("mrr_at_10", "map_at_100")
    )


def test_a_passage_that_is_not_ranked_stands_behind_the_others() -> None:
    found = rank(torch.eye(2), torch.eye(2), [[0], [1]], None, [[0], []], DEEP)
    assert found.first.tolist() == [[1, -1], [1, 0]]
    assert found.figures["mrr_at_10"].tolist() == [0, 1]


SHORT = [*NEW, "trainer=cpu", "data.max_length=32", "data.vocab_size=120"]


@pytest.mark.slow
def test_a_probe_measures_a_folder(tmp_path: Path) -> None:
    beir(tmp_path / "beir")
    done = tiryns_here(tmp_path, "mode=probe", *SHORT, "data=retrieval", "data.test=beir", "data.train=beir")
    assert done.returncode == 0, done.stderr
    assert "test.tsv names no relevant passage for 2 queries: they are left out" in done.stdout + done.stderr
    [status] = (tmp_path / "outputs").glob("*/*/status.json")
    assert 0 < json.loads(status.read_text())["results"]["test/test/map_at_100"] < 1


def test_pairs_of_a_folder_are_trained_on_and_evaluated(tmp_path: Path) -> None:
    beir(tmp_path / "beir")
    pairs = ["data=pairs", "objective=contrastive", "module=finetuning", "sampler.global_batch_size=4"]
    sets = ["data.train=beir", "data.validation=beir", "data.test=beir@test", "trainer.max_steps=2"]
    done = tiryns_here(tmp_path, *SHORT, *pairs, *sets, "outputs=trained")
    assert done.returncode == 0, done.stderr
    assert "is not read" not in done.stderr
    [status] = (tmp_path / "trained").glob("*/*/status.json")
    figure = json.loads(status.read_text())["results"]["test/test/mrr_at_10"]
    done = tiryns_here(tmp_path, "evaluate", str(status.parent), "beir", "--json", "--resamples", "0")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["sets"]["beir"]["metrics"]["mrr_at_10"] == figure


WRONG: list[tuple[str, str, str]] = [
    ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\tp999\t1\n", "test.tsv, line 2: the id 'p999' is not in"),
    ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq99\tp1\t1\n", "line 2: the id 'q99' is not in"),
    ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\tp1\thigh\n", "line 2: the score is 'high'"),
    ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\tp1\t0\n", "names no relevant passage: expected scores"),
    ("qrels/test.tsv", "query\tpassage\tscore\nq1\tp1\t1\n", "has no column 'query-id'"),
    ("corpus.jsonl", '{"_id": "p1", "text": "a"}\n{"_id": "p1", "text": "b"}\n', "the id 'p1' stands in an earlier"),
    ("queries.jsonl", '{"id": "p1", "text": "a"}\n', "has no column '_id'"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "told"), WRONG)
def test_wrong_files_are_refused_in_one_line(tmp_path: Path, name: str, content: str, told: str) -> None:
    folder = beir(tmp_path / "beir")
    (folder / name).write_text(content)
    with pytest.raises(ValueError, match=told) as raised:
        prepared(test=str(folder), train=str(folder))
    assert "\n" not in str(raised.value)


def test_an_unknown_split_is_refused_with_those_there_are(tmp_path: Path) -> None:
    folder = beir(tmp_path / "beir")
    with pytest.raises(ValueError, match=r"has no late\.tsv; it has: dev, test, train\. Write FOLDER@SPLIT"):
        prepared(test=f"{folder}@late", train=str(folder))
