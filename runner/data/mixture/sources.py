"""Decides for all sources of a mixture: the tokenizer, the texts that no source trains on, and the shares.

A text that one source holds out may occur in another source. So all sources are read once before any is tokenised; the
result is cached, beside the stores that each source then makes.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiryns.conf.data.pretraining import Mixture
from tiryns.runner.data.store.reader import TokenStore
from tiryns.runner.data.store.sharded import ShardedStore
from tiryns.runner.data.store.writer import key_of, lock_of, write_errors, write_json
from tiryns.runner.data.text import tokenizer as text_tokenizer
from tiryns.runner.data.text.holdout import TRAIN, Part, among
from tiryns.runner.data.text.prepare import keep_tokenizer, text_inputs, train_on
from tiryns.runner.data.text.pretraining import PretrainingData
from tiryns.runner.order.mixture import parts_of

VERSION = 1
"""Increased when the same sources would give another tokenizer, or other texts to leave out."""


def decide_together(sources: Mapping[str, PretrainingData], settings: Mixture, tokenizer: str | None) -> str:
    """Sets `exclusions` of sources that are not yet prepared; returns the name or folder of their tokenizer.

    If `tokenizer` is None, a tokenizer is trained on the training documents of all sources.
    """
    cache_dir = Path(settings.cache_dir).expanduser()
    inputs: dict[str, Any] = {"version": VERSION, "texts": []}
    for name, one in sources.items():
        source_settings = replace(one.settings, tokenizer=tokenizer)
        inputs["texts"].append([name, text_inputs(one.source, one.validation_sources, source_settings)])
    if tokenizer is None:
        kind, size = settings.tokenizer_kind, settings.vocab_size
        training = text_tokenizer.check_training(kind, size, settings.lowercase)
        inputs |= {"tokenizer": training, "tokenizer_version": text_tokenizer.VERSION}
    note = cache_dir / "mixtures" / f"{key_of(inputs)}.json"
    folder = cache_dir / "tokenizers" / key_of(inputs)
    with write_errors(note), lock_of(note):
        if not note.is_file() or (tokenizer is None and not folder.is_dir()):
            parts = {name: one.document_parts() for name, one in sources.items()}
            overlaps = _overlaps(parts)
            if tokenizer is None:
                every = [(parts[name][TRAIN], digests) for name, digests in overlaps.items()]
                train_parts = [replace(one, mask=one.mask & ~among(one.digests, out)) for one, out in every]
                keep_tokenizer(folder, lambda: train_on(train_parts, settings))
            write_json(note, {name: digests.tolist() for name, digests in overlaps.items()})
        content = json.loads(note.read_bytes())
    for name, one in sources.items():
        one.exclusions = np.array(content[name], np.uint64)
    return tokenizer or str(folder)


def _overlaps(parts: Mapping[str, Mapping[str, Part]]) -> dict[str, NDArray[np.uint64]]:
    """Returns for each source the ascending digests of training documents that another source holds out."""
    sets = [part for of_source in parts.values() for name, part in of_source.items() if name != TRAIN]
    digests_of_sets = [part.digests[part.mask] for part in sets]
    validation_digests = np.unique(np.concatenate([np.empty(0, np.uint64), *digests_of_sets]))
    overlaps = {}
    for name, of_source in parts.items():
        training = of_source[TRAIN]
        digests = training.digests[training.mask]
        overlaps[name] = np.unique(digests[among(digests, validation_digests)])
        if len(digests) and among(digests, overlaps[name]).all():
            raise ValueError(
                f"data.mixture.{name}: every document of {training.source.describe()} is held out by another source: "
                "nothing to train on"
            )
    return overlaps


Stores = Mapping[str, TokenStore | ShardedStore]


class Shares(NamedTuple):
    """The weight, draws, tokens and samples of each source of a mixture.

    Example:
        >>> shares = Shares({"few": 1.0, "many": 1.0}, "samples", {"few": 2, "many": 6}, {"few": 40, "many": 60}, [1, 1])
        >>> shares.of_samples, shares.of_tokens
        ({'few': 0.5, 'many': 0.5}, {'few': 0.6666666666666666, 'many': 0.3333333333333333})
    """

    weights: dict[str, float]
    unit: str
    """What the weights are shares of: `tokens` or `samples`."""
    samples: dict[str, int]
    """Number of sequences of each source."""
    tokens: dict[str, int]
    """Number of tokens of each source."""
    parts: list[int]
    """Draws of each source in a period; see `runner.order.mixture`."""

    @property
    def of_weights(self) -> dict[str, float]:
        """Each weight, divided by the sum of all weights."""
        return _normalise(self.weights)

    @property
    def of_samples(self) -> dict[str, float]:
        """Each source's share of the draws."""
        return _normalise(dict(zip(self.weights, map(float, self.parts), strict=True)))

    @property
    def of_tokens(self) -> dict[str, float]:
        """Each source's share of the training tokens, from its draws and its mean sequence length."""
        draws = self.of_samples
        return _normalise({n: draws[n] * self.tokens[n] / self.samples[n] for n in draws})


def shares_of(weights: Mapping[str, float] | None, stores: Stores, unit: str, tau: float | None) -> Shares:
    """Returns stores' shares, from `weights` or, if None, from sizes to the power `tau`. ValueError if one is too small.

    If `unit` is `tokens`, the mean sequence length of a source converts its share of tokens to a share of draws.
    """
    samples = {name: len(store) for name, store in stores.items()}
    tokens = {name: store.num_tokens for name, store in stores.items()}
    sizes = tokens if unit == "tokens" else samples
    weight_of = {n: float(sizes[n]) ** (tau or 0) if weights is None else float(weights[n]) for n in stores}
    per_draw = {n: tokens[n] / samples[n] if unit == "tokens" else 1.0 for n in weight_of}
    try:
        parts = parts_of({n: weight / per_draw[n] for n, weight in weight_of.items()})
    except ValueError as error:
        raise ValueError(f"data.mixture: {error}") from None
    return Shares(weight_of, unit, samples, tokens, parts)


def _normalise(values: Mapping[str, float]) -> dict[str, float]:
    total = sum(values.values())
    return {name: value / total for name, value in values.items()}
