"""Conversations to tokens, with labels for the answers, and their images to the inputs of a model.

Letters in shapes: L tokens.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from iolaus.conf.values import suggest
from iolaus.runner.data.micro_batch import CollatorArguments, tokenizer_arguments
from iolaus.runner.data.vision.conversations import (
    ASSISTANT,
    IMAGE_PLACE,
    USER,
    Conversation,
    ConversationReader,
    Turn,
    check_places,
)
from iolaus.runner.data.vision.image_inputs import ImageEncoder, ImageInputs, ImageTokens, Size

TOO_LONG = ("error", "truncate", "skip")
"""Ways to treat a sample that is longer than the sequence."""

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
    """Its text, and what the model is given of each image."""

    text: EncodedText
    images: list[ImageInputs]


class _Labelled(NamedTuple):
    """`ids` and `labels` int64 [L]; how many tokens stand before the last answer, and up to the last image's end."""

    ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    before_answer: int
    behind_images: int


class ConversationEncoder:
    """Encodes conversations for a vision-language model of transformers.

    Texts go through the tokenizer's chat template, or `PLAIN_TEMPLATE`. Labels are the tokens of the assistant's turns,
    the end token included, and `ignore_index` elsewhere. For each image there stand the tokens that `images` has for it.

    `too_long` is for samples of more than `max_length` tokens: `error` and `skip` raise SampleTooLong, which callers
    that skip catch; `truncate` cuts off the end, but never within an image.
    """

    def __init__(
        self, tokenizer: Any, images: ImageEncoder, max_length: int, too_long: str, ignore_index: int
    ) -> None:
        """Raises ValueError for an unknown `too_long`, and for a tokenizer without character offsets."""
        if too_long not in TOO_LONG:
            raise ValueError(
                f"data.too_long={too_long!r}; there are: {', '.join(TOO_LONG)}" + suggest(too_long, TOO_LONG)
            )
        if not getattr(tokenizer, "is_fast", False):
            raise ValueError("the tokenizer has no fast version (tokenizer.json), which is needed here")
        self.tokenizer, self.images = tokenizer, images
        self.place = tokenizer.convert_ids_to_tokens(images.place_id)
        self.max_length, self.too_long, self.ignore_index = max_length, too_long, ignore_index
        self.template = tokenizer.chat_template or PLAIN_TEMPLATE
        self._in_parts = self._takes_parts()
        greeting = Conversation("greeting", [Turn(USER, "hello"), Turn(ASSISTANT, "hi")], [], [], None, "")
        self.end_token_id = int(self._labelled(greeting, []).labels[-1])

    def __call__(self, conversation: Conversation, images: Sequence[Image.Image]) -> EncodedConversation:
        """A conversation and its decoded images.

        Raises:
            ValueError: the numbers of places and images differ, or an answer has no label.
            SampleTooLong: more tokens than the sequence has.
        """
        shown = [self.images(image) for image in images]
        text = self._text(conversation, [ids for ids, _ in shown])
        return EncodedConversation(text, [inputs for _, inputs in shown])

    def text(self, conversation: Conversation, sizes: Sequence[Size]) -> EncodedText:
        """Tokens and labels alone, of a conversation whose images have these sizes; raises as the call does."""
        return self._text(conversation, [self.images.ids(size) for size in sizes])

    def _text(self, conversation: Conversation, shown: Sequence[ImageTokens]) -> EncodedText:
        """Tokens and labels, with the tokens of each image in its place."""
        check_places(conversation)
        if len(shown) != len(conversation.images):
            raise ValueError(
                f"{conversation.name()}: {len(shown)} images are given for {len(conversation.images)}"
            )
        fitting = self._fitted(conversation, self._labelled(conversation, shown))
        if (fitting.labels == self.ignore_index).all():
            raise ValueError(f"{conversation.name()}: nothing of its answer is left to learn")
        return fitting

    def _labelled(self, conversation: Conversation, shown: Sequence[ImageTokens]) -> _Labelled:
        rendered, spans = self._rendered(conversation)
        encoded = self.tokenizer(rendered, add_special_tokens=False, return_offsets_mapping=True)
        ids = np.array(encoded["input_ids"], dtype=np.int64)
        begins, ends = np.array(encoded["offset_mapping"], dtype=np.int64).reshape(-1, 2).T
        is_answer = np.zeros(len(ids), dtype=bool)
        for first, last in spans:
            is_answer |= (ends > first) & (begins < last)
        labels = np.where(is_answer, ids, self.ignore_index)
        ids, labels, behind_images = self._with_images(conversation, ids, labels, shown)
        labels[:1] = self.ignore_index  # nothing is before it to predict it from
        return _Labelled(ids, labels, len(ids) - int(np.count_nonzero(ends > spans[-1][0])), behind_images)

    def written(self, ids: list[int]) -> str:
        """The answer that a model has written: token ids up to the end token, as text."""
        ids = ids[: ids.index(self.end_token_id)] if self.end_token_id in ids else ids
        return str(self.tokenizer.decode(ids, skip_special_tokens=True)).strip()

    def collator_arguments(self, reader: ConversationReader) -> CollatorArguments:
        """The arguments of the objective's collator that the data decides; `reader` knows the columns of the rows."""
        return {
            **tokenizer_arguments(self.tokenizer),
            "mask_token_id": self.tokenizer.pad_token_id,
            "text_column": reader.columns["question"],
            "label_column": reader.columns["answer"],
            "max_sequence_length": self.max_length,
            "image_token_id": self.images.feature_id,
            "image_example": self.images.example,
            "end_token_id": self.end_token_id,
        }

    def _rendered(self, conversation: Conversation) -> tuple[str, list[tuple[int, int]]]:
        """The whole text, and the spans of the assistant's words in it."""
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
        """A turn's text with the model's token for images, or in parts if the template needs them."""
        if not self._in_parts:
            return turn.text.replace(IMAGE_PLACE, self.place) if turn.role == USER else turn.text
        parts: list[dict[str, str]] = []
        for i, text in enumerate(turn.text.split(IMAGE_PLACE) if turn.role == USER else [turn.text]):
            if i:
                parts.append({"type": "image"})
                text = text.removeprefix("\n")  # what stands between image and text the template knows
            if text:
                parts.append({"type": "text", "text": text})
        return parts

    def _takes_parts(self) -> bool:
        """Whether the chat template needs a turn in parts, each with its type, as those of processors do."""
        probe = [{"role": USER, "content": [{"type": "text", "text": "probe"}]}]
        try:
            text = self.tokenizer.apply_chat_template(probe, chat_template=self.template, tokenize=False)
        except Exception:  # a template for plain text meets a list
            return False
        return "probe" in text and "'type'" not in text and '"type"' not in text

    def _with_images(
        self,
        conversation: Conversation,
        ids: NDArray[np.int64],
        labels: NDArray[np.int64],
        shown: Sequence[ImageTokens],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Replaces each image token by the tokens of the image; also returns the tokens up to the last one."""
        is_place = ids == self.images.place_id
        if np.count_nonzero(is_place) != len(shown):
            raise ValueError(
                f"{conversation.name()}: {np.count_nonzero(is_place)} tokens {self.place} for {len(shown)} images; the "
                "text must not hold that token itself"
            )
        if not shown:
            return ids, labels, 0
        counts = np.ones(len(ids), dtype=np.int64)
        counts[is_place] = [len(image) for image in shown]
        from_image = np.repeat(is_place, counts)
        ids, labels = np.repeat(ids, counts), np.repeat(labels, counts)
        ids[from_image] = np.concatenate(shown)
        labels[from_image] = self.ignore_index
        return ids, labels, int(np.flatnonzero(from_image)[-1]) + 1

    def _fitted(self, conversation: Conversation, whole: _Labelled) -> EncodedText:
        if len(whole.ids) <= self.max_length:
            return EncodedText(whole.ids, whole.labels, whole.before_answer, False)
        long = f"{conversation.name()}: {len(whole.ids)} tokens, where data.max_length={self.max_length}"
        if self.too_long != "truncate":
            raise SampleTooLong(f"{long}; raise it, or set data.too_long to truncate or skip")
        if whole.behind_images > self.max_length:
            raise SampleTooLong(f"{long} would cut into an image; raise it")
        ids, labels = whole.ids[: self.max_length], whole.labels[: self.max_length]
        return EncodedText(ids, labels, min(whole.before_answer, self.max_length), True)
