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
    """Format of the files; `auto`: by the file endings. txt and md have documents, fasta sequences, and conll, conllu and
    squad labelled rows."""
    delimiter: str | None = None
    """Separator of fields. None: a tab in tsv files; in csv files `,` `;` `|` or tab, whichever cuts most rows alike."""
    encoding: Any = None
    """Encoding of text files, such as `latin-1`, or a list of encodings: each file is read in the first one that fits.
    None: UTF-8, and for csv and tsv files also UTF-16 with a byte order mark."""
    quoting: bool | None = None
    """Whether double quotes enclose fields; none takes true in csv files, and detects it in tsv files."""
    header: Any = None
    """Column names of csv and tsv files that have no header line; none: the first line has the column names."""


def demonstration(target: str) -> Callable[[Option], Option]:
    """Returns a decorator that makes a dataclass: `train`, `validation`, `test` are parts of `runner.data.demo.TARGET`.

    Example:
        >>> @demonstration("stdlib_pairs.StdlibRetrieval")
        ... class Shown:
        ...     max_length: int = 64
        >>> Shown().test
        {'_target_': 'runner.data.demo.stdlib_pairs.StdlibRetrieval', 'part': 'test'}
    """

    def decorate(option: Option) -> Option:
        for part in ("train", "validation", "test"):
            node = {"_target_": f"runner.data.demo.{target}", "part": part}
            setattr(option, part, setting(node))
            option.__annotations__[part] = Any
        dataclass(option)
        return option

    return decorate


@dataclass
class Tokenizing:
    """Settings of the tokenizer that is trained if `tokenizer` names none."""

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
    micro-batch per sample; `auto`: the first of these that the objective supports and a trial of the model passes."""
    micro_batch_tokens: Any = setting(
        "${oc.select:trainer.recommends.micro_batch_tokens,auto}",
        allowed=COUNT._replace(word="auto"),
        execution=True,
    )
    """Token budget of one micro-batch, padding and image tokens included; none: no limit. `auto`: 4096 on a CPU; on a GPU
    a short trial finds a budget that fits into memory."""
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
    """Training samples that get weight 0 while nothing else changes: their numbers (`index` of `tiryns order`), a file of
    numbers, a file that `tiryns order RUN --find TEXT --json` has written, a text that they contain, a file of
    documents that they contain, or `source:NAME` of a mixture."""
    substitute: bool = False
    """Whether each sample in `without` is replaced by the next remaining sample of the same source."""


@check_of(LeavingOut, "without", "substitute")
def _check_left_out(data: Settings, config: Settings) -> None:
    """Raises ValueError for `substitute` alone, and for `without` on a stream, because its samples have no numbers."""
    if data.get("without") is None:
        raise ValueError("data.substitute needs data.without: name the samples that others take the place of")
    if data.get("streaming"):
        raise ValueError(
            "data.without names samples by number, and those of a stream have none: set data.streaming=false"
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
    """Name or folder of a vision-language model with a processor; none: a new processor for the model."""
    processor_options: dict[str, Any] = setting({})
    """Changed settings of the image processor: `{do_image_splitting: false}`, or `{size: {longest_edge: 768}}`."""
    tokenizer: Any = setting(None, allowed=NAMED)
    """Name or folder of a language model's tokenizer for a model with random weights; none trains one."""
    architecture: Any = "${oc.select:model.architecture,null}"
    """Architecture of a new processor, if `processor` names none."""
    image_size: Any = "${oc.select:model.image_size,null}"
    """Height and width in pixels that a new processor resizes images to."""
    image_places: Any = "${oc.select:model.image_places,null}"
    """Number of tokens that an image takes in the text, for a new processor."""
    max_length: int = setting(512, allowed=Bounds(3, whole=True))
    """Longest sample in tokens, image tokens included."""
    too_long: str = setting("error", allowed=Choice(("error", "truncate", "skip")))
    """Longer samples: `error`, `truncate` (the end of the text is cut off, never an image), or `skip`."""
