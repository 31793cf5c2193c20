"""The progress bar of energon's packing: `PackingDataset` of megatron-energon 7.4 shows one whenever it fills its buffer.

No setting turns the bar off; it is an argument of `_fill_reading_buffer`.
"""

from typing import Any


def hide_progress(dataset: Any) -> None:
    """Turns off the progress bar of a packing data set."""
    fill = dataset._fill_reading_buffer
    dataset._fill_reading_buffer = lambda source, log_progress: fill(source)
