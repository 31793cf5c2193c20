"""Conversations about images for vision-language models: from rows and a folder of images, served as global batches."""

import logging
from collections.abc import Mapping
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np

from iolaus.runner.data.evaluated import EvaluatedDataModule, by_name
from iolaus.runner.data.micro_batch import CollatorArguments
from iolaus.runner.data.read.task_readers import read_rows
from iolaus.runner.data.text.holdout import digest, split_documents
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

    def __init__(
        self,
        train: Any,
        validation: Any,
        validation_documents: float,
        test: Any,
        images: str | None,
        format: str,
        columns: Mapping[str, str] | None,
        caption_prompt: str,
        processor: str | None,
        processor_options: Mapping[str, Any],
        tokenizer: str | None,
        tokenizer_kind: str,
        vocab_size: int,
        lowercase: bool,
        architecture: str | None,
        image_size: int | None,
        image_places: int | None,
        max_length: int,
        too_long: str,
        max_undecodable: int,
        seed: int,
        layout: str,
        micro_batch_tokens: int | None,
        micro_batch_size: int | None,
        num_workers: int,
    ) -> None:
        super().__init__(layout, micro_batch_tokens, micro_batch_size, num_workers)
        self.sources = {"train": train, "validation": validation, "test": test}
        self.images, self.format = images, format
        self.read_row = ConversationReader(columns, caption_prompt)
        self.validation_documents, self.split_seed = validation_documents, seed
        self.processor_choice: dict[str, Any] = {
            "processor": processor,
            "processor_options": processor_options,
            "tokenizer": tokenizer,
            "training": {"kind": tokenizer_kind, "vocab_size": vocab_size, "lowercase": lowercase},
            "architecture": architecture,
            "image_size": image_size,
            "image_places": image_places,
            "max_length": max_length,
        }
        self.max_length, self.too_long, self.max_undecodable = max_length, too_long, max_undecodable
        self.test: dict[str, ConversationSequences] = {}
        self.prepared = False

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
        if self.sources["validation"] is None and self.validation_documents:
            conversations, images = found["train"]
            rest, held_out = self._hold_out(conversations)
            found["train"], found["validation/validation"] = (rest, images), (held_out, images)
        self.vision = find_processor(
            **self.processor_choice, texts=lambda: conversation_texts(found["train"][0])
        )
        self._encoder = self.vision.encoder(self.max_length, self.too_long)
        sets = {
            name: encode_conversations(some, images, self._encoder, self.max_undecodable, f"data.{name}")
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
        return self.train_set.fingerprint

    def baselines(self) -> dict[str, float]:
        """No figures: the metrics contain the baseline, over the same samples."""
        return {}

    def describe(self) -> dict[str, str]:
        """Counts for the summary at the start."""
        sets = {
            "training": self.train_set,
            **self.validation,
            **{f"test {n}": s for n, s in self.test.items()},
        }
        size = self.sampler.global_batch_size
        return {
            "source": self.description,
            **{name: _counts(sequences) for name, sequences in sets.items()},
            "images": self._encoder.images.describe(),
            "vocabulary": f"{len(self.tokenizer):,} tokens",
            "global batch": f"{size} samples, about {size * self.train_set.num_tokens // len(self.train_set):,} tokens",
            "micro-batch": f"{self.micro_batch_tokens or 'any number of'} tokens, {self.layout}",
        }

    def _read(self, source: Any, setting: str) -> tuple[list[Conversation], SizedImages]:
        rows = read_rows(source, format=self.format, word_field=0, tag_field=None)
        if not rows.rows:
            raise ValueError(f"{setting}: {rows.description} holds no examples")
        if setting == "data.train":
            self.description = rows.description
        images: SizedImages = source if hasattr(source, "read") else ImageFolder(self._folder(source))
        return [self.read_row(row, number) for number, row in enumerate(rows.rows)], images

    def _folder(self, source: Any) -> Path | str:
        """The folder that the image paths of a source are relative to."""
        if self.images is not None:
            return self.images
        first = source[0] if isinstance(source, list | tuple) and source else source
        if not isinstance(first, str | Path):
            raise ValueError("data.images must name the folder of the images of rows made in code")
        return Path(sorted(glob(str(Path(first).expanduser()), recursive=True))[0]).parent

    def _hold_out(self, conversations: list[Conversation]) -> tuple[list[Conversation], list[Conversation]]:
        """Training and held-out conversations; no image, or text without one, is in both."""
        digests = np.array(
            [digest("\n".join(c.images) or c.turns[0].text) for c in conversations], dtype=np.uint64
        )
        held_out = np.isin(digests, split_documents(digests, self.validation_documents, self.split_seed))
        return (
            [c for c, held in zip(conversations, held_out, strict=True) if not held],
            [c for c, held in zip(conversations, held_out, strict=True) if held],
        )


def _counts(sequences: ConversationSequences) -> str:
    shown = int((sequences.image_counts > 0).sum())
    return f"{len(sequences):,} samples, {shown:,} with images, {sequences.num_tokens:,} tokens"
