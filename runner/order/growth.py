"""The sizes of global batches that grow at the beginning of a run, as a closed form of the step."""

from bisect import bisect_right
from itertools import accumulate, pairwise


class Growth:
    """Sizes `first`, `first + by`, ... below `size`, which share `steps` steps evenly, then `size` for ever.

    Each size has as many steps as any other, to one; so ModernBERT grows its batch (arXiv 2412.13663, appendix A).

    Example:
        >>> growth = Growth(size=8, first=2, by=2, steps=6)
        >>> [growth.size_at(step) for step in range(8)], growth.samples_before(7)
        ([2, 2, 4, 4, 6, 6, 8, 8], 32)
    """

    def __init__(self, size: int, first: int, by: int, steps: int) -> None:
        sizes = list(range(first, size, by)) if steps else []
        ends = [-(-place * steps // len(sizes)) for place in range(1, len(sizes) + 1)]
        self._first_steps, self._sizes = [0, *ends], [*sizes, size]
        parts = (
            count * (stop - start)
            for count, (start, stop) in zip(sizes, pairwise(self._first_steps), strict=True)
        )
        self._first_samples = list(accumulate(parts, initial=0))

    def size_at(self, step: int) -> int:
        """Samples of the global batch of a step, counted from 0."""
        return self._sizes[bisect_right(self._first_steps, step) - 1]

    def samples_before(self, step: int) -> int:
        """Samples of all global batches before that of a step, counted from 0."""
        place = bisect_right(self._first_steps, step) - 1
        return self._first_samples[place] + (step - self._first_steps[place]) * self._sizes[place]

    def steps_within(self, samples: int) -> int:
        """The most global batches that have no more samples together."""
        place = bisect_right(self._first_samples, samples) - 1
        return self._first_steps[place] + (samples - self._first_samples[place]) // self._sizes[place]
