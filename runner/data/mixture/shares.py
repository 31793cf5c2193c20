"""The shares of a mixture: each source's draws, tokens and epochs."""

from collections.abc import Mapping
from typing import NamedTuple

from tiryns.runner.data.store.reader import TokenStore
from tiryns.runner.data.store.sharded import ShardedStore
from tiryns.runner.order.mixture import parts_of

Stores = Mapping[str, TokenStore | ShardedStore]


class Shares(NamedTuple):
    """What each source of a mixture is asked for and gives.

    Example:
        >>> shares = Shares({"few": 1.0, "many": 1.0}, "samples", {"few": 2, "many": 6}, {"few": 40, "many": 60}, [1, 1])
        >>> shares.of_samples, shares.of_tokens
        ({'few': 0.5, 'many': 0.5}, {'few': 0.6666666666666666, 'many': 0.3333333333333333})
    """

    weights: dict[str, float]
    unit: str
    """What the weights are shares of: `tokens` or `samples`."""
    samples: dict[str, int]
    """Sequences of each source."""
    tokens: dict[str, int]
    """Tokens of each source."""
    parts: list[int]
    """Draws of each source in a period; see `runner.order.mixture`."""

    @property
    def asked(self) -> dict[str, float]:
        """Each weight as a share of their sum."""
        return _normalised(self.weights)

    @property
    def of_samples(self) -> dict[str, float]:
        """Each source's share of the draws."""
        return _normalised(dict(zip(self.weights, map(float, self.parts), strict=True)))

    @property
    def of_tokens(self) -> dict[str, float]:
        """Each source's share of the tokens, over whole epochs of it."""
        drawn = self.of_samples
        return _normalised({n: drawn[n] * self.tokens[n] / self.samples[n] for n in drawn})


def shares_of(weights: Mapping[str, float] | None, stores: Stores, unit: str, tau: float | None) -> Shares:
    """The shares of stores by weights, or by their sizes to the power `tau`; ValueError for one too small.

    A share of tokens becomes one of draws by the mean length of the source's sequences.
    """
    samples = {name: len(store) for name, store in stores.items()}
    tokens = {name: store.num_tokens for name, store in stores.items()}
    sizes = tokens if unit == "tokens" else samples
    given = {n: float(sizes[n]) ** (tau or 0) if weights is None else float(weights[n]) for n in stores}
    per_draw = {n: tokens[n] / samples[n] if unit == "tokens" else 1.0 for n in given}
    try:
        parts = parts_of({n: weight / per_draw[n] for n, weight in given.items()})
    except ValueError as error:
        raise ValueError(f"data.mixture: {error}") from None
    return Shares(given, unit, samples, tokens, parts)


def _normalised(values: Mapping[str, float]) -> dict[str, float]:
    total = sum(values.values())
    return {name: value / total for name, value in values.items()}
