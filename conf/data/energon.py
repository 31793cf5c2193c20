"""Group `data`, megatron-energon: conversations about images from tar shards, read as a stream."""

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from iolaus.conf.data.common import ImagesAndText
from iolaus.conf.registry import register
from iolaus.conf.values import COUNT, NAMED, WHOLE_FROM_0, Choice, setting


@dataclass
class Energon(ImagesAndText):
    """An energon data set: `data=energon data.path=FOLDER`; `iolaus prepare` makes one.

    Samples are captions, questions or conversations, as `data=image_text` has them. Their order is energon's own.
    """

    _target_: str = "runner.data.EnergonData"
    path: Any = setting(MISSING, allowed=NAMED)
    """The folder of a data set, or the yaml file of a blend of several (a metadataset)."""
    columns: Any = None
    """Other names of the columns of the samples' json: `id`, `image`, `conversations`, `caption`, `question`, `answer`,
    `kind`."""
    tokenizer_samples: int = 100_000
    """How many training samples, the first in the shards, a tokenizer is trained on."""
    max_bad_samples: int = 0
    """How many samples a rank may leave out because shard, json or image cannot be read; each is named in the log."""
    allow_dataset_code: bool = setting(False, runs_code=True)
    """Lets a data set run code of its own: `.nv-meta/sample_loader.py`, or what its `dataset.yaml` names."""
    shuffle_buffer_size: Any = 100
    """Samples of each loader process from which the next is drawn, beside the shuffling of shards; none reads on as it
    comes."""
    max_samples_per_sequence: Any = None
    """Most samples of a shard that are read in a row before another is read from; none sets no bound."""
    packing_buffer_size: Any = None
    """Samples from which rows of up to `row_length` tokens are filled, best-fit; `micro_batch_size` then counts rows.
    None takes samples as they come."""
    row_length: Any = None
    """Most tokens of such a row; none takes `max_length`."""
    train_options: dict[str, Any] = field(default_factory=dict)
    """Further arguments of energon's `get_train_dataset`: `{shuffle_over_epochs_multiplier: 2}`."""
    global_batch_size: Any = "${sampler.global_batch_size}"
    """Samples (rows, if packed) of one optimizer step, over all ranks: `micro_batch_size` x ranks x micro-batches."""
    micro_batch_size: int = setting(8, allowed=COUNT, execution=True)
    """Samples (rows, if packed) of one micro-batch."""
    num_workers: int = setting(1, allowed=WHOLE_FROM_0, execution=True)
    """Loader processes per rank; 0 loads in the training process."""
    num_val_workers: Any = setting(None, execution=True)
    """The same for validation; none takes `num_workers`."""
    layout: str = setting("auto", allowed=Choice(("auto", "packed", "padded")), execution=True)
    """`packed`: samples end to end in one row, none of which sees another; `padded`: one row each, padded to the longest
    of the micro-batch; `auto`: packed, unless the architecture (which is tried) cannot have it."""


register("data", energon=Energon)
