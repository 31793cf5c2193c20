"""Rows and a folder of images become global batches; what is wrong with them is named."""

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from torch._utils import ExceptionWrapper

from tests.support.image_text_models import save_image_text_model
from tests.support.vision import SMALL, compose_vision, tiny_vision
from tiryns.runner.build import build
from tiryns.runner.data.batches import GlobalBatches
from tiryns.runner.run.errors import explain
from tiryns.runner.samplers import Sequential, SplitModality

Make = Callable[..., Any]


@pytest.fixture
def rows(tmp_path: Path) -> list[dict[str, Any]]:
    """Twelve questions on as many images, every third without, in a folder that holds all of it."""
    (tmp_path / "images").mkdir()
    found = []
    for i in range(12):
        row: dict[str, Any] = {"id": f"q{i}", "question": f"what number is {i}?", "answer": str(i)}
        if i % 3:
            Image.new("RGB", (9 + i, 9), (i * 20, 0, 0)).save(tmp_path / "images" / f"{i}.png")
            row["image"] = f"images/{i}.png"
        found.append(row)
    return found


@pytest.fixture
def made(tmp_path: Path, rows: list[dict[str, Any]]) -> Make:
    """Writes the rows and prepares them: `made("data.max_length=9")`."""

    def make(*overrides: str, model: Sequence[str] = ("model=llava_tiny", *SMALL)) -> Any:
        path = tmp_path / "train.jsonl"
        path.write_text("".join((json.dumps(row) if row else "{oops") + "\n" for row in rows))
        choice = ["data=image_text", f"data.train={path}", "data.validation_documents=2", *model]
        data = build(compose_vision(*choice, *overrides).data)
        data.prepare_data()
        return data

    return make


def test_samples_bring_tokens_labels_and_the_pixels_of_their_images(made: Make) -> None:
    data = made()
    train = data.train
    chosen = np.arange(len(train))
    extras = train.extras(chosen)
    assert len(train) == 10
    assert extras["images"]["pixel_values"].shape == (int(train.modalities(chosen).sum()), 3, 32, 32)
    assert (extras["image_counts"] > 0).tolist() == train.modalities(chosen).tolist()
    answers = [c.turns[-1].text for c in train.examples]
    lengths = train.lengths(chosen)
    ends = np.cumsum(lengths)
    for text, start, end in zip(answers, ends - lengths, ends, strict=True):
        learnt = [i for i in extras["labels"][start:end] if i != -100]
        assert data.tokenizer.decode(learnt).replace(" ", "").replace("##", "") == f"{text}[SEP]"


def test_held_out_images_are_in_no_training_sample(made: Make) -> None:
    data = made()
    held_out = {name for c in data.validation["validation"].examples for name in c.images}
    assert held_out.isdisjoint(name for c in data.train.examples for name in c.images)
    assert len(data.validation["validation"]) == 2


def test_split_modality_batches_are_of_one_kind() -> None:
    vision = tiny_vision("llava_tiny")
    sampler = SplitModality(
        dataset=vision.data.train, num_epochs=1, num_batches=None, global_batch_size=8, seed=0, image_patches=576,
        drop_last=False,
    )  # fmt: skip
    kinds = []
    for step in range(len(sampler)):
        shown = vision.data.train.modalities(sampler.global_batch(step)[:, 1])
        assert shown.all() or not shown.any()
        kinds.append(bool(shown.any()))
    assert set(kinds) == {True, False}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answer": "no " * 200}, r"line 2 \(sample 'q1'\): \d+ tokens, where data.max_length=128; raise it"),
        (None, r"line 2: no valid JSON"),
    ],
)
def test_bad_row_is_named(
    made: Make, rows: list[dict[str, Any]], change: dict[str, Any] | None, message: str
) -> None:
    rows[1] = {**rows[1], **change} if change else {}
    with pytest.raises((ValueError, FileNotFoundError), match=rf"train.jsonl, {message}"):
        made("data.max_length=128")


