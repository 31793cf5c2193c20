"""Group `data`, images and text: conversations, captions and questions about images."""

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from tiryns.conf.data.common import Batching, ImagesAndText, Tables
from tiryns.conf.data.labelled import check_demonstration
from tiryns.conf.registry import register
from tiryns.conf.values import AT_LEAST_0, NAMED, WHOLE_FROM_0, Bounds, check_of, setting


@dataclass
class ImageText(Tables, ImagesAndText, Batching):
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
    """Folder of the images, which no path leaves; none takes that of the file which names them."""
    max_length: int = setting(512, allowed=Bounds(8, whole=True))
    max_undecodable: int = setting(0, allowed=WHOLE_FROM_0)
    """Most samples with broken images, which are named and have no weight in the loss."""
    seed: int = 0
    """Seed of the choice of held-out images, which does not depend on the run's `seed`."""


check_of(ImageText, "validation", "test")(check_demonstration)


def _scenes(part: str, size: int) -> dict[str, Any]:
    return {"_target_": "runner.data.demo.Scenes", "part": part, "size": size}


@dataclass
class Shapes(ImageText):
    """Drawn scenes of coloured shapes with captions and questions, a third of them text alone: nothing to download."""

    train: Any = field(default_factory=lambda: _scenes("train", 9000))
    validation: Any = field(default_factory=lambda: _scenes("validation", 450))
    test: Any = field(default_factory=lambda: _scenes("test", 900))
    max_length: int = 128


register("data", image_text=ImageText, shapes=Shapes)
