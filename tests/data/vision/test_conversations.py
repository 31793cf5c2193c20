"""Rows become conversations, and conversations tokens with labels on answers alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tiryns.runner.data.read.rows import Row
from tiryns.runner.data.vision.conversation_encoder import ConversationEncoder, SampleTooLong
from tiryns.runner.data.vision.conversations import ConversationReader, Turn
from tiryns.runner.data.vision.processors import (
    VisionProcessor,
    load_processor,
    make_processor,
    train_conversation_tokenizer,
)

TEXTS = [
    "USER: what colour is the big circle? ASSISTANT: it is red",
    "there are two squares and 3 circles",
] * 4
COLOUR = {
    "id": "c7",
    "image": "a.png",
    "conversations": [
        {"from": "human", "value": "<image>\nwhat colour is the circle?"},
        {"from": "gpt", "value": "it is red"},
        {"from": "human", "value": "there are two?"},
        {"from": "gpt", "value": "the big circle"},
    ],
}
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
IN_PARTS = (
    "{% for m in messages %}{{ m['role'] }}:{% for p in m['content'] %}{% if p['type'] == 'image' %}<image>"
    "{% else %} {{ p['text'] }}{% endif %}{% endfor %}{{ eos_token }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


def read(values: dict[str, Any], **columns: str) -> Any:
    return ConversationReader(columns, caption_prompt="describe it")(Row("rows.jsonl, line 5", values), 4)


def processor(
    architecture: str = "llava", kind: str = "wordpiece", template: str | None = None
) -> VisionProcessor:
    tokenizer = train_conversation_tokenizer(TEXTS, kind=kind, vocab_size=400, lowercase=False)
    tokenizer.add_special_tokens({"extra_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.chat_template = template
    return make_processor(architecture, tokenizer, image_size=32, image_places=4)


def encoder(architecture: str = "llava", max_length: int = 200, too_long: str = "error", **how: Any) -> Any:
    return processor(architecture, **how).encoder(max_length, too_long)


def text_of(encoder: ConversationEncoder, conversation: Any) -> Any:
    """Its text, with images of any size."""
    return encoder.text(conversation, [(9, 9)] * len(conversation.images))


def learnt(encoder: ConversationEncoder, row: dict[str, Any]) -> str:
    """The text of the labels."""
    labels = text_of(encoder, read(row)).labels
    return str(encoder.tokenizer.decode(labels[labels != -100]))


def test_rows_of_every_kind_become_conversations() -> None:
    assert [turn.role for turn in read(COLOUR).turns] == ["user", "assistant"] * 2
    caption = read({"image": "a.png", "caption": "a red circle"})
    assert caption.turns == [Turn("user", "<image>\ndescribe it"), Turn("assistant", "a red circle")]
    question = read(
        {"image": ["a.png", "b.png"], "question": "same?", "answer": ["no", "yes", "yes"], "kind": "yes/no"}
    )
    assert question.turns == [Turn("user", "<image>\n<image>\nsame?"), Turn("assistant", "yes")]
    assert (question.answers, question.kind, question.id) == (["no", "yes", "yes"], "yes/no", "4")
    assert read({"question": "1 + 1?", "answer": 2}).turns[-1].text == "2"
    renamed = read(
        {"image": "a.png", "statement": "all red", "label": "true"}, question="statement", answer="label"
    )
    assert renamed.turns == [Turn("user", "<image>\nall red"), Turn("assistant", "true")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"conversations": [*COLOUR["conversations"][2:]]}, "0 <image> places for 1 images"),
        ({"image": None}, "1 <image> places for 0 images"),
        ({"conversations": COLOUR["conversations"][:3]}, "expected user and assistant in turn"),
        ({"conversations": [{"from": "robot", "value": "hi"}]}, "a turn is {'from': 'robot'"),
    ],
)
def test_bad_row_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=rf"rows.jsonl, line 5.*{message}"):
        read({**COLOUR, **change})


def test_unknown_columns_are_named() -> None:
    message = r"line 5: expected one of the columns 'conversations', .* there are: text"
    with pytest.raises(ValueError, match=message):
        read({"text": "hello"})
    with pytest.raises(ValueError, match=r"data.columns='qestion'; there are: .*Did you mean 'question'"):
        read({}, qestion="statement")


@pytest.mark.parametrize("kind", ["wordpiece", "bpe"])
@pytest.mark.parametrize("template", [None, CHATML, IN_PARTS], ids=["plain", "chatml", "in parts"])
def test_labels_are_the_answers_and_their_ends(kind: str, template: str | None) -> None:
    made = encoder(kind=kind, template=template)
    end = {None: "[SEP]", CHATML: "<|im_end|>", IN_PARTS: "[SEP]"}[template]
    text = learnt(made, COLOUR)
    assert text.replace(" ", "") == f"it is red{end}the big circle{end}".replace(" ", "")


@pytest.mark.parametrize(("architecture", "around"), [("llava", 0), ("idefics3", 3)])
def test_image_takes_its_places_and_gives_pixels_of_one_size(architecture: str, around: int) -> None:
    made = encoder(architecture)
    image = Image.new("RGB", (50, 20), "red")
    text, (shown,) = made(read(COLOUR), [image])
    image_id = made.tokenizer.convert_tokens_to_ids("<image>")
    places = np.flatnonzero(text.input_ids == image_id)
    assert len(places) == 4
    assert (np.diff(places) == 1).all()
    assert (text.labels[places] == -100).all()
    assert shown["pixel_values"].reshape(3, 32, 32).dtype == np.float32
    without = {**COLOUR, "image": None, "conversations": COLOUR["conversations"][2:]}
    assert made(read(without), [])[1] == []
    assert made.images.fixed
    assert len(made.images.example.ids) == 4 + around


@pytest.mark.parametrize("template", [None, CHATML, IN_PARTS], ids=["plain", "chatml", "in parts"])
def test_prompt_is_what_stands_before_the_last_answer(template: str | None) -> None:
    made = encoder(kind="bpe", template=template)
    found = text_of(made, read(COLOUR))
    written = made.tokenizer.decode(found.input_ids[found.prompt_length :])
    assert written.strip().startswith("the big circle")
    assert found.labels[found.prompt_length] != -100
    before = {None: "ASSISTANT:", CHATML: "assistant\n", IN_PARTS: "assistant:"}[template]
    assert made.tokenizer.decode(found.input_ids[: found.prompt_length]).endswith(before)


def test_sample_longer_than_the_sequence() -> None:
    length = len(text_of(encoder(), read(COLOUR)).input_ids)
    for too_long in ("error", "skip"):
        message = rf"line 5 \(sample 'c7'\): {length} tokens, .*max_length={length - 2}"
        with pytest.raises(SampleTooLong, match=message):
            text_of(encoder(max_length=length - 2, too_long=too_long), read(COLOUR))
    cut = text_of(encoder(max_length=length - 2, too_long="truncate"), read(COLOUR))
    assert (len(cut.input_ids), cut.truncated) == (length - 2, True)
    with pytest.raises(SampleTooLong, match="would cut into an image"):
        text_of(encoder(max_length=5, too_long="truncate"), read(COLOUR))


def test_text_that_holds_the_models_own_token_is_refused() -> None:
    made = encoder("idefics3")
    turns = [{"from": "human", "value": "hi <fake_token_around_image>"}, {"from": "gpt", "value": "ok"}]
    made.place = "<fake_token_around_image>"
    made.images.place_id = made.tokenizer.convert_tokens_to_ids(made.place)
    with pytest.raises(ValueError, match="must not hold that token itself"):
        made.text(read({"conversations": turns}), [])


@pytest.mark.parametrize("architecture", ["llava", "idefics3"])
def test_processor_that_was_saved_is_the_same(architecture: str, tmp_path: Path) -> None:
    before = processor(architecture)
    before.processor.save_pretrained(tmp_path)
    after = load_processor(str(tmp_path))
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 60, 3), dtype=np.uint8))
    ours, theirs = (made.encoder(200, "error")(read(COLOUR), [image]) for made in (before, after))
    np.testing.assert_array_equal(ours.text.input_ids, theirs.text.input_ids)
    for a, b in zip(ours.images, theirs.images, strict=True):
        assert a.keys() == b.keys()
        for name in a:
            np.testing.assert_array_equal(a[name], b[name])


def test_folder_without_processor_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"has no processor that can be loaded"):
        load_processor(str(tmp_path))
