"""Group `data`: where samples come from, how they are tokenised and cut into micro-batches."""

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from .registry import register


@dataclass
class PretrainingData:
    """Text for pretraining: read, tokenised once into a memory-mapped store, served as global batches."""

    _target_: str = "runner.data.PretrainingDataModule"
    source: Any = MISSING
    """A file, folder, glob, hub name, or a list of them; or a node with the `_target_` of a source."""
    validation: Any = None
    """Validation sources by name; none holds out documents of the training source."""
    validation_documents: Any = 0.02
    """How much to hold out when no validation source is given: a number of documents, or a share below 1."""
    text_column: str = "text"
    """Column of csv, json, parquet, arrow and hub data that holds the text."""
    split: str = "train"
    """Split of hub data or of a saved dataset with several."""
    text_unit: str = "paragraph"
    """What one document is in txt and md files: `paragraph` (blank line between), `line` or `file`."""
    tokenizer: str | None = None
    """Name or folder of a Hugging Face tokenizer; none trains one on the training documents."""
    tokenizer_kind: str = "wordpiece"
    """Kind of tokenizer to train: `wordpiece` or `bpe`."""
    vocab_size: int = 4096
    """Size of the vocabulary to train, special tokens included."""
    lowercase: bool = True
    """Whether a trained tokenizer lower-cases."""
    max_length: int = 128
    """Longest sequence in tokens, special tokens included."""
    long_documents: str = "sentences"
    """Documents over `max_length`: `truncate`, or split at `sentences` or `tokens`."""
    cache_dir: str = "${oc.env:IOLAUS_CACHE,'~/.cache/iolaus'}"
    """Where tokenised data and trained tokenizers are kept between runs."""
    seed: int = 0
    """Chooses the held-out documents; runs of different `seed` are measured on the same ones."""
    layout: str = "auto"
    """`packed`: whole documents end to end in one row, none of which sees another; `padded`: one row each, padded to the
    longest of the micro-batch; `single`: a micro-batch for each; `auto`: the first of these that objective and architecture
    (which is tried) allow."""
    micro_batch_tokens: Any = 2048
    """Token budget of one micro-batch, padding included if there is any; none sets no bound."""
    micro_batch_size: Any = None
    """Most documents of one micro-batch; none sets no bound."""
    num_workers: int = 1
    """Loader processes per rank; 0 loads in the training process."""


@dataclass
class StdlibText(PretrainingData):
    """The English documentation that ships with Python: nothing to download."""

    source: Any = field(default_factory=lambda: {"_target_": "runner.data.stdlib_text.StdlibText"})


@dataclass
class Files(PretrainingData):
    """Files of your own: `data=files data.source=books/*.txt`."""


@dataclass
class Hub(PretrainingData):
    """A data set of the Hugging Face hub: `data=hub data.source=wikitext`."""

    text_unit: str = "line"


register("data", stdlib_text=StdlibText, files=Files, hub=Hub)

from . import data_energon, data_tasks, data_vision  # noqa: E402, F401  the labelled data
