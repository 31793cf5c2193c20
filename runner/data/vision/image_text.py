"""Conversations about images for vision-language models: from rows and a folder of images, served as global batches."""

import logging
from pathlib import Path
from typing import Any

from iolaus.conf.data import vision as options
from iolaus.runner.config.settings import takes_settings
from iolaus.runner.data.evaluated import EvaluatedDataModule, by_name
from iolaus.runner.data.micro_batch import CollatorArguments
from iolaus.runner.data.read.files import locate
from iolaus.runner.data.read.formats import ROWS
from iolaus.runner.data.read.opened import reading_of
from iolaus.runner.data.read.rows import read_rows
from iolaus.runner.data.text.holdout import hold_out
from iolaus.runner.data.vision.conversation_sequences import ConversationSequences, encode_conversations
from iolaus.runner.data.vision.conversations import Conversation, ConversationReader
from iolaus.runner.data.vision.images import ImageFolder, SizedImages
from iolaus.runner.data.vision.processors import conversation_texts, find_processor

log = logging.getLogger("iolaus")


class ImageTextDataModule(EvaluatedDataModule):
    """Training, validation and test conversations, tokenised in memory; their images are decoded in the loader.

    `images` is the folder that image paths start from; without it, that of the file which names them. A source made in
    code may bring its own `read`, `check` and `size_of` (see `runner.data.vision.images.SizedImages`), as
    `runner.data.demo.scenes.Scenes` does.
    """

    task_name = "vision_language"

    @takes_settings(options.ImageText)
    def __init__(self, settings: options.ImageText) -> None:
        super().__init__(settings)
        self.settings = settings
        self.read_row = ConversationReader(settings.columns, settings.caption_prompt)
        self.reading = reading_of(settings)

    def prepare_data(self) -> None:
        """Reads and tokenises everything, unless that has been done.

        Raises:
            ValueError: no training data, or rows, images or samples that cannot be (they are named).
            FileNotFoundError: a file, a folder or an image is not there.
        """
        if self.prepared:
            return
        if self.sources["train"] is None:
            raise ValueError(
                "data.train names no training data: give a jsonl file of conversations about images"
            )
        found = {"train": self._read(self.sources["train"], "data.train")}
        for part in ("validation", "test"):
            for name, source in by_name(self.sources[part], part).items():
                found[f"{part}/{name}"] = self._read(source, f"data.{part}")
        if self.sources["validation"] is None and self.settings.validation_documents:
            conversations, images = found["train"]
            keys = [conversation.image_key() for conversation in conversations]
            given = self.settings
            rest, held_out = hold_out(conversations, keys, given.validation_documents, given.seed)
            found["train"], found["validation/validation"] = (rest, images), (held_out, images)
        given = self.settings
        self.vision = find_processor(given, texts=lambda: conversation_texts(found["train"][0]))
        self._encoder = self.vision.encoder(given.max_length, given.too_long)
        sets = {
            name: encode_conversations(some, images, self._encoder, given.max_undecodable, f"data.{name}")
            for name, (some, images) in found.items()
        }
        self.train_set = self.train = sets.pop("train")
        for part, into in (("validation", {}), ("test", {})):
            into.update({n.partition("/")[2]: s for n, s in sets.items() if n.startswith(f"{part}/")})
            setattr(self, part, into)
        self.prepared = True

    @property
    def tokenizer(self) -> Any:
        """The processor's tokenizer."""
        assert self.prepared, "prepare_data comes first"
        return self.vision.tokenizer

    @property
    def preprocessor(self) -> Any:
        """The processor of texts and images, which a model is exported with."""
        return self.vision.processor

    def collator_arguments(self) -> CollatorArguments:
        """The arguments of the objective's collator that the data decides."""
        return self._encoder.collator_arguments(self.read_row)

    def known_task(self) -> dict[str, Any]:
        """Settings saved beside an exported model, for predictions."""
        return {"data": self.read_row.settings()}

    def fingerprint(self) -> str:
        """A hash of the training samples."""
        return str(self.train_set.fingerprint)

    def baselines(self) -> dict[str, float]:
        """No figures: the metrics contain the baseline, over the same samples."""
        return {}

    def counts(self, sequences: ConversationSequences) -> str:
        """How many samples, those with images, and tokens a set has."""
        shown = int((sequences.image_counts > 0).sum())
        return f"{len(sequences):,} samples, {shown:,} with images, {sequences.num_tokens:,} tokens"

    def facts(self) -> dict[str, str]:
        """What is made of an image, and the vocabulary."""
        return {"images": self._encoder.images.describe(), "vocabulary": f"{len(self.tokenizer):,} tokens"}

    def _read(self, source: Any, setting: str) -> tuple[list[Conversation], SizedImages]:
        rows = read_rows(source, self.reading, setting.removeprefix("data."), setting)
        if setting == "data.train":
            self.description = rows.description
        images: SizedImages = source if hasattr(source, "read") else ImageFolder(self._folder(source))
        return [self.read_row(row, number) for number, row in enumerate(rows.rows)], images

    def _folder(self, source: Any) -> Path | str:
        """Where the image paths of a source start from."""
        if self.settings.images is not None:
            return str(self.settings.images)
        first = source[0] if isinstance(source, list | tuple) and source else source
        found = locate(str(first), "train", ROWS, True) if isinstance(first, str | Path) else None
        if found is None or found.hub:
            raise ValueError(
                "data.images must name the folder of the images of rows from the hub or made in code"
            )
        return found.files[0].parent
