"""Hard negatives for pairs: those of sentence-transformers, none that belongs to the query, the same file each time."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.data.pairs.rows import write
from tests.inference.conftest import finetuned
from tests.support import needs
from tests.support.in_process import succeeded, tiryns_here
from tests.support.json_keys import document
from tiryns.runner.data.pairs.reader import PairsReader, index_of, own_passages
from tiryns.runner.data.read.rows import read_rows
from tiryns.runner.evaluation import ranks
from tiryns.runner.inference.mining import Mining, hard_negatives, mine
from tiryns.runner.inference.predictor import Predictor
from tiryns.runner.run.command.tables import write_rows

pytestmark = pytest.mark.fp32

WORDS = ["heron", "river", "bridge", "winter", "reeds", "water", "stands", "old", "closed"]
ROWS = [
    {"query": f"{WORDS[q % 9]} {WORDS[q % 4]} {q}", "passage": f"{WORDS[p % 9]} {WORDS[p % 5]} of {p}"}
    for q, p in ((n % 30, n % 33) for n in range(36))
]  # fmt: skip
"""36 rows; some share a query or a passage."""


class Texts:
    """The distinct texts of pairs, and which belong together."""

    def __init__(self, pairs: list[Any]) -> None:
        self.queries = index_of(pair.text for pair in pairs)
        self.passages = index_of(pair.pair for pair in pairs)
        self.positives, self.barred = own_passages(pairs, self.queries, self.passages)


@pytest.fixture(scope="module", name="run")
def run_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of vectors, with prompts."""
    folder = tmp_path_factory.mktemp("mining")
    file = write(folder / "pairs.jsonl", ROWS)
    words = ["data=pairs", "objective=contrastive", f"data.train={file}", "data.query_prompt='find '"]
    short = ["data.max_length=16", "trainer.max_steps=2", "trainer.validate_every=0"]
    return finetuned(folder / "run", *words, *short)


class Given:
    """What `mine_hard_negatives` asks of a model, with vectors that are given."""

    device = torch.device("cpu")

    def __init__(self, vectors: dict[str, Tensor]) -> None:
        self.vectors = vectors

    def encode_query(self, texts: list[str], **_: Any) -> Any:
        return torch.stack([self.vectors[text] for text in texts]).numpy()

    encode_document = encode_query

    def similarity(self, left: Any, right: Any) -> Tensor:
        return torch.as_tensor(left) @ torch.as_tensor(right).T

    def similarity_pairwise(self, left: Any, right: Any) -> Tensor:
        return (torch.as_tensor(left) * torch.as_tensor(right)).sum(-1)


def theirs(model: Any, rows: list[dict[str, str]], **options: Any) -> dict[tuple[str, str], list[str]]:
    """The negatives of sentence-transformers by query and passage; rows without any are left out."""
    from datasets import Dataset
    from sentence_transformers.util import mine_hard_negatives

    given = Dataset.from_list([{"query": row["query"], "passage": row["passage"]} for row in rows])
    found = mine_hard_negatives(given, model, output_format="triplet", verbose=False, **options)
    by_row: dict[tuple[str, str], list[str]] = {}
    for row in found:
        by_row.setdefault((row["query"], row["passage"]), []).append(row["negative"])
    return by_row


OPTIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"skip": 2}, {"range_min": 2}),
    ({"margin": 0.1}, {"absolute_margin": 0.1}),
    ({"relative_margin": 0.3}, {"relative_margin": 0.3}),
    ({"max_score": 0.2}, {"max_score": 0.2}),
    ({"margin": 0.05, "max_score": 0.4, "skip": 1}, {"absolute_margin": 0.05, "max_score": 0.4, "range_min": 1}),
]  # fmt: skip


