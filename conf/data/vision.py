"""Group `data`, images and text: conversations, captions and questions about images."""

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from iolaus.conf.data.tables import Tables
from iolaus.conf.registry import register
from iolaus.conf.values import AT_LEAST_0, COUNT, NAMED, WHOLE_FROM_0, Bounds, Choice, setting


@dataclass
class ImageText(Tables):
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
    caption_prompt: str = "describe the image."
    """What is asked for a caption."""
    processor: Any = setting("${oc.select:model.name_or_path,null}", allowed=NAMED)
    """Name or folder of a vision-language model whose tokenizer and image processor to use; where the model has no name
    they are made for it."""
    processor_options: dict[str, Any] = field(default_factory=dict)
    """Other settings of its image processor: `{do_image_splitting: false}`, or `{size: {longest_edge: 768}}`."""
    tokenizer: Any = setting(None, allowed=NAMED)
    """Name or folder of a language model's tokenizer for a model with random weights; none trains one."""
    tokenizer_kind: str = setting("wordpiece", allowed=Choice(("wordpiece", "bpe")))
    """Kind of tokenizer to train: `wordpiece` or `bpe`."""
    vocab_size: int = setting(4096, allowed=COUNT)
    """Size of the vocabulary to train, special tokens included."""
    lowercase: bool = True
    """Whether a trained tokenizer lower-cases."""
    architecture: Any = "${oc.select:model.architecture,null}"
    """Which architecture to make a processor for where none is named."""
    image_size: Any = "${oc.select:model.image_size,null}"
    """Height and width in pixels that such a processor brings images to."""
    image_places: Any = "${oc.select:model.image_places,null}"
    """Tokens that an image takes in the text."""
    max_length: int = setting(512, allowed=Bounds(8, whole=True))
    """Longest sample in tokens, places for images included."""
    too_long: str = setting("error", allowed=Choice(("error", "truncate", "skip")))
    """What becomes of longer ones: `error`, `truncate` (their ends are cut off, never images), or `skip` (left out)."""
    max_undecodable: int = setting(0, allowed=WHOLE_FROM_0)
    """Samples whose images may be broken; they are named, and count for nothing. More end the run."""
    seed: int = 0
    """Chooses the held-out images; runs of different `seed` are measured on the same ones."""
    layout: str = setting("auto", allowed=Choice(("auto", "packed", "padded", "single")), execution=True)
    """`packed`: samples end to end in one row, none of which sees another; `padded`: one row each, padded to the longest
    of the micro-batch; `single`: a micro-batch for each; `auto`: the first of these that
    objective and architecture (which is tried) allow."""
    micro_batch_tokens: Any = setting(2048, allowed=COUNT, execution=True)
    """Token budget of one micro-batch, places for images and padding included; none sets no bound."""
    micro_batch_size: Any = setting(None, allowed=COUNT, execution=True)
    """Most samples of one micro-batch; none sets no bound."""
    num_workers: int = setting(1, allowed=WHOLE_FROM_0, execution=True)
    """Loader processes per rank, which decode the images; 0 loads in the training process."""


def _scenes(part: str, size: int) -> dict[str, Any]:
    return {"_target_": "runner.data.demo.scenes.Scenes", "part": part, "size": size}


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
