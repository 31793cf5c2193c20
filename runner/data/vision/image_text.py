"""Conversations about images for vision-language models: from rows and a folder of images, served as global batches."""

import logging
from pathlib import Path
from typing import Any

from iolaus.conf.data import vision as options
from iolaus.conf.data.common import ImagesAndText
from iolaus.runner.config.settings import takes_settings
from iolaus.runner.data.evaluated import EvaluatedDataModule, by_name
from iolaus.runner.data.micro_batch import CollatorArguments
from iolaus.runner.data.read.files import locate
from iolaus.runner.data.read.formats import ROWS
from iolaus.runner.data.read.opened import reading_of
from iolaus.runner.data.read.rows import read_rows
from iolaus.runner.data.text.holdout import hold_out
from iolaus.runner.data.vision.conversation_encoder import ConversationEncoder
from iolaus.runner.data.vision.conversation_sequences import ConversationSequences, encode_conversations
from iolaus.runner.data.vision.conversations import Conversation, ConversationReader
from iolaus.runner.data.vision.images import ImageFolder, SizedImages
from iolaus.runner.data.vision.processors import VisionProcessor, conversation_texts, find_processor

log = logging.getLogger("iolaus")


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
        return {"data": {"columns": self.read_row.columns, "caption_prompt": self.read_row.caption_prompt}}

    def baselines(self) -> dict[str, float]:
        """None: the metrics hold the baseline."""
        return {}


class ImageTextDataModule(ConversationData, EvaluatedDataModule):
    """Training, validation and test conversations, tokenised in memory; their images are decoded in the loader.

    A source made in code may bring its own `read`, `check` and `size_of` (`runner.data.vision.images.SizedImages`), as
    `runner.data.demo.scenes.Scenes` does. Example: `iolaus experiment=vlm_shapes`
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
        train, images = self._read(given.train, "train")
        validation, test = (
            {name: self._read(source, part) for name, source in by_name(self.sources[part], part).items()}
            for part in ("validation", "test")
        )
        if given.validation is None and given.validation_documents:
            keys = [conversation.image_key() for conversation in train]
            train, held_out = hold_out(train, keys, given.validation_documents, given.seed)
            validation = {"validation": (held_out, images)}
        self.vision = find_processor(given, texts=lambda: conversation_texts(train))
        self._encoder = self.make_encoder()

        def encoded(
            conversations: list[Conversation], images: SizedImages, name: str
        ) -> ConversationSequences:
            return encode_conversations(
                conversations, images, self._encoder, given.max_undecodable, f"data.{name}"
            )

        self.train_set = self.train = encoded(train, images, "train")
        self.validation = {n: encoded(*found, f"validation/{n}") for n, found in validation.items()}
        self.test = {n: encoded(*found, f"test/{n}") for n, found in test.items()}
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

    def _read(self, source: Any, part: str) -> tuple[list[Conversation], SizedImages]:
        rows = read_rows(source, self.reading, part, f"data.{part}")
        if part == "train":
            self.description = rows.description
        images: SizedImages = source if hasattr(source, "read") else ImageFolder(self._folder(source))
        return [self.read_row(row, number) for number, row in enumerate(rows.rows)], images

    def _folder(self, source: Any) -> Path | str:
        """The folder that the image paths of a source start from."""
        if self.settings.images is not None:
            return str(self.settings.images)
        first = source[0] if isinstance(source, list | tuple) and source else source
        found = locate(str(first), "train", ROWS, True) if isinstance(first, str | Path) else None
        if found is None or found.hub:
            raise ValueError(
                "data.images must name the folder of the images of rows from the hub or made in code"
            )
        return found.files[0].parent
