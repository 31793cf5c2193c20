"""Tasks of mteb, measured through a frozen encoder. Imported where mteb is installed."""

from collections.abc import Iterable, Mapping
from typing import Any

import mteb
import torch
from mteb.models.model_meta import ModelMeta
from torch import Tensor

from tiryns.runner.evaluation.frozen.neighbours import unit
from tiryns.runner.evaluation.frozen.ranking import cosines
from tiryns.runner.inference.frozen.encoder import FrozenEncoder


class MtebEncoder:
    """A frozen encoder in mteb's protocol; texts are compared by their cosine."""

    def __init__(self, encoder: FrozenEncoder) -> None:
        self.encoder = encoder
        self.mteb_model_meta = ModelMeta.create_empty({"name": "tiryns/frozen", "revision": "none"})

    def encode(self, inputs: Iterable[Mapping[str, Any]], **_: Any) -> Any:
        """The features [D, H] of the texts of all batches; prompts and mteb's other arguments have no effect."""
        return self.encoder.embed([text for batch in inputs for text in batch["text"]], "mteb").numpy()

    def similarity(self, left: Any, right: Any) -> Tensor:
        """The cosines [D, E] of features [D, H] and [E, H]."""
        return unit(torch.as_tensor(left)) @ unit(torch.as_tensor(right)).T

    def similarity_pairwise(self, left: Any, right: Any) -> Tensor:
        """The cosines [D] of features [D, H] and [D, H]."""
        return cosines(torch.as_tensor(left), torch.as_tensor(right))


def entries_of(tasks: Mapping[str, Any], encoder: FrozenEncoder) -> dict[str, dict[str, Any]]:
    """The main figure of each task, the mean over its splits and languages, as entries of `evaluation.json`."""
    adapted, entries = MtebEncoder(encoder), {}
    for name, task in tasks.items():
        done = mteb.evaluate(adapted, task, co2_tracker=False, cache=None, show_progress_bar=False)
        figures = {task.metadata.main_score: float(done.task_results[0].get_score())}
        entries[f"test/{name}"] = {"examples": 1, "over": "task of mteb", "metrics": figures, "intervals": {}}
    return entries
