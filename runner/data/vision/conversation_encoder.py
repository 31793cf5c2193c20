"""Encodes conversations as tokens, with labels for the answers, and their images as inputs of a model.

Letters in shapes: L tokens.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tiryns.runner.data.micro_batch import CollatorArguments, Tokenizer, tokenizer_arguments
from tiryns.runner.data.vision.chat_templates import render_chat
from tiryns.runner.data.vision.conversations import (
    ASSISTANT,
    IMAGE_PLACE,
    USER,
    Conversation,
    ConversationReader,
    Turn,
)
from tiryns.runner.data.vision.images import ImageEncoder, ImageInputs, ImageTokens, Size

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
    """Tokens and labels int64 [L], the number of tokens before the last answer, and whether the end is cut off."""

    input_ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    prompt_length: int
    truncated: bool


class EncodedConversation(NamedTuple):
    """The text of a conversation, and the model's inputs for each image."""

    text: EncodedText
    images: list[ImageInputs]


class ConversationEncoder:
    """Encodes conversations for a vision-language model of transformers.

    Texts go through the tokenizer's chat template, or `PLAIN_TEMPLATE`. Labels are the tokens of the assistant's turns
    with their end token, and `ignore_index` elsewhere. `images` gives the tokens of each image.

    `too_long` decides about samples of more than `max_length` tokens: `error` and `skip` raise SampleTooLong;
    `truncate` cuts off the end, and raises SampleTooLong only if an image does not fit whole.
    """

    def __init__(
        self, tokenizer: Tokenizer, images: ImageEncoder, max_length: int, too_long: str, ignore_index: int
    ) -> None:
        """Raises ValueError for a tokenizer without character offsets."""
        if not getattr(tokenizer, "is_fast", False):
            raise ValueError("the tokenizer has no fast version (tokenizer.json), which is needed here")
        self.tokenizer, self.images = tokenizer, images
        self.place = str(tokenizer.convert_ids_to_tokens(images.place_id))
        self.max_length, self.too_long, self.ignore_index = max_length, too_long, ignore_index
        self.template = tokenizer.get_chat_template() if tokenizer.chat_template else PLAIN_TEMPLATE
        # as the templates of processors do, it may need a turn in parts, each with its type
        probe = [{"role": USER, "content": [{"type": "text", "text": "probe"}]}]
        try:
            text = render_chat(self.template, probe, tokenizer.special_tokens_map, generate=False)
        except ValueError:  # a template for plain text meets a list
            text = ""
        self._in_parts = "probe" in text and "'type'" not in text and '"type"' not in text
        greeting = Conversation("greeting", [Turn(USER, "hello"), Turn(ASSISTANT, "hi")], [], [], None, "")
        self.end_token_id = int(self._whole(greeting, [])[0].labels[-1])

    def __call__(self, conversation: Conversation, images: Sequence[Image.Image]) -> EncodedConversation:
        """Encodes a conversation with its images. Raises SampleTooLong, or ValueError if no answer has labels."""
        encodings = [self.images(image) for image in images]
        text = self._text(conversation, [ids for ids, _ in encodings])
        return EncodedConversation(text, [inputs for _, inputs in encodings])

    def text(self, conversation: Conversation, sizes: Sequence[Size]) -> EncodedText:
        """Tokens and labels of a conversation whose images have these sizes; raises as the call does."""
        return self._text(conversation, [self.images.ids(size) for size in sizes])

    def _text(self, conversation: Conversation, image_ids: Sequence[ImageTokens]) -> EncodedText:
        text, images_end = self._whole(conversation, image_ids)
        if (length := len(text.input_ids)) > self.max_length:
            problem = f"{conversation.name()}: {length} tokens, where data.max_length={self.max_length}"
            if self.too_long != "truncate":
                raise SampleTooLong(f"{problem}; raise it, or set data.too_long to truncate or skip")
            if images_end > self.max_length:
                raise SampleTooLong(f"{problem} would cut into an image; raise it")
            ids, labels = text.input_ids[: self.max_length], text.labels[: self.max_length]
            text = EncodedText(ids, labels, min(text.prompt_length, self.max_length), truncated=True)
        if (text.labels == self.ignore_index).all():
            raise ValueError(f"{conversation.name()}: no token of its answers is left to train on")
        return text

    def _whole(self, conversation: Conversation, image_ids: Sequence[ImageTokens]) -> tuple[EncodedText, int]:
        """Returns all tokens and labels, with each image's tokens in its place, and the position after the last image."""
        text, spans = self._text_with_spans(conversation)
        encoding = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids = np.array(encoding["input_ids"], dtype=np.int64)
        begins, ends = np.array(encoding["offset_mapping"], dtype=np.int64).reshape(-1, 2).T
        labels = np.full_like(ids, self.ignore_index)
        for first, last in spans:
            is_answer = (ends > first) & (begins < last)
            labels[is_answer] = ids[is_answer]
        is_place = ids == self.images.place_id
        if np.count_nonzero(is_place) != len(image_ids):
            raise ValueError(
                f"{conversation.name()}: {np.count_nonzero(is_place)} tokens {self.place} for {len(image_ids)} "
                "images, expected one per image; the text must not hold that token itself"
            )
        images_end = 0
        if image_ids:
            counts = np.ones_like(ids)
            counts[is_place] = [len(image) for image in image_ids]
            from_image = np.repeat(is_place, counts)
            ids, labels = np.repeat(ids, counts), np.repeat(labels, counts)
            ids[from_image] = np.concatenate(image_ids)
            labels[from_image] = self.ignore_index
            images_end = int(np.flatnonzero(from_image)[-1]) + 1
        labels[:1] = self.ignore_index  # nothing is before it to predict it from
        prompt_length = len(ids) - int(np.count_nonzero(ends > spans[-1][0]))
        return EncodedText(ids, labels, prompt_length, truncated=False), images_end

    def decode_answer(self, ids: list[int]) -> str:
        """Returns the text of the token ids of an answer, up to the end token."""
        ids = ids[: ids.index(self.end_token_id)] if self.end_token_id in ids else ids
        return str(self.tokenizer.decode(ids, skip_special_tokens=True)).strip()

    def collator_arguments(self, reader: ConversationReader) -> CollatorArguments:
        """Arguments of the objective's collator; `reader` knows the columns of the rows."""
        return {
            **tokenizer_arguments(self.tokenizer), "mask_token_id": self.tokenizer.pad_token_id,
            "text_column": reader.columns["question"], "label_column": reader.columns["answer"],
            "max_sequence_length": self.max_length, "image_token_id": self.images.feature_id,
            "image_example": self.images.example, "end_token_id": self.end_token_id,
        }  # fmt: skip

    def _text_with_spans(self, conversation: Conversation) -> tuple[str, list[tuple[int, int]]]:
        """Returns the whole text, and the spans of the assistant's words in it."""
        turns = conversation.turns
        whole = self._render(conversation, turns, generate=False)
        spans = []
        for i, turn in enumerate(turns):
            if turn.role == ASSISTANT:
                before = self._render(conversation, turns[:i], generate=True)
                after = self._render(conversation, turns[: i + 1], generate=False).rstrip()
                if not (whole.startswith(after) and after.startswith(before)):
                    raise ValueError(
                        f"{conversation.name()}: the tokenizer's chat template changes earlier turns when later turns "
                        "follow, so answers cannot be told from prompts; give the tokenizer another template"
                    )
                spans.append((len(before), len(after)))
        return whole, spans

    def _render(self, conversation: Conversation, turns: Sequence[Turn], generate: bool) -> str:
        messages = [{"role": turn.role, "content": self._content(turn)} for turn in turns]
        try:
            return render_chat(self.template, messages, self.tokenizer.special_tokens_map, generate)
        except ValueError as error:
            problem = f"{conversation.name()}: the tokenizer's chat template refuses it: {error}"
            raise ValueError(problem) from error

    def _content(self, turn: Turn) -> str | list[dict[str, str]]:
        """Returns a turn's text with the image token at each `<image>`, or as parts if the template needs parts."""
        if not self._in_parts:
            return turn.text.replace(IMAGE_PLACE, self.place) if turn.role == USER else turn.text
        parts: list[dict[str, str]] = []
        for i, text in enumerate(turn.text.split(IMAGE_PLACE) if turn.role == USER else [turn.text]):
            if i:
                parts.append({"type": "image"})
                text = text.removeprefix("\n")  # the template separates image and text
            if text:
                parts.append({"type": "text", "text": text})
        return parts
