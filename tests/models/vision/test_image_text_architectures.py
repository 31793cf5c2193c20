"""Models of images and text as they come from the hub: the same tokens, losses and answers as with their processors."""

import json
import logging
import pickle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional
from transformers import AutoConfig, AutoModelForImageTextToText

from tests.conftest import few_of
from tests.support.image_text_models import ARCHITECTURES, TEXT, VARYING, save_image_text_model
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.data.vision.conversations import Conversation, ConversationReader, Turn
from tiryns.runner.data.vision.images import join_images
from tiryns.runner.data.vision.processors import VisionProcessor, load_processor
from tiryns.runner.models.packed.rows import choose_layout
from tiryns.runner.models.vision.vision_language import images_of, sample_rows
from tiryns.runner.objectives.vision_language import VisionLanguageCollator


class Loaded(NamedTuple):
    name: str
    vision: VisionProcessor
    encoder: Any
    objective: VisionLanguageCollator
    model: Any


FEW = ("idefics3", "llava_next", "internvl", "qwen3_vl", "paligemma")


@pytest.fixture(scope="module", params=few_of(ARCHITECTURES, FEW))
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    folder = save_image_text_model(request.param, tmp_path_factory.mktemp(request.param))
    vision = load_processor(str(folder))
    encoder = vision.encoder(512, "error")
    objective = VisionLanguageCollator(**encoder.collator_arguments(ConversationReader(None, "describe it")))
    model = objective.task_model(AutoModelForImageTextToText.from_pretrained(folder)).eval()
    return Loaded(request.param, vision, encoder, objective, model)


def picture(width: int, height: int) -> Image.Image:
    noise = np.random.default_rng(width * height).integers(0, 255, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(noise)


def samples() -> list[tuple[Conversation, list[Image.Image]]]:
    """A wide image, none, a tall and a small one together, and a large one."""
    found = []
    for i, shown in enumerate(
        [[picture(90, 30)], [], [picture(30, 100), picture(40, 40)], [picture(300, 200)]]
    ):
        turns = [
            Turn("user", "<image>" * len(shown) + "what is it?"),
            Turn("assistant", "a red circle" + " and" * i),
        ]
        found.append(
            (Conversation(str(i), turns, [f"{n}.png" for n in range(len(shown))], [], None, ""), shown)
        )
    return found


def batch(loaded: Loaded, packed: bool, chosen: Any = range(4)) -> MicroBatch:
    """Some of the samples as a micro-batch."""
    some = [samples()[i] for i in chosen]
    encoded = [loaded.encoder(conversation, images) for conversation, images in some]
    return loaded.objective(
        {
            "input_ids": np.concatenate([e.text.input_ids for e in encoded]),
            "labels": np.concatenate([e.text.labels for e in encoded]),
            "lengths": np.array([len(e.text.input_ids) for e in encoded], dtype=np.int32),
            "prompt_lengths": np.array([e.text.prompt_length for e in encoded]),
            "image_counts": np.array([len(e.images) for e in encoded]),
            "undecodable": np.zeros(len(encoded), dtype=bool),
            "samples": np.arange(len(encoded)),
            "keys": np.zeros(len(encoded), dtype=np.uint64),
            **join_images([image for e in encoded for image in e.images]),
            "packed": packed,
        }
    )


def given(loaded: Loaded, i: int, prompt: bool = False) -> tuple[Any, int]:
    """A sample as the architecture's own processor makes it, and how long its prompt is.

    PaliGemma's makes samples of one image and one question alone; for it from ours, with what it adds to them.
    """
    conversation, images = samples()[i]
    if loaded.name == "paligemma":
        text, shown = loaded.encoder(conversation, images)
        ids = torch.from_numpy(text.input_ids)[None, : text.prompt_length if prompt else None]
        types = (torch.arange(ids.shape[1]) >= text.prompt_length).long()[None]
        pixels = {n: torch.from_numpy(value) for n, value in join_images(shown)["images"].items()}
        return {"input_ids": ids, "token_type_ids": types, **pixels}, text.prompt_length
    text, ((begin, _),) = loaded.encoder._text_with_spans(conversation)
    of_images = {"images": [images]} if images else {}
    parts = [
        loaded.vision.processor(text=[t], **of_images, add_special_tokens=False, return_tensors="pt")
        for t in (text, text[:begin])
    ]
    return parts[int(prompt)], parts[1]["input_ids"].shape[1]


@pytest.mark.rows(2)
def test_tokens_depend_on_the_size_of_an_image_where_the_architecture_says_so(loaded: Loaded) -> None:
    square, wide = (loaded.vision.images.ids(size) for size in ((40, 40), (300, 60)))
    assert (len(square) != len(wide)) is (loaded.name in VARYING)
    assert loaded.vision.images.fixed is (loaded.name not in VARYING)


@pytest.mark.rows(2)
def test_image_is_what_the_processor_makes_of_it_with_text(loaded: Loaded) -> None:
    image = picture(300, 60)
    theirs = loaded.vision.processor(
        images=[image], text=[loaded.vision.processor.image_token], return_tensors="pt"
    )
    ours = loaded.vision.images.inputs(image)
    assert ours
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name].numpy())


