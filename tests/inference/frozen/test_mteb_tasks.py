"""Tasks of mteb through a frozen encoder, on data made here; skipped where mteb is not installed."""

from typing import Any

import pytest
import torch

from tests.models.tiny import tiny
from tests.support import needs
from tiryns.conf.data.pairs import Mteb
from tiryns.runner.data.labelled.measured import MtebTasks
from tiryns.runner.data.text.tokenizer import train_tokenizer
from tiryns.runner.evaluation.ranks import DEEP, rank
from tiryns.runner.inference.frozen.probes import probe
from tiryns.runner.inference.passes import Computation
from tiryns.runner.inference.vectors import FrozenEncoder
from tiryns.runner.models.embedding.folder import Embedding, prompts_of

needs.package("mteb")

PAIRS = [
    ("the river is frozen", "the river froze over", 4.5),
    ("a heron stands in the reeds", "a grey heron stood there", 4.0),
    ("the bridge is old", "seven foxes run", 0.5),
    ("nobody spoke of it", "it was not spoken of", 3.5),
    ("a fox was seen", "the bridge is closed", 0.2),
]

CANDIDATES = {str(i): [str(i), str((i + 1) % 5)] for i in range(5)}
"""The passages that each query is reranked among."""


def made() -> None:
    """Defines three tasks, which are then known by their names."""
    from datasets import Dataset, DatasetDict
    from mteb import TaskMetadata
    from mteb.abstasks import AbsTaskSTS
    from mteb.abstasks.retrieval import AbsTaskRetrieval

    unknown = (
        "date", "domains", "task_subtypes", "license", "annotations_creators", "dialect", "sample_creation",
    )  # fmt: skip
    shared: dict[str, Any] = {
        **dict.fromkeys((*unknown, "bibtex_citation", "reference")),
        **{"description": "made here", "dataset": {"path": "none", "revision": "1"}, "category": "t2t"},
        **{"modalities": ["text"], "eval_splits": ["test"], "eval_langs": ["eng-Latn"]},
    }

    class HeronSimilarity(AbsTaskSTS):
        metadata = TaskMetadata(name="HeronSimilarity", type="STS", main_score="cosine_spearman", **shared)

        def load_data(self, **_: Any) -> None:
            left, right, score = zip(*PAIRS, strict=True)
            columns = {"sentence1": list(left), "sentence2": list(right), "score": list(score)}
            self.dataset = DatasetDict(test=Dataset.from_dict(columns))
            self.data_loaded = True

    class HeronRetrieval(AbsTaskRetrieval):
        metadata = TaskMetadata(name="HeronRetrieval", type="Retrieval", main_score="ndcg_at_10", **shared)
        candidates: dict[str, list[str]] | None = None

        def load_data(self, **_: Any) -> None:
            sides = zip(*[(left, right) for left, right, _ in PAIRS], strict=True)
            queries, corpus = (
                Dataset.from_list([{"id": str(i), "text": text} for i, text in enumerate(side)])
                for side in sides
            )
            corpus = corpus.add_column("title", [""] * len(PAIRS))
            relevant = {str(i): {str(i): 1} for i in range(len(PAIRS))}
            parts = {"queries": queries, "corpus": corpus, "relevant_docs": relevant}
            self.dataset = {"default": {"test": {**parts, "top_ranked": self.candidates}}}
            self.data_loaded = True

    class HeronReranking(HeronRetrieval):
        metadata = TaskMetadata(name="HeronReranking", type="Reranking", main_score="map_at_1000", **shared)
        candidates = CANDIDATES


def test_tasks_have_the_figures_of_our_own_features(tmp_path: Any) -> None:
    from scipy.stats import spearmanr

    made()
    tokenizer = train_tokenizer([text for *texts, _ in PAIRS for text in texts], "wordpiece", 50, True)
    tokenizer.save_pretrained(tmp_path)
    values = {name: value for name, value in vars(Mteb()).items() if name != "_target_"}
    names = ["HeronSimilarity", "HeronRetrieval", "HeronReranking"]
    data = MtebTasks(**{**values, "tasks": names, "tokenizer": str(tmp_path)})
    data.prepare_data()
    body: Any = tiny().base_model
    prompts = prompts_of("seven foxes ", "the old bridge ")
    encoder = FrozenEncoder(body, data.tokenizer, Embedding("mean", False, prompts, None, 40), Computation())
    found = probe(data, encoder).figures()
    left, right = (encoder.embed([str(pair[side]) for pair in PAIRS]).double() for side in (0, 1))
    cosine = torch.cosine_similarity(left, right).numpy()
    expected = spearmanr(cosine, [score for *_, score in PAIRS])[0]
    assert found["test/HeronSimilarity/cosine_spearman"] == pytest.approx(expected, abs=1e-6)

    queries, passages = (
        encoder.embed([str(pair[side]) for pair in PAIRS], prompt=prompt)
        for side, prompt in enumerate(("query", "passage"))
    )
    ours = rank(queries, passages, [[i] for i in range(len(PAIRS))], depth=DEEP).figures
    for name, figures in ours.items():
        assert found[f"test/HeronRetrieval/{name}"] == pytest.approx(figures.mean(), abs=1e-4)
    plain = rank(left, right, [[i] for i in range(len(PAIRS))]).figures["mrr_at_10"].mean()
    assert ours["mrr_at_10"].mean() != plain, "prompts count"

    numbers = [[int(i) for i in CANDIDATES[str(query)]] for query in range(len(PAIRS))]
    few = [
        rank(queries[[query]], passages[own], [[own.index(query)]], depth=DEEP).figures
        for query, own in enumerate(numbers)
    ]
    for ours_named, name in (("map_at_100", "map_at_1000"), ("mrr_at_10",) * 2, ("ndcg_at_10",) * 2):
        expected = sum(one[ours_named][0] for one in few) / len(few)
        assert found[f"test/HeronReranking/{name}"] == pytest.approx(expected, abs=1e-4)
    assert found["test/HeronReranking/mrr_at_10"] > found["test/HeronRetrieval/mrr_at_10"]

    with pytest.raises(ValueError, match=r"mteb has no task 'HeronRetrival'\. Did you mean 'HeronRetrieval'"):
        MtebTasks(**{**values, "tasks": ["HeronRetrival"], "tokenizer": str(tmp_path)}).prepare_data()
