"""Group `data`, pretraining: text, tokenised once into a cache or as a stream."""

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from tiryns.conf.data.common import Batching, Tables, Tokenizing
from tiryns.conf.registry import register
from tiryns.conf.values import AT_LEAST_0, NAMED, WHOLE_FROM_0, Bounds, Choice, setting


@dataclass
class PretrainingData(Tables, Tokenizing, Batching):
    """Text for pretraining, tokenised once into a memory-mapped store."""

    _target_: str = "runner.data.PretrainingData"
    source: Any = setting(MISSING, allowed=NAMED)
    """A file, folder, glob, hub name, or a list of them; with a split: `path@split`, `name:config@split`. Or
    `store:FOLDER` of `tiryns prepare corpus`, or a node with the `_target_` of a source."""
    validation: Any = setting(None, allowed=NAMED)
    """Validation sources by name; none holds out documents of the training source."""
    validation_documents: Any = setting(0.02, allowed=AT_LEAST_0)
    """Held-out part where no validation source is given: a number of documents, or a share below 1."""
    text_column: str = "text"
    """Column of the text in csv, json, parquet, arrow and hub data."""
    split: str = "train"
    """Split of hub data, or of a saved data set with several splits, where the name says none."""
    text_unit: str = setting("paragraph", allowed=Choice(("paragraph", "line", "file")))
    """One document of txt and md files: a `paragraph` (between blank lines), a `line` or a `file`."""
    tokenizer: str | None = setting("${oc.select:model.name_or_path,null}", allowed=NAMED)
    """Name or folder of a tokenizer; none, for a model without a name, trains one on the training documents."""
    max_length: int = setting(128, allowed=Bounds(3, whole=True))
    """Longest sequence in tokens, special tokens included."""
    length_warmup_from: int | None = setting(None, allowed=Bounds(3, whole=True))
    """Tokens of the longest sequence of the first step, from which they grow to `max_length`; longer ones are cut."""
    length_warmup_steps: Any = setting(0, allowed=AT_LEAST_0)
    """Length of that warm-up: steps (int), or a fraction of the run's steps (float between 0 and 1)."""
    long_documents: str = setting("sentences", allowed=Choice(("truncate", "sentences", "tokens")))
    """Documents over `max_length`: `truncate`, or split at `sentences` or `tokens`."""
    cache_dir: str = setting("${oc.env:TIRYNS_CACHE,'~/.cache/tiryns'}", execution=True)
    """Folder of tokenised data and trained tokenizers, which later runs use again."""
    seed: int = 0
    """Seed of the choice of held-out documents, which does not depend on the run's `seed`."""
    streaming: bool = False
    """Tokenises documents during training, not into the cache first; needs `tokenizer` and `max_steps`."""
    shuffle_buffer_size: int = setting(10_000, allowed=WHOLE_FROM_0)
    """Documents of a stream from which the next is drawn; `sampler=sequential` draws none."""


@dataclass
class StdlibText(PretrainingData):
    """The English documentation that ships with Python: nothing to download."""

    source: Any = field(default_factory=lambda: {"_target_": "runner.data.demo.StdlibText"})


@dataclass
class StdlibCode(PretrainingData):
    """The functions of Python's standard library: nothing to download."""

    source: Any = field(default_factory=lambda: {"_target_": "runner.data.demo.StdlibCode"})


@dataclass
class Proteins(PretrainingData):
    """Variable regions of antibodies and T-cell receptors: nothing to download but `tiryns[sequences]`."""

    source: Any = field(default_factory=lambda: {"_target_": "runner.data.demo.Proteins"})
    tokenizer_kind: str = "characters:protein"
    vocab_size: int = 33
    lowercase: bool = False


@dataclass
class Files(PretrainingData):
    """Files of your own: `data=files data.source=books/*.txt`."""


@dataclass
class Hub(PretrainingData):
    """A data set of the Hugging Face hub: `data=hub data.source=wikitext`."""

    text_unit: str = "line"


register("data", stdlib_text=StdlibText, stdlib_code=StdlibCode, proteins=Proteins, files=Files, hub=Hub)
