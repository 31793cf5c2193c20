"""Whether a text was trained on, and when: the documents or rows that hold it, and what became of each."""

import numpy as np

from tiryns.runner.cli.order.opened import SampleOrder
from tiryns.runner.data.origin.holders import Holder, holders_of


def find(order: SampleOrder, text: str) -> list[tuple[str, list[Holder]]]:
    """The holders of each document of a file, or of a text, with their places in the run; one pass over the data."""
    found = holders_of(order.data, text, "--find")
    holders = [one for _, of_text in found for one in of_text]
    indices = np.unique([index for one in holders for index in one.sequences])
    by_index: dict[int, list[dict[str, int]]] = {}
    for occurrence in order.occurrences(indices.astype(np.int64)):
        by_index.setdefault(occurrence["index"], []).append(occurrence)
    for one in holders:
        one.occurrences = [o for index in one.sequences for o in by_index.get(index, [])]
    return found
