"""Conversations to tokens, with labels on answers alone, and their images to pixels.

Letters in shapes: L tokens, n images, C channels, H and W pixels.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from runner.errors import suggest

from .conversations import (
    ASSISTANT,
    IMAGE_PLACE,
    USER,
    Conversation,
    ConversationReader,
    Turn,
    check_places,
)

TOO_LONG = ("error", "truncate", "skip")
"""What may be done with a sample that is longer than the sequence."""

PLAIN_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] == 'user' %}USER: {{ message['content'] }} "
    "{% elif message['role'] == 'assistant' %}ASSISTANT: {{ message['content'] }}{{ eos_token }}"
    "{% else %}{{ message['content'] }} {% endif %}{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
"""The chat template of a tokenizer that has none: `USER: question ASSISTANT: answer<end>USER: ...` (Vicuna's, as in
LLaVA 1.5)."""


class SampleTooLong(ValueError):
    """A sample does not fit into the sequence."""


class EncodedText(NamedTuple):
    """`input_ids` and `labels` int64 [L]; how many tokens stand before the last answer; whether the end is cut off."""

    input_ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    prompt_length: int
    truncated: bool


class EncodedConversation(NamedTuple):
    """`input_ids` and `labels` int64 [L], `pixel_values` float32 [n, C, H, W]."""

    input_ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    pixel_values: NDArray[np.float32]


class ConversationEncoder:
    """Makes of a conversation what a vision-language model of transformers reads and learns.

    Texts go through the tokenizer's chat template, or `PLAIN_TEMPLATE`. Labels are the tokens of the assistant's turns,
    the end token included, and `ignore_index` elsewhere. For each image there stand `image_ids` (see
    `runner.data.processors`), among them `image_token` as often as the model has features for an image.

    `too_long`: what becomes of a sample of more than `max_length` tokens. `error` and `skip` raise SampleTooLong, which
    who skips counts; `truncate` cuts the end off, but never into an image.
    """

    def __init__(
        self,
        tokenizer: Any,
        image_processor: Any,
        image_token: str,
        image_ids: Sequence[int],
        max_length: int,
        too_long: str,
        ignore_index: int,
    ) -> None:
        """Raises ValueError for an unknown `too_long`, a tokenizer that cannot say where tokens stand or lacks the image
        token, and an image processor that does not give every image one size.
        """
        if too_long not in TOO_LONG:
            raise ValueError(
                f"data.too_long={too_long!r}; there are: {', '.join(TOO_LONG)}" + suggest(too_long, TOO_LONG)
            )
        if not getattr(tokenizer, "is_fast", False):
            raise ValueError("the tokenizer has no fast version (tokenizer.json), which is needed here")
        self.tokenizer, self.image_processor = tokenizer, image_processor
        self.image_token = image_token
        self.image_token_id = tokenizer.get_vocab().get(image_token)
        if self.image_token_id is None or self.image_token_id not in image_ids:
            raise ValueError(f"the tokenizer has no token {image_token!r} for images")
        self.image_ids = list(image_ids)
        self.max_length, self.too_long, self.ignore_index = max_length, too_long, ignore_index
        self.template = tokenizer.chat_template or PLAIN_TEMPLATE
        self._in_parts = self._takes_parts()
        greeting = Conversation("greeting", [Turn(USER, "hello"), Turn(ASSISTANT, "hi")], [], [], None, "")
        self.end_token_id = int(self._labelled(greeting)[1][-1])
        self.pixel_shape = self._one_shape()

    def __call__(self, conversation: Conversation, images: Sequence[Image.Image]) -> EncodedConversation:
        """Tokens, labels and pixels of a conversation and its decoded images.

        Raises:
            ValueError: not as many places as images; an answer of which nothing would be learnt.
            SampleTooLong: more tokens than the sequence has.
        """
        text = self.text(conversation)
        if len(images) != len(conversation.images):
            raise ValueError(
                f"{conversation.name()}: {len(images)} images are given for {len(conversation.images)}"
            )
        return EncodedConversation(text.input_ids, text.labels, self.pixels(images))

    def text(self, conversation: Conversation) -> EncodedText:
        """Tokens and labels alone; raises as the call does."""
        check_places(conversation)
        ids, labels, after_prompt = self._labelled(conversation)
        fitting = self._fitted(conversation, ids, labels, after_prompt)
        if (fitting.labels == self.ignore_index).all():
            raise ValueError(f"{conversation.name()}: nothing of its answer is left to learn")
        return fitting

    def _labelled(self, conversation: Conversation) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Tokens and labels, and how many stand before the last answer."""
        rendered, spans = self._rendered(conversation)
        encoded = self.tokenizer(rendered, add_special_tokens=False, return_offsets_mapping=True)
        ids = np.array(encoded["input_ids"], dtype=np.int64)
        begins, ends = np.array(encoded["offset_mapping"], dtype=np.int64).reshape(-1, 2).T
        is_answer = np.zeros(len(ids), dtype=bool)
        for first, last in spans:
            is_answer |= (ends > first) & (begins < last)
        labels = np.where(is_answer, ids, self.ignore_index)
        ids, labels = self._with_images(conversation, ids, labels)
        labels[:1] = self.ignore_index  # nothing is before it to predict it from
        return ids, labels, len(ids) - int(np.count_nonzero(ends > spans[-1][0]))

    def written(self, ids: list[int]) -> str:
        """The answer that a model has written: token ids up to the end token, as text."""
        ids = ids[: ids.index(self.end_token_id)] if self.end_token_id in ids else ids
        return str(self.tokenizer.decode(ids, skip_special_tokens=True)).strip()

    def pixels(self, images: Sequence[Image.Image]) -> NDArray[np.float32]:
        """Pixel values float32 [n, C, H, W] of images in RGB, 0 images among them."""
        if not images:
            return np.zeros((0, *self.pixel_shape), dtype=np.float32)
        found = self.image_processor(images=list(images), return_tensors="np")["pixel_values"]
        return np.asarray(found, dtype=np.float32).reshape(len(images), *self.pixel_shape)

    def blank_pixels(self) -> NDArray[np.float32]:
        """Pixel values float32 [1, C, H, W] of a grey image, to stand for one that is not there."""
        return self.pixels([Image.new("RGB", (8, 8), "grey")])

    def collator_arguments(self, reader: ConversationReader) -> dict[str, Any]:
        """What an objective needs to know of tokens and images, and of the columns of the rows that `reader` reads."""
        return {
            "pad_token_id": self.tokenizer.pad_token_id,
            "mask_token_id": self.tokenizer.pad_token_id,
            "vocab_size": len(self.tokenizer),
            "special_token_ids": self.tokenizer.all_special_ids,
            "text_column": reader.columns["question"],
            "label_column": reader.columns["answer"],
            "max_sequence_length": self.max_length,
            "image_token_id": self.image_token_id,
            "image_places": self.image_ids.count(self.image_token_id),
            "pixel_shape": self.pixel_shape,
            "end_token_id": self.end_token_id,
        }

    def _rendered(self, conversation: Conversation) -> tuple[str, list[tuple[int, int]]]:
        """The whole text, and from where to where in it the assistant's words stand."""
        turns = conversation.turns
        whole = self._render(conversation, turns, generate=False)
        spans = []
        for i, turn in enumerate(turns):
            if turn.role == ASSISTANT:
                before = self._render(conversation, turns[:i], generate=True)
                after = self._render(conversation, turns[: i + 1], generate=False).rstrip()
                if not (whole.startswith(after) and after.startswith(before)):
                    raise ValueError(
                        f"{conversation.name()}: the tokenizer's chat template writes earlier turns anew when later ones "
                        "follow, so answers cannot be told from prompts; give the tokenizer another template"
                    )
                spans.append((len(before), len(after)))
        return whole, spans

    def _render(self, conversation: Conversation, turns: Sequence[Turn], generate: bool) -> str:
        messages = [{"role": turn.role, "content": self._content(turn)} for turn in turns]
        try:
            text = self.tokenizer.apply_chat_template(
                messages, chat_template=self.template, tokenize=False, add_generation_prompt=generate
            )
        except Exception as error:  # a template may raise what it likes
            raise ValueError(
                f"{conversation.name()}: the tokenizer's chat template refuses it: {error}"
            ) from error
        return str(text)

    def _content(self, turn: Turn) -> Any:
        """A turn's text with the model's own token for images, or in parts where the template wants them."""
        if not self._in_parts:
            return turn.text.replace(IMAGE_PLACE, self.image_token) if turn.role == USER else turn.text
        parts: list[dict[str, str]] = []
        for i, text in enumerate(turn.text.split(IMAGE_PLACE) if turn.role == USER else [turn.text]):
            if i:
                parts.append({"type": "image"})
                text = text.removeprefix("\n")  # what stands between image and text the template knows
            if text:
                parts.append({"type": "text", "text": text})
        return parts

    def _takes_parts(self) -> bool:
        """Whether the chat template wants a turn in parts, each with its type, as those of processors do."""
        probe = [{"role": USER, "content": [{"type": "text", "text": "probe"}]}]
        try:
            text = self.tokenizer.apply_chat_template(probe, chat_template=self.template, tokenize=False)
        except Exception:  # a template for plain text meets a list
            return False
        return "probe" in text and "'type'" not in text and '"type"' not in text

    def _with_images(
        self, conversation: Conversation, ids: NDArray[np.int64], labels: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """All that stands for an image in place of each image token."""
        places = np.flatnonzero(ids == self.image_token_id)
        if len(places) != len(conversation.images):
            raise ValueError(
                f"{conversation.name()}: {len(places)} tokens {self.image_token} for {len(conversation.images)} images; "
                "the text must not hold that token itself"
            )
        if not len(places):
            return ids, labels
        counts = np.ones(len(ids), dtype=np.int64)
        counts[places] = len(self.image_ids)
        from_image = np.repeat(ids == self.image_token_id, counts)
        ids, labels = np.repeat(ids, counts), np.repeat(labels, counts)
        ids[from_image] = np.tile(self.image_ids, len(places))
        labels[from_image] = self.ignore_index
        return ids, labels

    def _fitted(
        self,
        conversation: Conversation,
        ids: NDArray[np.int64],
        labels: NDArray[np.int64],
        prompt_length: int,
    ) -> EncodedText:
        if len(ids) <= self.max_length:
            return EncodedText(ids, labels, prompt_length, False)
        long = f"{conversation.name()}: {len(ids)} tokens, where data.max_length={self.max_length}"
        if self.too_long != "truncate":
            raise SampleTooLong(f"{long}; raise it, or set data.too_long to truncate or skip")
        images = np.flatnonzero(ids == self.image_token_id)
        if len(images) and images[-1] + 1 + self._behind_image() > self.max_length:
            raise SampleTooLong(f"{long} would cut into an image; raise it")
        ids, labels = ids[: self.max_length], labels[: self.max_length]
        return EncodedText(ids, labels, min(prompt_length, self.max_length), True)

    def _behind_image(self) -> int:
        """How many tokens stand behind the last image token of an image."""
        return self.image_ids[::-1].index(self.image_token_id)

    def _one_shape(self) -> tuple[int, ...]:
        """Channels, height and width of every image.

        Raises:
            ValueError: the processor gives images of different sizes different shapes, or splits them.
        """
        shapes = []
        for size in ((40, 40), (90, 50)):
            found = self.image_processor(images=[Image.new("RGB", size, "grey")], return_tensors="np")
            shapes.append(np.asarray(found["pixel_values"]).shape)
        shape = shapes[0]
        if shapes[1] != shape or len(shape) < 4 or int(np.prod(shape[:-3])) != 1:
            raise ValueError(
                f"{type(self.image_processor).__name__} makes images of shapes {shapes[0]} and {shapes[1]}; expected "
                "every image whole and in one size (do_image_splitting=false, for one)"
            )
        return tuple(shape[-3:])
