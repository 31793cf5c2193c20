"""Tokenised conversations in memory, with their images decoded when a batch is made.

Letters in shapes: D samples, N tokens of all of them.
"""

import hashlib
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tiryns.runner.data.labelled.examples import TaskSequences
from tiryns.runner.data.vision.conversation_encoder import ConversationEncoder, EncodedText, SampleTooLong
from tiryns.runner.data.vision.conversations import Conversation
from tiryns.runner.data.vision.image_inputs import EXAMPLE_SIZE, ImageInputs, Size, join_images
from tiryns.runner.data.vision.images import SizedImages, UndecodableImage

log = logging.getLogger("tiryns")


class ConversationSequences(TaskSequences):
    """D conversations as tokens and labels, each with the sizes of its images, which `extras` decodes.

    With `max_undecodable` above 0 a grey image replaces one that cannot be decoded, and the sample gets no label.
    """

    lengths_count_images = True
    """The tokens of a sample have a place for each feature of its images."""

    def __init__(
        self,
        encoded: Sequence[tuple[Conversation, EncodedText, list[Size]]],
        images: SizedImages,
        encoder: ConversationEncoder,
        max_undecodable: int,
    ) -> None:
        conversations, texts, self.sizes = zip(*encoded, strict=True)
        super().__init__(conversations, [text.input_ids for text in texts])
        self.labels = np.concatenate([text.labels for text in texts]).astype(np.int32)
        self.prompt_lengths = np.array([text.prompt_length for text in texts], dtype=np.int64)
        self.image_counts = np.array([len(c.images) for c in conversations], dtype=np.int64)
        self.images, self.encoder, self.max_undecodable = images, encoder, max_undecodable

    def modalities(self, indices: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each sample has images, bool [D]."""
        return self.image_counts[indices] > 0

    def extras(self, indices: NDArray[np.int64]) -> dict[str, Any]:
        """`labels` [N], `prompt_lengths`, `image_counts` and `undecodable` [D], and the arrays of `join_images`.

        Raises UndecodableImage for a broken image if `max_undecodable` is 0, and ValueError for one with a changed size.
        """
        shown = [self._shown(int(i)) for i in indices]
        return {
            **super().extras(indices),
            "labels": self.labels[self.places(indices)].astype(np.int64),
            "prompt_lengths": self.prompt_lengths[indices],
            "image_counts": self.image_counts[indices],
            **join_images([image for images, _ in shown for image in images]),
            "undecodable": np.array([broken for _, broken in shown], dtype=bool),
        }

    def arrays(self) -> list[NDArray[Any]]:
        """Tokens, labels and the names of the images."""
        names = hashlib.blake2b(repr([c.images for c in self.examples]).encode(), digest_size=16).digest()
        return [*super().arrays(), self.labels, np.frombuffer(names, dtype=np.uint8)]

    def _shown(self, index: int) -> tuple[list[ImageInputs], bool]:
        """The model's inputs for a sample's images, and whether one of them is broken."""
        conversation: Conversation = self.examples[index]
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
                    f"{conversation.name()}: the image {name!r} is of {image.size}, where its text has places for one of "
                    f"{size}: has it changed since the run began?"
                )
        return [encoder.inputs(image) for image in images], False


def encode_conversations(
    conversations: Sequence[Conversation],
    images: SizedImages,
    encoder: ConversationEncoder,
    max_undecodable: int,
    setting: str,
) -> ConversationSequences:
    """Tokenises a set; the log counts long samples. Raises ValueError or FileNotFoundError for unusable ones."""
    encoded: list[tuple[Conversation, EncodedText, list[Size]]] = []
    skipped: list[str] = []
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
            encoded.append((conversation, encoder.text(conversation, sizes), sizes))
        except SampleTooLong as error:
            if encoder.too_long != "skip":
                raise
            skipped.append(str(error).partition(";")[0])
    if skipped:
        counts = f"{len(skipped)} of {len(conversations)} samples"
        log.warning("%s: %s are too long and left out, the first: %s", setting, counts, skipped[0])
    if cut := sum(text.truncated for _, text, _ in encoded):
        log.warning("%s: the ends of %d of %d samples are cut off", setting, cut, len(conversations))
    if not encoded:
        raise ValueError(f"{setting} holds no samples" + (" that are short enough" if skipped else ""))
    return ConversationSequences(encoded, images, encoder, max_undecodable)