def test_tokens_are_those_of_the_processor(loaded: Loaded) -> None:
    rows, lengths = sample_rows(found := batch(loaded, packed=False)), found["attention_mask"].sum(1).tolist()
    for i, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        theirs, prompt_length = given(loaded, i)
        assert row[:length].tolist() == theirs["input_ids"][0].tolist()
        assert found["prompt_lengths"][i] == prompt_length


@pytest.mark.rows(2)
def test_loss_is_that_of_the_model_given_its_processors_inputs(loaded: Loaded) -> None:
    expected, targets = 0.0, 0
    with torch.no_grad():
        found = loaded.model(batch(loaded, packed=False))
        for i in range(4):
            inputs, prompt_length = given(loaded, i)
            logits = loaded.model.pretrained(**inputs).logits[0]
            answer = inputs["input_ids"][0, prompt_length:]
            expected += float(
                functional.cross_entropy(logits[prompt_length - 1 : -1], answer, reduction="sum")
            )
            targets += len(answer)
    assert batch(loaded, packed=False)["weight"] == targets
    assert float(found["loss"]) == pytest.approx(expected, rel=1e-4)


def test_gradients_reach_the_vision_tower_with_and_without_images(loaded: Loaded) -> None:
    seen = [p for p in loaded.model.vision_parameters if p.requires_grad]
    loaded.model.train()
    try:
        with_images = torch.autograd.grad(loaded.model(batch(loaded, packed=False))["loss"], seen)
        without = torch.autograd.grad(loaded.model(batch(loaded, packed=False, chosen=[1]))["loss"], seen)
    finally:
        loaded.model.eval()
    assert any(g.any() for g in with_images)
    assert not any(g.any() for g in without)


def test_trained_are_all_parameters_that_the_loss_depends_on(loaded: Loaded) -> None:
    seen = loaded.model.vision_parameters
    trained = [p.requires_grad for p in seen]
    for p in seen:
        p.requires_grad_(True)
    loss = loaded.model(batch(loaded, packed=False))["loss"]
    gradients = torch.autograd.grad(loss, seen, allow_unused=True)
    for p, was in zip(seen, trained, strict=True):
        p.requires_grad_(was)
    assert trained == [gradient is not None for gradient in gradients]


