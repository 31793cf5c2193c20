"""Conversations about images for vision-language models: from rows and a folder of images, served as global batches."""

import logging
from pathlib import Path
from typing import Any, NamedTuple

from tiryns.conf.data import vision as options
from tiryns.conf.data.common import ImagesAndText
from tiryns.runner.config.settings import takes_settings
from tiryns.runner.data.evaluated import EvaluatedDataModule, by_name
from tiryns.runner.data.micro_batch import CollatorArguments
from tiryns.runner.data.read.files import locate
from tiryns.runner.data.read.formats import ROWS
from tiryns.runner.data.read.opened import Reading, reading_of
from tiryns.runner.data.read.rows import read_rows
from tiryns.runner.data.text.holdout import hold_out
from tiryns.runner.data.vision.conversation_encoder import ConversationEncoder
from tiryns.runner.data.vision.conversation_sequences import ConversationSequences, encode_conversations
from tiryns.runner.data.vision.conversations import Conversation, ConversationReader
from tiryns.runner.data.vision.images import ImageFolder, SizedImages
from tiryns.runner.data.vision.processors import VisionProcessor, conversation_texts, find_processor

log = logging.getLogger("tiryns")


class ConversationData:
    """The parts that data modules of conversations share; a subclass finds `vision` in `prepare_data`."""

    task_name = "vision_language"
    settings: ImagesAndText
    read_row: ConversationReader
    vision: VisionProcessor

    @property
    def preprocessor(self) -> Any:
        """The processor of texts and images, which is exported with a model."""
        return self.vision.processor

    def make_encoder(self) -> ConversationEncoder:
        """The encoder of the model's processor."""
        return self.vision.encoder(self.settings.max_length, self.settings.too_long)

    def collator_arguments(self) -> CollatorArguments:
        """Arguments of the objective's collator."""
        return self.make_encoder().collator_arguments(self.read_row)

    def known_task(self) -> dict[str, Any]:
        """Settings saved beside an exported model, for predictions."""
        reading = {"columns": self.read_row.columns, "caption_prompt": self.read_row.caption_prompt}
        return {
            "data": {**reading, "max_length": self.settings.max_length, "too_long": self.settings.too_long}
        }

    def baselines(self) -> dict[str, float]:
        """None: the metrics hold the baseline."""
        return {}


class ImageTextDataModule(ConversationData, EvaluatedDataModule):
    """Training, validation and test conversations, tokenised in memory; their images are decoded in the loader.

    A source made in code may bring its own `read`, `check` and `size_of` (`runner.data.vision.images.SizedImages`), as
    `runner.data.demo.scenes.Scenes` does. Example: `tiryns experiment=vlm_shapes`
    """

    settings: options.ImageText

    @takes_settings(options.ImageText)
    def __init__(self, settings: options.ImageText) -> None:
        super().__init__(settings)
        self.settings = settings
        self.read_row = ConversationReader(settings.columns, settings.caption_prompt)
        self.reading = reading_of(settings)

    def prepare_data(self) -> None:
        """Reads and tokenises everything once; raises ValueError or FileNotFoundError for what cannot be used."""
        if self.prepared:
            return
        given = self.settings
        if given.train is None:
            raise ValueError(
                "data.train names no training data: give a jsonl file of conversations about images"
            )
        sets = {"train": self._read("train", given.train)}
        for part in ("validation", "test"):
            named = by_name(self.sources[part], part)
            sets |= {f"{part}/{name}": self._read(part, source) for name, source in named.items()}
        train, images, self.description = sets["train"]
        if given.validation is None and given.validation_documents:
            keys = [conversation.image_key() for conversation in train]
            train, held_out = hold_out(train, keys, given.validation_documents, given.seed)
            sets["train"] = FoundConversations(train, images, self.description)
            sets["validation/validation"] = FoundConversations(held_out, images, self.description)
        self.vision = find_processor(given, texts=lambda: conversation_texts(train))
        self._encoder = self.make_encoder()
        encoded = {
            name: encode_conversations(*found[:2], self._encoder, given.max_undecodable, f"data.{name}")
            for name, found in sets.items()
        }
        self.train_set = self.train = encoded.pop("train")
        self.validation, self.test = (
            {n.partition("/")[2]: one for n, one in encoded.items() if n.startswith(f"{part}/")}
            for part in ("validation", "test")
        )
        self.prepared = True

    @property
    def tokenizer(self) -> Any:
        """The processor's tokenizer."""
        assert self.prepared, "prepare_data comes first"
        return self.vision.tokenizer

    def fingerprint(self) -> str:
        """A hash of the training samples."""
        return str(self.train_set.fingerprint)

    def counts(self, sequences: ConversationSequences) -> str:
        """The numbers of samples, of those with images, and of tokens."""
        shown = int((sequences.image_counts > 0).sum())
        return f"{len(sequences):,} samples, {shown:,} with images, {sequences.num_tokens:,} tokens"

    def facts(self) -> dict[str, str]:
        """The tokens of an image, and the vocabulary."""
        return {"images": self._encoder.images.describe(), "vocabulary": f"{len(self.tokenizer):,} tokens"}

    def _read(self, part: str, source: Any) -> "FoundConversations":
        return read_conversations(
            source, self.reading, part, f"data.{part}", self.read_row, self.settings.images
        )


class FoundConversations(NamedTuple):
    """The conversations of a source, their images, and the source in words."""

    conversations: list[Conversation]
    images: SizedImages
    description: str


def read_conversations(
    source: Any, reading: Reading, part: str, setting: str, reader: ConversationReader, folder: Any
) -> FoundConversations:
    """The conversations of a source, whose images lie below `folder`, or below that of its file where it is None.

    Raises ValueError or FileNotFoundError, which name the `setting`, for a source or a row that cannot be used.
    """
    rows = read_rows(source, reading, part, setting)
    if not folder and not hasattr(source, "read"):
        first = source[0] if isinstance(source, list | tuple) and source else source
        found = locate(str(first), "train", ROWS, True) if isinstance(first, str | Path) else None
        if found is None or found.hub:
            raise ValueError(
                "data.images must name the folder of the images of rows from the hub or made in code"
            )
        folder = found.files[0].parent
    images: SizedImages = source if hasattr(source, "read") else ImageFolder(folder)
    conversations = [reader(row, number) for number, row in enumerate(rows.rows)]
    return FoundConversations(conversations, images, rows.description)
