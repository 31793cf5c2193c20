"""Tasks of mteb, measured with a frozen encoder. Can only be imported if mteb is installed."""

from collections.abc import Iterable, Mapping
from enum import Enum
from operator import itemgetter
from typing import Any

import mteb
import torch
from mteb.models.model_meta import ModelMeta
from torch import Tensor

from tiryns.runner.evaluation.files import Entry
from tiryns.runner.evaluation.ranks import cosines, unit
from tiryns.runner.inference.vectors import FrozenEncoder

OF_RANKS = ("ndcg_at_10", "mrr_at_10", "map_at_100", "recall_at_10", "recall_at_100")
"""Metrics of retrieval and reranking besides the main metric."""


class MtebEncoder:
    """A frozen encoder in mteb's protocol; texts are compared by their cosine."""

    def __init__(self, encoder: FrozenEncoder) -> None:
        self.encoder = encoder
        self.mteb_model_meta = ModelMeta.create_empty({"name": "tiryns/frozen", "revision": "none"})

    def encode(
        self, inputs: Iterable[Mapping[str, list[str]]], *, prompt_type: Enum | None = None, **_: object
    ) -> Any:
        """Returns the features [D, H] of the texts of all batches, with the model's prompt for queries or documents."""
        texts = [text for batch in inputs for text in batch["text"]]
        return self.encoder.embed(texts, "mteb", prompt_type and prompt_type.value).numpy()

    def similarity(self, left: Any, right: Any) -> Tensor:
        """Returns the cosines [D, E] of features [D, H] and [E, H]."""
        return unit(torch.as_tensor(left)) @ unit(torch.as_tensor(right)).T

    def similarity_pairwise(self, left: object, right: object) -> Tensor:
        """Returns the cosines [D] of features [D, H] and [D, H]."""
        return cosines(torch.as_tensor(left), torch.as_tensor(right))


def entries_of(tasks: Mapping[str, Any], encoder: FrozenEncoder) -> dict[str, Entry]:
    """Returns each task's entry of `evaluation.json`: means over splits and languages, with the main metric first."""
    mteb_encoder, entries = MtebEncoder(encoder), {}
    for name, task in tasks.items():
        result = mteb.evaluate(mteb_encoder, task, co2_tracker=False, cache=None, show_progress_bar=False)
        task_result = result.task_results[0]
        figures = {task.metadata.main_score: float(task_result.get_score())}
        if task.metadata.type in ("Retrieval", "Reranking"):
            figures |= {name: float(task_result.get_score(getter=itemgetter(name))) for name in OF_RANKS}
        entries[f"test/{name}"] = {"examples": 1, "over": "task of mteb", "metrics": figures, "intervals": {}}
    return entries
