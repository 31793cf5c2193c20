"""Fields that options of group `data` share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tiryns.conf.values import COUNT, NAMED, WHOLE_FROM_0, Bounds, Choice, Settings, check_of, setting

Option = TypeVar("Option", bound=type)

FORMATS = "auto csv tsv jsonl json parquet arrow txt md conll conllu squad fasta"


@dataclass
class Tables:
    """Format of the files."""

    format: str = setting("auto", allowed=Choice(tuple(FORMATS.split())))
    """Format of the files; `auto` goes by their endings. txt, md hold documents, fasta sequences; conll, conllu, squad
    labelled rows."""
    delimiter: str | None = None
    """Separator of fields; none takes a tab in tsv files, in csv files the `,` `;` `|` or tab that cuts rows alike."""
    encoding: Any = None
    """Encoding of text files, such as `latin-1`, or a list of which each file is read in the first that fits; none takes
    UTF-8, of csv and tsv files also UTF-16 with its mark."""
    quoting: bool | None = None
    """Whether double quotes enclose fields; none takes true in csv files, and detects it in tsv files."""
    header: Any = None
    """Names of the columns of csv and tsv files whose first line is a row like the others; none takes the first line."""


def demonstration(target: str) -> Callable[[Option], Option]:
    """Makes a dataclass of a class whose sets are the parts of a data set below `runner.data.demo`.

    Example:
        >>> @demonstration("stdlib_pairs.StdlibRetrieval")
        ... class Shown:
        ...     max_length: int = 64
        >>> Shown().test
        {'_target_': 'runner.data.demo.stdlib_pairs.StdlibRetrieval', 'part': 'test'}
    """

    def made(option: Option) -> Option:
        for part in ("train", "validation", "test"):
            node = {"_target_": f"runner.data.demo.{target}", "part": part}
            setattr(option, part, setting(node))
            option.__annotations__[part] = Any
        dataclass(option)
        return option

    return made


@dataclass
class Tokenizing:
    """Settings of the tokenizer that is trained where none is named."""

    tokenizer_kind: str = setting(
        "wordpiece", allowed=Choice(("wordpiece", "bpe", "characters"), prefix="characters:")
    )
    """Kind of tokenizer to train: `wordpiece`, `bpe`, or `characters`, a token for each. With an alphabet:
    `characters:protein` (the ids of ESM-2), `characters:dna`, `characters:rna`, or your own, `characters:01`."""
    vocab_size: int = setting(4096, allowed=Bounds(1, 10_000_000, whole=True))
    """Vocabulary size of a trained tokenizer, special tokens included."""
    lowercase: bool = True
    """Whether a trained tokenizer lower-cases."""


@dataclass
class Batching:
    """How a global batch is cut into micro-batches."""

    layout: str = setting("auto", allowed=Choice(("auto", "packed", "padded", "single")), execution=True)
    """`packed`: samples end to end in one row, without attention between them; `padded`: one row per sample; `single`: a
    micro-batch per sample; `auto`: the first of these that objective and architecture (which is tried) allow."""
    micro_batch_tokens: Any = setting(
        "${oc.select:trainer.recommends.micro_batch_tokens,auto}",
        allowed=COUNT._replace(word="auto"),
        execution=True,
    )
    """Token budget of one micro-batch, padding and places for images included; none sets no bound, and `auto` is 4096
    on a CPU, and on a GPU what a short trial finds room for."""
    micro_batch_size: Any = setting(None, allowed=COUNT, execution=True)
    """Most samples of one micro-batch; none sets no bound."""
    num_workers: int = setting(
        "${oc.select:trainer.recommends.num_workers,1}", allowed=WHOLE_FROM_0, execution=True
    )
    """Loader processes per rank; 0 loads in the training process."""


@dataclass
class LeavingOut:
    """Training samples that a run leaves out."""

    without: Any = None
    """Training samples to leave out, all else unchanged: numbers (`index` of `tiryns order`), a file of them or one that
    `tiryns order RUN --find TEXT --json` writes, a text or a file of documents in the samples, or `source:NAME` of a
    mixture. These samples get weight 0."""
    substitute: bool = False
    """Whether the next sample of the same source takes the place of each one in `without`."""


@check_of(LeavingOut, "without", "substitute")
def _check_left_out(data: Settings, config: Settings) -> None:
    """Raises ValueError where nothing is left out, or samples have no numbers."""
    if data.get("without") is None:
        raise ValueError("data.substitute=true: name the samples that others take the place of, data.without")
    if data.get("streaming"):
        raise ValueError(
            "data.without names samples by number, and those of a stream have none: data.streaming=false"
        )


@dataclass
class ImagesAndText(Tokenizing):
    """Conversations about images, and their processor."""

    columns: Any = None
    """Other names of the columns `id`, `image`, `conversations`, `caption`, `question`, `answer`, `kind` (the type of a
    question, to measure each type alone): `{question: statement, answer: label}`."""
    caption_prompt: str = "describe the image."
    """Question that a caption answers."""
    processor: Any = setting("${oc.select:model.name_or_path,null}", allowed=NAMED)
    """Name or folder of a vision-language model with a processor; none makes one for the model."""
    processor_options: dict[str, Any] = setting({})
    """Other settings of its image processor: `{do_image_splitting: false}`, or `{size: {longest_edge: 768}}`."""
    tokenizer: Any = setting(None, allowed=NAMED)
    """Name or folder of a language model's tokenizer for a model with random weights; none trains one."""
    architecture: Any = "${oc.select:model.architecture,null}"
    """Architecture to make a processor for where none is named."""
    image_size: Any = "${oc.select:model.image_size,null}"
    """Height and width in pixels that such a processor resizes images to."""
    image_places: Any = "${oc.select:model.image_places,null}"
    """Tokens of an image in the text."""
    max_length: int = setting(512, allowed=Bounds(3, whole=True))
    """Longest sample in tokens, those of images included."""
    too_long: str = setting("error", allowed=Choice(("error", "truncate", "skip")))
    """Longer samples: `error`, `truncate` (the end of the text is cut off, never an image), or `skip`."""
