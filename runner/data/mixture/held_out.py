"""What the sources of a mixture decide together: their tokenizer, and the texts that none of them trains on.

A text that one source holds out may stand in another one too. So all sources are read once before any is tokenised, and
what is found is noted in the cache, beside the stores that each source then makes of its own.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiryns.conf.data.pretraining import Mixture
from tiryns.runner.data.store.cached import key_of, locked, write_errors, write_json
from tiryns.runner.data.text import tokenizer as text_tokenizer
from tiryns.runner.data.text.holdout import TRAIN, Part, among
from tiryns.runner.data.text.prepare import keep_tokenizer, text_inputs, train_on
from tiryns.runner.data.text.pretraining import PretrainingData

VERSION = 1
"""Raised when the same sources would give another tokenizer, or other texts to leave out."""


def decide_together(sources: Mapping[str, PretrainingData], settings: Mixture, tokenizer: str | None) -> str:
    """Tells sources that are not prepared yet which texts to leave out; returns the name or folder of the tokenizer.

    Without a tokenizer one is trained on the training documents of all of them.
    """
    cache_dir = Path(settings.cache_dir).expanduser()
    inputs: dict[str, Any] = {"version": VERSION, "texts": []}
    for name, one in sources.items():
        given = (one.validation_sources, one.settings.validation_documents, tokenizer, one.settings.seed)
        inputs["texts"].append([name, text_inputs(one.source, *given)])
    training: dict[str, Any] = {
        "kind": settings.tokenizer_kind,
        "vocab_size": settings.vocab_size,
        "lowercase": settings.lowercase,
    }
    if tokenizer is None:
        text_tokenizer.check_tokenizer_settings(settings.tokenizer_kind, settings.vocab_size)
        inputs |= {"tokenizer": training, "tokenizer_version": text_tokenizer.VERSION}
    note = cache_dir / "mixtures" / f"{key_of(inputs)}.json"
    folder = cache_dir / "tokenizers" / key_of(inputs)
    with write_errors(note, None), locked(note):
        if not note.is_file() or (tokenizer is None and not folder.is_dir()):
            parts = {name: one.divided() for name, one in sources.items()}
            left_out = _held_out_elsewhere(parts)
            if tokenizer is None:
                every = [(parts[name][TRAIN], digests) for name, digests in left_out.items()]
                trained = [replace(one, kept=one.kept & ~among(one.digests, out)) for one, out in every]
                keep_tokenizer(folder, lambda: train_on(trained, **training))
            write_json(note, {name: digests.tolist() for name, digests in left_out.items()})
        known = json.loads(note.read_bytes())
    for name, one in sources.items():
        one.left_out = np.array(known[name], np.uint64)
    return tokenizer or str(folder)


def _held_out_elsewhere(parts: Mapping[str, Mapping[str, Part]]) -> dict[str, NDArray[np.uint64]]:
    """Digests, ascending, of the training documents of each source that are in a validation set of another one."""
    sets = [part for of_source in parts.values() for name, part in of_source.items() if name != TRAIN]
    held_out = np.unique(
        np.concatenate([np.empty(0, np.uint64), *(part.digests[part.kept] for part in sets)])
    )
    found = {}
    for name, of_source in parts.items():
        training = of_source[TRAIN]
        digests = training.digests[training.kept]
        found[name] = np.unique(digests[among(digests, held_out)])
        if len(digests) and among(digests, found[name]).all():
            raise ValueError(
                f"data.mixture.{name}: every document of {training.source.describe()} is held out by another source: "
                "nothing to train on"
            )
    return found
