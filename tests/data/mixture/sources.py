"""Two texts as the sources of a mixture, and its data module without a run around it."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.objectives.samples import collator
from tiryns.conf.data.pretraining import Mixture
from tiryns.runner.data.mixture.module import MixtureData
from tiryns.runner.samplers import Shuffled

VERSES = ["the", "river", "runs", "under", "an", "old", "bridge", "while", "seven", "herons", "watch"]
CODE = ["def", "class", "return", "yield", "while", "lambda", "import", "from", "self", "none"]


def write_documents(path: Path, words: list[str], num: int, longest: int, seed: int) -> Path:
    draw = np.random.default_rng(seed)
    texts = [" ".join(draw.choice(words, draw.integers(2, longest))) + f" {n}." for n in range(num)]
    path.write_text("\n\n".join(texts))
    return path


def texts(folder: Path) -> dict[str, Path]:
    """Long documents and short ones, of other words."""
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "verses": write_documents(folder / "verses.txt", VERSES, 90, 40, seed=0),
        "code": write_documents(folder / "code.txt", CODE, 150, 8, seed=1),
    }


def mixture(cache: Path, sources: dict[str, Any], **settings: Any) -> MixtureData:
    given: dict[str, Any] = {"tokenizer": None, "max_length": 24, "vocab_size": 120, "cache_dir": str(cache)}
    given |= {"num_workers": 0, "layout": "padded", "validation_documents": 8, "mixture": sources}
    fields = {
        name: field.default for name, field in Mixture.__dataclass_fields__.items() if name != "_target_"
    }
    data = MixtureData(**fields | given | settings)
    data.prepare_data()
    return data


def connected(data: MixtureData, steps: int = 50, size: int = 16, **settings: Any) -> MixtureData:
    make = partial(Shuffled, global_batch_size=size, seed=1)
    data.connect(make, collator("mlm"), steps, None, **{"seed": 1, "accept_changes": False} | settings)
    return data


def weighted(paths: dict[str, Path], *weights: float) -> dict[str, Any]:
    pairs = zip(paths.items(), weights, strict=True)
    return {name: {"source": str(path), "weight": weight} for (name, path), weight in pairs}
