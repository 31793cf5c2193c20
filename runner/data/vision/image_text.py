"""Conversations about images for vision-language models: from rows and a folder of images, served as global batches."""

import hashlib
from collections.abc import Sequence
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tiryns.conf.data import vision as options
from tiryns.conf.data.common import ImagesAndText
from tiryns.runner import log
from tiryns.runner.config.calling import takes_settings
from tiryns.runner.data.evaluated import EvaluatedDataModule, by_name
from tiryns.runner.data.labelled.examples import TaskSequences
from tiryns.runner.data.micro_batch import CollatorArguments, FlatSamples, Tokenizer
from tiryns.runner.data.read.files import locate
from tiryns.runner.data.read.formats import ROWS
from tiryns.runner.data.read.opened import Reading, reading_of
from tiryns.runner.data.read.rows import RowSource, read_rows
from tiryns.runner.data.text.holdout import are_held_out
from tiryns.runner.data.vision.conversation_encoder import ConversationEncoder, EncodedText, SampleTooLong
from tiryns.runner.data.vision.conversations import Conversation, ConversationReader
from tiryns.runner.data.vision.images import (
    EXAMPLE_SIZE,
    ImageFolder,
    ImageInputs,
    Size,
    SizedImages,
    UndecodableImage,
    join_images,
)
from tiryns.runner.data.vision.processors import VisionProcessor, conversation_texts, find_processor