def test_training_sets_with_names_are_refused(made: Make, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^row 0 is a str; expected a mapping"):
        made(f"data.train={{a: {tmp_path}/train.jsonl, b: {tmp_path}/train.jsonl}}")


@pytest.mark.parametrize("too_long", ["skip", "truncate"])
def test_long_samples_are_left_out_or_cut_and_counted(
    made: Make, rows: list[dict[str, Any]], too_long: str, caplog: Any
) -> None:
    rows[1]["answer"] = "no " * 200
    with caplog.at_level(logging.WARNING, "tiryns"):
        data = made(f"data.too_long={too_long}", "data.validation_documents=0", "data.max_length=128")
    assert len(data.train) == (11 if too_long == "skip" else 12)
    assert data.train.lengths(np.arange(len(data.train))).max() <= 128
    told = {"skip": "1 of 12 samples are too long and left out", "truncate": "the ends of 1 of 12 samples"}[
        too_long
    ]
    assert told in caplog.text


def test_model_that_reads_no_images_is_named(made: Make) -> None:
    message = r"the model reads no images: choose one that does, such as model=llava_tiny"
    with pytest.raises(ValueError, match=message):
        tiny_vision("modernbert_tiny")


def test_broken_image_is_named_although_a_loader_process_found_it(made: Make, tmp_path: Path) -> None:
    data = made()
    broken = next(c for c in data.train.examples if c.images)
    (tmp_path / broken.images[0]).write_bytes(b"no image")
    try:
        batches(data)[0]
    except ValueError:
        handed_on = ExceptionWrapper(where="in DataLoader worker process 0")
    with pytest.raises(ValueError, match="Caught UndecodableImage in DataLoader worker process 0") as caught:
        handed_on.reraise()
    message = explain(caught.value)
    assert message is not None
    assert message.startswith(
        f"{broken.where} (sample {broken.id!r}): the image {broken.images[0]!r} cannot be decoded"
    )
    assert "Traceback" not in message


def test_broken_images_that_may_be_count_for_nothing(made: Make, tmp_path: Path) -> None:
    data = made("data.max_undecodable=1")
    broken = next(i for i, c in enumerate(data.train.examples) if c.images)
    whole = batches(data)[0]
    (tmp_path / data.train.examples[broken].images[0]).write_bytes(b"no image")
    share = batches(data)[0]
    (micro,) = share["micro_batches"]
    assert micro["undecodable"].tolist() == [broken]
    assert broken not in micro["samples"].tolist()
    lost = int((data.train.extras(np.array([broken]))["labels"] != -100).sum())
    assert share["weight"] == whole["weight"] - lost
    assert micro["images"]["pixel_values"].shape == whole["micro_batches"][0]["images"]["pixel_values"].shape


@pytest.fixture
def sized(made: Make, tmp_path: Path) -> Make:
    """The rows for a model whose larger images have more tokens."""
    folder = save_image_text_model("qwen2_vl", tmp_path / "model")
    model = ("model=pretrained", f"model.name_or_path={folder}")
    return lambda *overrides: made("data.validation_documents=0", *overrides, model=model)


def test_each_image_has_the_tokens_of_its_size(sized: Make, tmp_path: Path) -> None:
    for i, size in ((1, (120, 30)), (2, (90, 90))):
        Image.new("RGB", size).save(tmp_path / "images" / f"{i}.png")
    data = sized()
    train, token = data.train, data.collator_arguments()["image_token_id"]
    patches = train.extras(np.array([0, 1, 2]))["image_rows"]["pixel_values"]
    features = [int((train.gather(np.array([i]))[0] == token).sum()) for i in (0, 1, 2)]
    assert features[0] == 0
    assert features[1] != features[2]
    assert (patches // 4).tolist() == features[1:]


def test_image_that_changed_its_size_is_named(sized: Make, tmp_path: Path) -> None:
    train = sized().train
    Image.new("RGB", (120, 30)).save(tmp_path / "images" / "1.png")
    message = r"line 2 \(sample 'q1'\): the image 'images/1.png' has size \(120, 30\)"
    with pytest.raises(ValueError, match=message):
        train.extras(np.array([1]))


def test_image_whose_size_cannot_be_told_is_named_or_stood_in_for(sized: Make, tmp_path: Path) -> None:
    (tmp_path / "images" / "1.png").write_bytes(b"no image")
    message = r"line 2 \(sample 'q1'\): the image 'images/1.png' cannot be decoded"
    with pytest.raises(ValueError, match=message):
        sized()
    data = sized("data.max_undecodable=1")
    (micro,) = batches(data)[0]["micro_batches"]
    assert micro["undecodable"].tolist() == [1]
    token = data.collator_arguments()["image_token_id"]
    assert int((micro["input_ids"] == token).sum()) == len(micro["images"]["pixel_values"]) // 4


def batches(data: Any) -> GlobalBatches:
    from tiryns.runner.objectives import VisionLanguageCollator

    sampler = Sequential(dataset=data.train, num_epochs=1, num_batches=None, global_batch_size=10, seed=0)
    objective = VisionLanguageCollator(**data.collator_arguments())
    return GlobalBatches(data.train, sampler, objective, 0, 1, 0, 1, None, None, packed=False)
