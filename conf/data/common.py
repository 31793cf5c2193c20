"""What options of group `data` share: each such field is declared and documented here, once."""

from dataclasses import dataclass, field
from typing import Any

from iolaus.conf.values import COUNT, NAMED, WHOLE_FROM_0, Bounds, Choice, setting


@dataclass
class Tokenizing:
    """The tokenizer that is trained where none is named."""

    tokenizer_kind: str = setting("wordpiece", allowed=Choice(("wordpiece", "bpe")))
    """Kind of tokenizer to train: `wordpiece` or `bpe`."""
    vocab_size: int = setting(4096, allowed=COUNT)
    """Size of the vocabulary to train, special tokens included."""
    lowercase: bool = True
    """Whether a trained tokenizer lower-cases."""


@dataclass
class Batching:
    """How a global batch of samples that are known by their numbers is cut into micro-batches."""

    layout: str = setting("auto", allowed=Choice(("auto", "packed", "padded", "single")), execution=True)
    """`packed`: samples end to end in one row, none of which sees another; `padded`: one row each, padded to the longest
    of the micro-batch; `single`: a micro-batch for each; `auto`: the first of these that
    objective and architecture (which is tried) allow."""
    micro_batch_tokens: Any = setting(2048, allowed=COUNT, execution=True)
    """Token budget of one micro-batch, padding included; none sets no bound."""
    micro_batch_size: Any = setting(None, allowed=COUNT, execution=True)
    """Most rows of one micro-batch; none sets no bound."""
    num_workers: int = setting(1, allowed=WHOLE_FROM_0, execution=True)
    """Loader processes per rank; 0 loads in the training process."""


@dataclass
class ImagesAndText(Tokenizing):
    """Conversations about images, and the processor that makes tokens and pixels of them."""

    columns: Any = None
    """Other names of the columns of a sample."""
    caption_prompt: str = "describe the image."
    """What is asked for a caption."""
    processor: Any = setting("${oc.select:model.name_or_path,null}", allowed=NAMED)
    """Name or folder of a vision-language model whose tokenizer and image processor to use; where the model has no name
    they are made for it."""
    processor_options: dict[str, Any] = field(default_factory=dict)
    """Other settings of its image processor: `{do_image_splitting: false}`, or `{size: {longest_edge: 768}}`."""
    tokenizer: Any = setting(None, allowed=NAMED)
    """Name or folder of a language model's tokenizer for a model with random weights; none trains one."""
    architecture: Any = "${oc.select:model.architecture,null}"
    """Which architecture to make a processor for where none is named."""
    image_size: Any = "${oc.select:model.image_size,null}"
    """Height and width in pixels that such a processor brings images to."""
    image_places: Any = "${oc.select:model.image_places,null}"
    """Tokens that an image takes in the text."""
    max_length: int = setting(512, allowed=Bounds(3, whole=True))
    """Longest sample in tokens, places for images included."""
    too_long: str = setting("error", allowed=Choice(("error", "truncate", "skip")))
    """What becomes of longer ones: `error`, `truncate` (their ends are cut off, never images), or `skip` (left out)."""