class ConversationSequences(TaskSequences):
    """D conversations as tokens and labels, with the sizes of their images; `extras` decodes the images.

    If `max_undecodable` is above 0, a grey image replaces an undecodable image, and the sample gets no label.
    """

    examples: Sequence[Conversation]
    lengths_count_images = True
    """The length of a sample includes one token for each feature of its images."""

    def __init__(
        self,
        samples: Sequence[tuple[Conversation, EncodedText, list[Size]]],
        images: SizedImages,
        encoder: ConversationEncoder,
        max_undecodable: int,
    ) -> None:
        conversations, texts, self.sizes = zip(*samples, strict=True)
        super().__init__(conversations, [text.input_ids for text in texts])
        self.labels = np.concatenate([text.labels for text in texts]).astype(np.int32)
        self.prompt_lengths = np.array([text.prompt_length for text in texts], dtype=np.int64)
        self.image_counts = np.array([len(c.images) for c in conversations], dtype=np.int64)
        self.images, self.encoder, self.max_undecodable = images, encoder, max_undecodable

    def modalities(self, indices: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each sample has images, bool [D]."""
        return self.image_counts[indices] > 0

    def extras(self, indices: NDArray[np.int64]) -> FlatSamples:
        """Returns `labels` [N], `prompt_lengths`, `image_counts` and `undecodable` [D], and the arrays of `join_images`.

        Raises UndecodableImage for a broken image if `max_undecodable` is 0, and ValueError for one with a changed size.
        """
        image_inputs = [self._image_inputs(int(i)) for i in indices]
        return {
            **super().extras(indices),
            "labels": self.labels[self.places(indices)].astype(np.int64),
            "prompt_lengths": self.prompt_lengths[indices],
            "image_counts": self.image_counts[indices],
            **join_images([image for images, _ in image_inputs for image in images]),
            "undecodable": np.array([broken for _, broken in image_inputs], dtype=bool),
        }

    def arrays(self) -> list[NDArray[np.generic]]:
        names = hashlib.blake2b(repr([c.images for c in self.examples]).encode(), digest_size=16).digest()
        return [*super().arrays(), self.labels, np.frombuffer(names, dtype=np.uint8)]

    def _image_inputs(self, index: int) -> tuple[list[ImageInputs], bool]:
        """Returns the model's inputs for a sample's images, and whether one of them is broken."""
        conversation = self.examples[index]
        encoder, sizes = self.encoder.images, self.sizes[index]
        try:
            images = [self.images.read(name, conversation.name()) for name in conversation.images]
        except UndecodableImage:
            if not self.max_undecodable:
                raise
            return [encoder.inputs(Image.new("RGB", size, "grey")) for size in sizes], True
        for name, image, size in zip(conversation.images, images, sizes, strict=True):
            if image.size != size and not encoder.fixed:
                raise ValueError(
                    f"{conversation.name()}: the image {name!r} has size {image.size}, but its text was encoded for "
                    f"{size}: has the image changed since the run began?"
                )
        return [encoder.inputs(image) for image in images], False


def encode_conversations(
    conversations: Sequence[Conversation],
    images: SizedImages,
    encoder: ConversationEncoder,
    max_undecodable: int,
    setting: str,
) -> ConversationSequences:
    """Tokenises a set, and logs the number of long samples. ValueError or FileNotFoundError for an unusable sample."""
    samples: list[tuple[Conversation, EncodedText, list[Size]]] = []
    problems: list[str] = []
    for conversation in conversations:
        for name in conversation.images:
            images.check(name, conversation.name())
        sizes = [EXAMPLE_SIZE for _ in conversation.images]
        for i, name in enumerate([] if encoder.images.fixed else conversation.images):
            try:
                sizes[i] = images.size_of(name, conversation.name())
            except UndecodableImage:  # of any size: a grey image replaces it
                if not max_undecodable:
                    raise
        try:
            samples.append((conversation, encoder.text(conversation, sizes), sizes))
        except SampleTooLong as error:
            if encoder.too_long != "skip":
                raise
            problems.append(str(error).partition(";")[0])
    if problems:
        counts = f"{len(problems)} of {len(conversations)} samples"
        log.warning("%s: %s are too long and left out, the first: %s", setting, counts, problems[0])
    if cut := sum(text.truncated for _, text, _ in samples):
        log.warning("%s: the ends of %d of %d samples are cut off", setting, cut, len(conversations))
    if not samples:
        raise ValueError(f"{setting} holds no samples" + (" that are short enough" if problems else ""))
    return ConversationSequences(samples, images, encoder, max_undecodable)


class ConversationData:
    """A mixin for data modules of conversations; a subclass sets `vision` in `prepare_data`."""

    task_name = "vision_language"
    settings: ImagesAndText
    read_row: ConversationReader
    vision: VisionProcessor

    @property
    def preprocessor(self) -> Any:
        """The processor of texts and images, which is exported with a model."""
        return self.vision.processor

    def make_encoder(self) -> ConversationEncoder:
        """Returns the encoder of the model's processor."""
        return self.vision.encoder(self.settings.max_length, self.settings.too_long)

    def collator_arguments(self) -> CollatorArguments:
        """Arguments of the objective's collator."""
        return self.make_encoder().collator_arguments(self.read_row)

    def known_task(self) -> dict[str, object]:
        """Settings saved beside an exported model, for predictions."""
        reading = {"columns": self.read_row.columns, "caption_prompt": self.read_row.caption_prompt}
        lengths = {"max_length": self.settings.max_length, "too_long": self.settings.too_long}
        return {"data": reading | lengths}


class ImageTextDataModule(ConversationData, EvaluatedDataModule):
    """Training, validation and test conversations, tokenised in memory; their images are decoded in the loader.

    A source made in code may bring its own `read`, `check` and `size_of` (`runner.data.vision.images.SizedImages`), as
    `runner.data.demo.scenes.Scenes` does. Example: `tiryns experiment=vlm_shapes`
    """

    settings: options.ImageText

    @takes_settings(options.ImageText)
    def __init__(self, settings: options.ImageText) -> None:
        super().__init__(settings)
        self.read_row = ConversationReader(settings.columns, settings.caption_prompt)
        self.reading = reading_of(settings)

    def prepare_data(self) -> None:
        """Reads and tokenises everything once; raises ValueError or FileNotFoundError for unusable data."""
        if self.prepared:
            return
        settings = self.settings
        if settings.train is None:
            problem = "data.train names no training data: give a jsonl file of conversations about images"
            raise ValueError(problem)
        sources = {"train": self.sources["train"]}
        for part in ("validation", "test"):
            sources |= {f"{part}/{n}": source for n, source in by_name(self.sources[part], part).items()}
        sets = {}
        for name, source in sources.items():
            part = name.partition("/")[0]
            how = (self.reading, part, f"data.{part}", self.read_row, settings.images)
            sets[name] = read_conversations(source, *how)
        train, images, self.description = sets["train"]
        if settings.validation is None and settings.validation_documents:
            keys = [conversation.image_key() for conversation in train]
            is_held_out = are_held_out(keys, settings.validation_documents, settings.seed)
            for name, mask in (("validation/validation", is_held_out), ("train", ~is_held_out)):
                sets[name] = FoundConversations(list(compress(train, mask)), images, self.description)
            train = sets["train"].conversations
        self.vision = find_processor(settings, texts=lambda: conversation_texts(train))
        encoder = self.make_encoder()
        sequences = {
            name: encode_conversations(*entry[:2], encoder, settings.max_undecodable, f"data.{name}")
            for name, entry in sets.items()
        }
        self.train_set = self.train = sequences.pop("train")
        self.validation, self.test = (
            {n.partition("/")[2]: one for n, one in sequences.items() if n.startswith(f"{part}/")}
            for part in ("validation", "test")
        )
        self.prepared = True

    @property
    def tokenizer(self) -> Tokenizer:
        """The processor's tokenizer."""
        assert self.prepared, "prepare_data comes first"
        return self.vision.tokenizer

    def fingerprint(self) -> str:
        return str(self.train_set.fingerprint)

    def counts(self, sequences: ConversationSequences) -> str:
        num_with_images = int((sequences.image_counts > 0).sum())
        return f"{len(sequences):,} samples, {num_with_images:,} with images, {sequences.num_tokens:,} tokens"

    def facts(self) -> dict[str, str]:
        return {"vocabulary": f"{len(self.tokenizer):,} tokens"}


class FoundConversations(NamedTuple):
    """The conversations of a source, their images, and the source in words."""

    conversations: list[Conversation]
    images: SizedImages
    description: str


def read_conversations(
    source: RowSource, reading: Reading, part: str, setting: str, reader: ConversationReader, folder: Any
) -> FoundConversations:
    """Returns the conversations of a source. Images are below `folder`, by default the folder of the source's file.

    Raises ValueError or FileNotFoundError, which name the `setting`, for a source or a row that cannot be used.
    """
    rows = read_rows(source, reading, part, setting)
    if not folder and not isinstance(source, SizedImages):
        first = source[0] if isinstance(source, list | tuple) and source else source
        location = locate(str(first), "train", ROWS, True) if isinstance(first, str | Path) else None
        if location is None or location.hub:
            problem = "data.images must name the folder of images if rows are from the hub or made in code"
            raise ValueError(problem)
        folder = location.files[0].parent
    images: SizedImages = source if isinstance(source, SizedImages) else ImageFolder(folder)
    conversations = [reader(row, number) for number, row in enumerate(rows.rows)]
    return FoundConversations(conversations, images, rows.description)