@pytest.mark.rows(3)
def test_answers_are_those_of_the_model_given_its_processors_inputs(loaded: Loaded) -> None:
    found = batch(loaded, packed=False)
    prompts = [r[:n] for r, n in zip(sample_rows(found), found["prompt_lengths"].tolist(), strict=True)]
    written = loaded.model.generate(prompts, found["images"], 5)
    for i in (0, 2, 3, 1):  # text alone behind images: nothing of those may be left
        inputs, prompt_length = given(loaded, i, prompt=True)
        alone = loaded.model.generate([prompts[i]], images_of(found, [i]), 5)
        assert alone[0].tolist() == written[i].tolist()
        theirs = loaded.model.pretrained.generate(
            **inputs, max_new_tokens=5, do_sample=False, eos_token_id=loaded.model.end_token_id,
            pad_token_id=loaded.model.pad_token_id,
        )[0, prompt_length:]  # fmt: skip
        assert alone[0, : len(theirs)].tolist() == theirs.tolist()


@pytest.mark.rows(2)
def test_rows_are_packed_where_samples_stay_apart_and_else_padded(loaded: Loaded, caplog: Any) -> None:
    with torch.no_grad():
        padded = loaded.model(batch(loaded, packed=False))
    with caplog.at_level(logging.INFO, "tiryns"):
        layout = choose_layout("auto", loaded.objective, loaded.model)
    try:
        assert layout == ("packed" if loaded.name in VARYING else "padded")
        if layout == "padded":
            assert "rows are padded:" in caplog.text
        with torch.no_grad():
            again = loaded.model(batch(loaded, packed=layout == "packed"))
        assert float(again["loss"]) == pytest.approx(float(padded["loss"]), rel=1e-4)
        assert int(again["correct"]) == int(padded["correct"])
    finally:  # the other tests want rows padded
        if layout == "packed":
            loaded.model.core.set_attn_implementation(loaded.model._attention)
            loaded.model.position_offset = None


def test_processor_saved_or_pickled_is_the_same_and_keeps_what_is_for_videos(
    loaded: Loaded, tmp_path: Path
) -> None:
    loaded.vision.processor.save_pretrained(tmp_path)
    for copy in (load_processor(str(tmp_path)), pickle.loads(pickle.dumps(loaded.vision))):
        again = copy.images.ids((300, 60)), copy.images.inputs(picture(300, 60))
        assert list(again[0]) == list(loaded.vision.images.ids((300, 60)))
        for name, value in loaded.vision.images.inputs(picture(300, 60)).items():
            np.testing.assert_array_equal(again[1][name], value)
    if loaded.name in ("qwen2_vl", "qwen3_vl", "internvl"):
        saved = json.loads((tmp_path / "processor_config.json").read_text())
        assert saved["video_processor"]["video_processor_type"] == "Qwen2VLVideoProcessor"
        assert type(loaded.vision.processor).__name__ == saved["processor_class"]


def test_options_of_the_image_processor_are_taken_or_named(tmp_path: Path) -> None:
    folder = str(save_image_text_model("idefics3", tmp_path))
    tiled, whole = (load_processor(folder, {"do_image_splitting": split}) for split in (True, False))
    assert whole.images.fixed
    assert len(whole.images.ids((300, 200))) < len(tiled.images.ids((300, 200)))
    with pytest.raises(
        ValueError, match=r"options='do_image_spliting'; .* Did you mean 'do_image_splitting'"
    ):
        load_processor(folder, {"do_image_spliting": False})


@pytest.mark.parametrize("loaded", ["idefics3"], indirect=True)
def test_architecture_that_joins_text_and_image_otherwise_is_refused_by_name(loaded: Loaded) -> None:
    vision = {"hidden_size": 32, "num_hidden_layers": 1, "num_global_layers": 1, "attention_heads": 2}
    text = {**TEXT, "vocab_size": 64, "cross_attention_layers": [1], "pad_token_id": 0}
    config = AutoConfig.for_model("mllama", vision_config=vision, text_config=text)
    model = AutoModelForImageTextToText.from_config(config)
    with pytest.raises(
        ValueError, match=r"MllamaForConditionalGeneration does not put features of images in place"
    ):
        loaded.objective.task_model(model)
