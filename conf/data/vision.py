"""Group `data`, images and text: conversations, captions and questions about images."""

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from iolaus.conf.data.common import Batching, ImagesAndText
from iolaus.conf.data.tables import Tables
from iolaus.conf.registry import register
from iolaus.conf.values import AT_LEAST_0, NAMED, WHOLE_FROM_0, Bounds, setting


@dataclass
class ImageText(Tables, ImagesAndText, Batching):
    """Conversations about images: `data=image_text data.train=train.jsonl data.images=folder`.

    Rows have `image` (a path, several, or none) and either `conversations` (LLaVA's), `caption`, or `question` and
    `answer`.
    """

    _target_: str = "runner.data.ImageTextDataModule"
    train: Any = setting(MISSING, allowed=NAMED)
    """A file, folder, glob, hub name, or a list of them; with a split: `path@split`, `name:config@split`."""
    validation: Any = setting(None, allowed=NAMED)
    """Validation rows, like `train`; or several sets by name: `{easy: a.jsonl, hard: b.jsonl}`."""
    validation_documents: Any = setting(0.1, allowed=AT_LEAST_0)
    """How much of `train` to hold out where no validation set is given: a number of images, or a share below 1."""
    test: Any = setting(None, allowed=NAMED)
    """Rows for a last test with the best weights, like `validation`."""
    images: Any = setting(None, allowed=NAMED)
    """The folder that image paths start from and stay in; none takes that of the file which names them."""
    columns: Any = None
    """Other names of the columns `id`, `image`, `conversations`, `caption`, `question`, `answer`, `kind`:
    `{question: statement, answer: label}`. `kind` is a question's type, to measure each apart."""
    max_length: int = setting(512, allowed=Bounds(8, whole=True))
    max_undecodable: int = setting(0, allowed=WHOLE_FROM_0)
    """Samples whose images may be broken; they are named, and count for nothing. More end the run."""
    seed: int = 0
    """Chooses the held-out images; runs of different `seed` are measured on the same ones."""
    micro_batch_tokens: Any = 2048
    """Token budget of one micro-batch, places for images and padding included; none sets no bound."""
    micro_batch_size: Any = None
    """Most samples of one micro-batch; none sets no bound."""
    num_workers: int = 1
    """Loader processes per rank, which decode the images; 0 loads in the training process."""


def _scenes(part: str, size: int) -> dict[str, Any]:
    return {"_target_": "runner.data.demo.Scenes", "part": part, "size": size}


@dataclass
class Shapes(ImageText):
    """Drawn scenes of coloured shapes with captions and questions, a third of them text alone: nothing to download."""

    train: Any = field(default_factory=lambda: _scenes("train", 9000))
    """Scenes, and what is said and asked about them."""
    validation: Any = field(default_factory=lambda: _scenes("validation", 450))
    """Other scenes."""
    test: Any = field(default_factory=lambda: _scenes("test", 900))
    """Yet others."""
    max_length: int = 128
    """Longest sample in tokens, places for images included."""


register("data", image_text=ImageText, shapes=Shapes)
