"""Group `data`: where samples come from, how they are tokenised and cut into micro-batches."""

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from iolaus.conf.data.common import Batching, Tokenizing
from iolaus.conf.data.tables import Tables
from iolaus.conf.registry import register
from iolaus.conf.values import AT_LEAST_0, NAMED, WHOLE_FROM_0, Bounds, Choice, setting


@dataclass
class PretrainingData(Tables, Tokenizing, Batching):
    """Text for pretraining: read, tokenised once into a memory-mapped store, served as global batches."""

    _target_: str = "runner.data.PretrainingData"
    source: Any = setting(MISSING, allowed=NAMED)
    """A file, folder, glob, hub name, or a list of them; with a split: `path@split`, `name:config@split`. Or a node with
    the `_target_` of a source."""
    validation: Any = setting(None, allowed=NAMED)
    """Validation sources by name; none holds out documents of the training source."""
    validation_documents: Any = setting(0.02, allowed=AT_LEAST_0)
    """How much to hold out when no validation source is given: a number of documents, or a share below 1."""
    text_column: str = "text"
    """Column of csv, json, parquet, arrow and hub data that holds the text."""
    split: str = "train"
    """Split of hub data, or of a saved data set with several, whose name says none."""
    text_unit: str = setting("paragraph", allowed=Choice(("paragraph", "line", "file")))
    """What one document is in txt and md files: `paragraph` (blank line between), `line` or `file`."""
    tokenizer: str | None = setting("${oc.select:model.name_or_path,null}", allowed=NAMED)
    """Name or folder of a Hugging Face tokenizer, that of the pretrained model if there is one; none trains one on the
    training documents."""
    max_length: int = setting(128, allowed=Bounds(3, whole=True))
    """Longest sequence in tokens, special tokens included."""
    long_documents: str = setting("sentences", allowed=Choice(("truncate", "sentences", "tokens")))
    """Documents over `max_length`: `truncate`, or split at `sentences` or `tokens`."""
    cache_dir: str = setting("${oc.env:IOLAUS_CACHE,'~/.cache/iolaus'}", execution=True)
    """Where tokenised data and trained tokenizers are kept between runs."""
    seed: int = 0
    """Chooses the held-out documents; runs of different `seed` are measured on the same ones."""
    layout: str = "auto"
    """`packed`: whole documents end to end in one row, none of which sees another; `padded`: one row each, padded to the
    longest of the micro-batch; `single`: a micro-batch for each; `auto`: the first of these that
    objective and architecture (which is tried) allow."""
    micro_batch_tokens: Any = 2048
    """Token budget of one micro-batch, padding included if there is any; none sets no bound."""
    micro_batch_size: Any = None
    """Most documents of one micro-batch; none sets no bound."""
    streaming: bool = False
    """Tokenises documents as they come, instead of all into the cache first; takes `tokenizer` and `max_steps`."""
    shuffle_buffer_size: int = setting(10_000, allowed=WHOLE_FROM_0)
    """Documents of a stream that are held back to be drawn from; `sampler=sequential` holds back none."""


@dataclass
class StdlibText(PretrainingData):
    """The English documentation that ships with Python: nothing to download."""

    source: Any = field(default_factory=lambda: {"_target_": "runner.data.demo.StdlibText"})


@dataclass
class Files(PretrainingData):
    """Files of your own: `data=files data.source=books/*.txt`."""


@dataclass
class Hub(PretrainingData):
    """A data set of the Hugging Face hub: `data=hub data.source=wikitext`."""

    text_unit: str = "line"


register("data", stdlib_text=StdlibText, files=Files, hub=Hub)
