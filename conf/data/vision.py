"""Group `data`, images and text: conversations, captions and questions about images."""

from dataclasses import dataclass
from typing import Any

from omegaconf import MISSING

from tiryns.conf.data.common import Batching, ImagesAndText, LeavingOut, Tables
from tiryns.conf.data.labelled import check_demonstration
from tiryns.conf.registry import register
from tiryns.conf.values import AT_LEAST_0, COUNT, NAMED, WHOLE_FROM_0, Bounds, Choice, check_of, setting


@dataclass
class ImageText(LeavingOut, Tables, ImagesAndText, Batching):
    """Conversations about images: `data=image_text data.train=train.jsonl data.images=folder`.

    Rows have `image` (paths) and either `conversations` (LLaVA's), `caption`, or `question` and `answer`.
    """

    _target_: str = "runner.data.ImageTextDataModule"
    train: Any = setting(MISSING, allowed=NAMED)
    """A file, folder, glob, hub name, or a list of them; with a split: `path@split`, `name:config@split`."""
    validation: Any = setting(None, allowed=NAMED)
    """Validation rows, like `train`; or several sets by name: `{easy: a.jsonl, hard: b.jsonl}`."""
    validation_documents: Any = setting(0.1, allowed=AT_LEAST_0)
    """Held-out part of `train` where no validation set is given: a number of images, or a share below 1."""
    test: Any = setting(None, allowed=NAMED)
    """Rows to test the best weights on, like `validation`."""
    images: Any = setting(None, allowed=NAMED)
    """Folder of the images; paths must not lead out of it. None: the folder of the file that names the images."""
    max_length: int = setting(512, allowed=Bounds(8, whole=True))
    max_undecodable: int = setting(0, allowed=WHOLE_FROM_0)
    """Maximum number of samples with broken images; these samples are named and have weight 0 in the loss."""
    seed: int = 0
    """Seed of the choice of held-out images, which does not depend on the run's `seed`."""


check_of(ImageText, "validation", "test")(check_demonstration)


@dataclass
class Shapes(ImageText):
    """Drawn scenes of coloured shapes with captions and questions, a third of them text alone: nothing to download."""

    train: Any = setting({"_target_": "runner.data.demo.Scenes", "part": "train", "size": 9000})
    validation: Any = setting({"_target_": "runner.data.demo.Scenes", "part": "validation", "size": 450})
    test: Any = setting({"_target_": "runner.data.demo.Scenes", "part": "test", "size": 900})
    max_length: int = 128


register("data", image_text=ImageText, shapes=Shapes)


@dataclass
class Energon(ImagesAndText):
    """An energon data set, in its own order, with samples as in `data=image_text`: `data=energon data.path=FOLDER`."""

    _target_: str = "runner.data.EnergonData"
    path: Any = setting(MISSING, allowed=NAMED)
    """Folder of a data set, or yaml file of a blend of several (a metadataset); `tiryns prepare` makes a data set."""
    tokenizer_samples: int = 100_000
    """Number of training samples that a tokenizer is trained on; they are the first ones in the shards."""
    max_bad_samples: int = 0
    """Most samples that a rank may skip because shard, json or image cannot be read; each is named in the log."""
    allow_dataset_code: bool = setting(False, runs_code=True)
    """Allows a data set to run its own code: `.nv-meta/sample_loader.py`, or targets in its `dataset.yaml`."""
    shuffle_buffer_size: Any = 100
    """Samples in a loader process's shuffle buffer, after the shards are shuffled; none: no buffer."""
    max_samples_per_sequence: Any = None
    """Maximum number of consecutive samples from one shard; none: no limit."""
    packing_buffer_size: Any = None
    """Number of samples that are packed together, best-fit, into rows of up to `row_length` tokens; none: no packing."""
    row_length: Any = None
    """Maximum number of tokens in a packed row; none: `max_length`."""
    train_options: dict[str, Any] = setting({})
    """Further arguments of energon's `get_train_dataset`: `{shuffle_over_epochs_multiplier: 2}`."""
    global_batch_size: Any = "${sampler.global_batch_size}"
    """Samples (or packed rows) of one optimizer step, over all ranks: `micro_batch_size` x ranks x micro-batches."""
    micro_batch_size: int = setting(8, allowed=COUNT, execution=True)
    """Samples (or packed rows) of one micro-batch."""
    num_workers: int = setting(1, allowed=WHOLE_FROM_0, execution=True)
    """Loader processes per rank; 0 loads in the training process."""
    num_val_workers: Any = setting(None, execution=True)
    """Loader processes per rank for validation; none: `num_workers`."""
    layout: str = setting("auto", allowed=Choice(("auto", "packed", "padded")), execution=True)
    """`packed`: samples end to end in one row; `padded`: one row per sample; `auto`: packed if the model supports it."""


register("data", energon=Energon)