@pytest.mark.rows(3)
@pytest.mark.parametrize(("ours", "options"), OPTIONS)
def test_negatives_are_those_of_sentence_transformers(
    ours: dict[str, Any], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    needs.package("sentence_transformers")
    monkeypatch.setattr(ranks, "AT_ONCE", 33 * 4)  # blocks of 4 queries
    generator = torch.Generator().manual_seed(3)
    texts = Texts([_pair(**row) for row in ROWS])
    assert len(texts.queries) == 30
    assert len(texts.passages) == 33
    drawn = torch.nn.functional.normalize(torch.randn(63, 12, generator=generator), dim=1)
    vectors = dict(zip([*texts.queries, *texts.passages], drawn, strict=True))
    mined = hard_negatives(drawn[:30], drawn[30:], texts.positives, texts.barred, Mining(**ours))
    if ours:  # all passages are looked at, as ours are
        options = {**options, "range_max": 33}
    expected = theirs(Given(vectors), ROWS, num_negatives=3, **options)
    names, found = [*texts.passages], {}
    for query, one in zip(texts.queries, mined, strict=True):
        for passage in texts.positives[texts.queries[query]]:
            if one.passages:
                found[query, names[passage]] = [names[number] for number in one.passages]
    assert found == expected
    first = hard_negatives(drawn[:30], drawn[30:], texts.positives, texts.barred, Mining())
    assert [one.passages for one in mined] != [one.passages for one in first] or not ours


def _pair(query: str, passage: str, match: str | None = None) -> Any:
    from tiryns.runner.data.pairs.reader import Pair

    return Pair("", query, passage, [], float("nan"), match, "")


@pytest.mark.slow
def test_a_run_mines_what_sentence_transformers_does_with_its_prompts(run: Path, tmp_path: Path) -> None:
    library = needs.package("sentence_transformers")
    file, out = write(tmp_path / "pairs.jsonl", ROWS), tmp_path / "mined.jsonl"
    done = mine(str(run), str(file), out, Mining(2, relative_margin=0.01), {}, with_scores=True)
    mined = [json.loads(line) for line in out.read_text().splitlines()]
    assert [{"query": row["query"], "passage": row["passage"]} for row in mined] == ROWS
    model = library.SentenceTransformer(f"{run}/model", device="cpu", local_files_only=True)
    expected = theirs(model, ROWS, num_negatives=2, relative_margin=0.01, range_max=33)
    found = {(row["query"], row["passage"]): row["negative"] for row in mined if row["negative"]}
    assert found == expected
    assert done["fewer"] == {"scores": sum(len(row["negative"]) < 2 for row in mined), "passages": 0}
    vectors = {
        prompt: model.encode([row[prompt] for row in ROWS], prompt_name=prompt)
        for prompt in ("query", "passage")
    }
    cosines = (vectors["query"] * vectors["passage"]).sum(1)
    assert [row["scores"][0] for row in mined] == pytest.approx(cosines.tolist(), abs=1e-5)
    assert all(len(row["scores"]) == 1 + len(row["negative"]) for row in mined)
    assert all(row["scores"][1:] == sorted(row["scores"][1:], reverse=True) for row in mined)


def test_equal_words_give_equal_bytes_and_training_reads_them(run: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "pairs.jsonl", ROWS)
    words = ["--range", "1:9", "--random", "--negatives", "2"]
    texts = []
    for name, seed in (("a", "0"), ("b", "0"), ("c", "1")):
        done = succeeded(
            tmp_path, "mine", str(run), str(file), "--out", f"{name}.jsonl", *words, "--seed", seed
        )
        texts.append((tmp_path / f"{name}.jsonl").read_bytes())
    assert texts[0] == texts[1] != texts[2]
    assert "36 rows with up to 2 of 33 passages as negatives: c.jsonl" in done.stdout
    settings = done.stdout.strip().rpartition("train on them with ")[2].split()
    trained = finetuned(
        tmp_path / "trained", "objective=contrastive", *[word.replace("=c", f"={tmp_path}/c") for word in settings],
        "trainer.max_steps=2", "data.max_length=16",
    )  # fmt: skip
    assert Predictor(trained).task == "vectors"


def test_every_format_is_read_and_written_alike(run: Path, tmp_path: Path) -> None:
    rows = [{**row, "query": f'{row["query"]}, "so"'} for row in ROWS]  # quotes in a list in a cell
    reader = PairsReader("query", "passage", ["negative"], *[None] * 6)
    found = []
    for kind in ("jsonl", "csv", "tsv", "parquet"):
        write_rows(rows, tmp_path / f"pairs.{kind}", kind)
        out = tmp_path / f"mined.{kind}"
        mine(
            str(run), str(tmp_path / f"pairs.{kind}"), out, Mining(2, relative_margin=0.1), {},
            with_scores=True,
        )  # fmt: skip
        found.append(
            [pair._replace(where="", score=0.0) for pair in reader.examples(read_rows(str(out)), False)]
        )
    assert found[0] == found[1] == found[2] == found[3]
    assert {len(pair.negatives) for pair in found[0]} >= {0, 2}, "lists of none and of several"
    assert len(found[0]) == len(ROWS)


def test_no_passage_of_the_query_is_a_negative_of_it() -> None:
    rows = [
        ("heron", "one", None),
        ("heron", "two", None),  # the same query
        ("fox", "three", "a"),
        ("owl", "four", "a"),  # the same match as the fox
        ("five", "six", None),
        ("gull", "five", None),  # a passage that is another's query
    ]
    texts = Texts([_pair(*row) for row in rows])
    vectors = torch.ones(len(texts.passages), 3)
    negatives = hard_negatives(vectors[:5], vectors, texts.positives, texts.barred, Mining(6))
    names = [*texts.passages]
    found = {
        query: [names[n] for n in one.passages] for query, one in zip(texts.queries, negatives, strict=True)
    }
    assert found == {
        "heron": ["three", "four", "six", "five"],
        "fox": ["one", "two", "six", "five"],
        "owl": ["one", "two", "six", "five"],
        "five": ["one", "two", "three", "four"],
        "gull": ["one", "two", "three", "four", "six"],
    }, "of equal cosines the first passage is the first"
    assert [one.reason for one in negatives] == ["passages"] * 5
    ranged = hard_negatives(vectors[:5], vectors, texts.positives, texts.barred, Mining(2, 1, 3))
    assert [names[n] for n in ranged[0].passages] == ["four", "six"]
    assert {one.reason for one in ranged} == {""}


def test_columns_are_those_of_the_settings_and_rows_keep_all_others(run: Path, tmp_path: Path) -> None:
    rows = [{"q": row["query"], "p": row["passage"], "topic": n // 2} for n, row in enumerate(ROWS)]
    write(tmp_path / "named.jsonl", rows)
    words = ["data.text_column=q", "data.pair_column=p", "data.match_column=topic", "--max-score", "-2"]
    done = succeeded(tmp_path, "mine", str(run), "named.jsonl", *words, "--out", "out.jsonl", "--json")
    found = document("mine", done.stdout)
    assert found["fewer"] == {"scores": 36, "passages": 0}
    assert found["settings"][3:] == words[:3]
    first = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])
    assert first == {**rows[0], "negative": []}


@pytest.mark.slow
def test_what_cannot_be_mined_is_refused_in_one_line(run: Path, tmp_path: Path) -> None:
    write(tmp_path / "pairs.jsonl", ROWS)
    write(tmp_path / "mined.jsonl", [{**row, "negative": []} for row in ROWS])
    (tmp_path / "taken.jsonl").touch()
    labels = ["text,label", *(f"{word},{word[0]}" for word in WORDS)] * 2
    (tmp_path / "labels.csv").write_text("\n".join(labels[:10]) + "\n")
    words = ["data=classification", f"data.train={tmp_path}/labels.csv", "data.validation_documents=0"]
    other = finetuned(tmp_path / "other", "objective=classification", *words, "sampler.global_batch_size=4")
    good = [str(run), "pairs.jsonl"]
    cases = [
        ([str(other), "pairs.jsonl"], "makes no vectors of texts: name a run of experiment=contrastive"),
        ([*good, "--out", "taken.jsonl"], "'taken.jsonl' is there already"),
        ([*good, "--out", "mined.xlsx"], "'mined.xlsx' ends in none of .jsonl, .ndjson, .json, .csv, .tsv"),
        ([*good, "data.text_column=qery"], "has no column 'qery'"),
        ([*good, "data.text_colum=query"], "Did you mean 'text_column'"),
        ([*good, "more"], "data.more cannot be set here"),
        ([*good, "--random"], "give --range"),
        ([*good, "--range", "5:6"], "hold fewer than 3 negatives"),
        ([*good, "--range", "5"], "expected two numbers such as 10:50"),
        ([*good, "--negatives", "0"], "1 negative or more"),
        ([str(run), "gone.jsonl"], "gone.jsonl"),
        ([str(run), "mined.jsonl"], "mined.jsonl has a column 'negative' already"),
    ]
    for words, told in cases:
        done = tiryns_here(tmp_path, "mine", *words, *([] if "--out" in words else ["--out", "m.jsonl"]))
        assert done.returncode == 1, words
        assert done.stderr.count("error:") == 1
        assert told in done.stderr, done.stderr
    assert not [*tmp_path.glob("*m.jsonl*")]
