"""Samples of energon's become what the map-style data makes of the same rows; what cannot be used is named."""

import io
import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from megatron.energon import CaptioningSample, SourceInfo, VQASample
from megatron.energon.epathlib import EPath
from PIL import Image

from tests.support.image_text_models import save_image_text_model
from tiryns.runner.data.energon.module import EnergonMultiModalDataModule
from tiryns.runner.data.energon.prepare import write_shards
from tiryns.runner.data.energon.run import ReadConversations
from tiryns.runner.data.energon.source import ErrorCollector
from tiryns.runner.data.energon.tasks import (
    ConversationTaskEncoder,
    MultiModalSampleConfig,
    RawConversation,
    flat_tensors,
)
from tiryns.runner.data.vision.conversations import ConversationReader
from tiryns.runner.data.vision.processors import (
    VisionProcessor,
    load_processor,
    make_processor,
    train_conversation_tokenizer,
)

PLACES = 4


@pytest.fixture(scope="module")
def vision() -> VisionProcessor:
    texts = ["USER: what colour is number one two three?", "ASSISTANT: red green blue"] * 20
    tokenizer = train_conversation_tokenizer(texts, kind="wordpiece", vocab_size=120, lowercase=True)
    return make_processor("llava", tokenizer, image_size=8, image_places=PLACES)


def picture(shade: int = 0, size: tuple[int, int] = (8, 8)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, (shade, 0, 0)).save(file, "PNG")
    return file.getvalue()


def row(i: int, **values: Any) -> dict[str, bytes]:
    shown = {"question": f"what colour is number {['one', 'two', 'three'][i % 3]}?", "answer": "red"}
    if i % 3:
        shown |= {"image": ["0.png"]}  # type: ignore[dict-item]
    return {"json": json.dumps({"id": str(i), **shown, **values}).encode(), "0.png": picture(10 * i)}


def module(folder: Path, vision: VisionProcessor, **settings: Any) -> EnergonMultiModalDataModule:
    data = EnergonMultiModalDataModule(
        str(folder),
        vision.tokenizer,
        vision.processor.image_processor,
        **{
            "seq_length": 40, "micro_batch_size": 2, "num_workers": 0, "shuffle_buffer_size": None,
            "multimodal_sample_config": MultiModalSampleConfig(image_places=PLACES), **settings,
        },
    )  # fmt: skip
    data.prepare_data()
    return data


def written(folder: Path, files: list[dict[str, bytes]], validation: int = 0) -> Path:
    splits = ["train"] * (len(files) - validation) + ["val"] * validation
    write_shards(zip(splits, files, strict=True), folder, 4)
    return folder


def encoder(vision: VisionProcessor, **settings: Any) -> ConversationTaskEncoder:
    given = {"row_length": 64, "errors": ErrorCollector(0), "collate": flat_tensors, **settings}
    made = vision.encoder(40, given.pop("too_long", "error"))
    return ConversationTaskEncoder(encoder=made, reader=ConversationReader({}, "describe."), **given)


def sample(files: dict[str, Any], row: Any) -> RawConversation:
    return RawConversation(__key__="7", __restore_key__=(), row=row, files=files)


def test_micro_batch_has_tokens_labels_and_pixels_of_each_sample(
    tmp_path: Path, vision: VisionProcessor
) -> None:
    data = module(written(tmp_path / "set", [row(i) for i in range(6)]), vision)
    batch = next(data.train_dataloader())
    ends = np.cumsum(batch["lengths"])
    assert len(batch["input_ids"]) == len(batch["labels"]) == ends[-1]
    assert len(batch["images"]["pixel_values"]) == batch["image_counts"].sum()
    assert (batch["input_ids"] == vision.tokenizer.convert_tokens_to_ids("<image>")).sum() == PLACES * len(
        batch["images"]["pixel_values"]
    )
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        said = batch["labels"][start:end]
        assert str(vision.tokenizer.decode(said[said != -100])).split() == ["red", "[SEP]"], (
            "answers alone are learnt"
        )
    data.teardown("fit")


def test_energons_own_samples_are_read_too(vision: VisionProcessor) -> None:
    task = encoder(vision)
    asked = VQASample(__key__="a", __restore_key__=(), image=picture(), context="one?", answers=["red"])
    told = CaptioningSample(__key__="b", __restore_key__=(), image=picture(), caption="red")
    crude = sample({"0.png": picture()}, {"question": "one?", "answer": "red", "image": ["0.png"]})
    found = [task.encode_sample(s) for s in (asked, told, crude)]
    assert [s.problem for s in found] == [None] * 3
    assert [[i["pixel_values"].shape for i in s.images] for s in found] == [[(1, 3, 8, 8)]] * 3
    assert (found[0].input_ids == found[2].input_ids).all()
    assert (found[0].labels == found[2].labels).all()


def test_image_of_energons_own_sample_is_named_by_its_file() -> None:
    source = SourceInfo(
        dataset_path=EPath("set"), index=0, shard_name="train.tar", file_names=("a.json", "a.jpg")
    )
    asked = VQASample(
        __key__="a", __restore_key__=(), __sources__=(source,), image=b"", context="one?", answers=["red"]
    )
    found = ReadConversations(ConversationReader({}, "describe.")).encode_sample(asked)
    assert found.conversation.images == [f"{source.dataset_path}#a.jpg"]


def test_images_have_the_tokens_of_their_size(tmp_path: Path) -> None:
    vision = load_processor(str(save_image_text_model("qwen2_vl", tmp_path)))
    task = encoder(vision)
    values = {"question": "one?", "answer": "red", "image": ["0.png"]}
    found = [task.encode_sample(sample({"0.png": picture(size=size)}, values)) for size in ((8, 8), (90, 30))]
    batch = task.batch(found)
    features = [int((s.input_ids == vision.images.feature_id).sum()) for s in found]
    assert features[0] != features[1]
    assert (batch["image_rows"]["pixel_values"] // 4).tolist() == features
    assert batch["images"]["image_grid_thw"].prod(1).tolist() == [4 * n for n in features]


def test_processor_of_many_sizes_is_refused_where_images_have_one_number_of_places(tmp_path: Path) -> None:
    vision = load_processor(str(save_image_text_model("qwen2_vl", tmp_path)))
    config = MultiModalSampleConfig(image_token="<|image_pad|>", image_places=4)
    with pytest.raises(ValueError, match=r"makes images of shapes .* as all have 4 places"):
        config.encoder(vision.tokenizer, vision.processor.image_processor, 40)
    with pytest.raises(ValueError, match=r"the tokenizer has no token '<image>' for images"):
        MultiModalSampleConfig().encoder(vision.tokenizer, vision.processor.image_processor, 40)


@pytest.mark.parametrize(
    ("files", "values", "message"),
    [
        ({"0.png": b"no"}, {"question": "one?", "answer": "red", "image": ["0.png"]}, "'0.png' cannot be decoded"),
        ({}, {"question": "one?", "answer": "red", "image": ["0.png"]}, "there is no image '0.png' in the shard"),
        ({}, {"question": "one? " * 40, "answer": "red"}, "tokens, where data.max_length=40"),
        ({}, [1, 2], "its json is [1, 2]"),
        ({"jpg": b"x"}, None, "has no file ending in .json, only jpg"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named(
    vision: VisionProcessor, files: dict[str, bytes], values: Any, message: str
) -> None:
    found = encoder(vision).encode_sample(sample(files, values))
    assert found.input_ids is None
    assert message in str(found.problem)
    assert str(found.problem).startswith("7"), "the sample is named"


def test_long_samples_are_left_out_and_counted_where_that_is_asked_for(vision: VisionProcessor) -> None:
    task = encoder(vision, too_long="skip")
    long = sample({}, {"question": "one? " * 40, "answer": "red"})
    short = sample({}, {"question": "one?", "answer": "red"})
    batch = task.batch([task.encode_sample(s) for s in (long, short, long)])
    assert (len(batch["lengths"]), batch["too_long"], batch["bad"]) == (1, 2, [])


def test_rows_are_filled_and_hold_whole_samples(tmp_path: Path, vision: VisionProcessor) -> None:
    folder = written(tmp_path / "set", [row(i) for i in range(24)])
    plain, packed = (
        module(folder, vision, micro_batch_size=1, packing_buffer_size=p, row_length=64) for p in (None, 12)
    )
    samples = {b["sample_names"][0]: b for b in (next(plain.train_dataloader()) for _ in range(24))}
    lengths, met = [], []
    for _ in range(8):
        batch = next(packed.train_dataloader())
        lengths.append(int(batch["lengths"].sum()))
        starts = np.cumsum(batch["lengths"]) - batch["lengths"].numpy()
        for name, start, length in zip(batch["sample_names"], starts, batch["lengths"].tolist(), strict=True):
            for what in ("input_ids", "labels"):
                assert torch.equal(batch[what][start : start + length], samples[name][what])
            met.append(name)
    assert max(lengths) <= 64
    assert np.mean(lengths) > 40, "rows are filled"
    assert len(met) > 16


@pytest.mark.slow
def test_undecodable_image_ends_the_stream_or_is_left_out_and_counted(
    tmp_path: Path, vision: VisionProcessor
) -> None:
    files = [row(i) for i in range(6)]
    files[4]["0.png"] = b"broken"
    folder = written(tmp_path / "set", files)
    stream = module(folder, vision).train_dataloader()
    with pytest.raises(ValueError, match=r"000000004.*cannot be decoded.*set data\.max_bad_samples"):
        list(islice(stream, 3))
    data = module(folder, vision, max_bad_samples=1)
    names = [name for _ in range(9) for name in next(data.train_dataloader())["sample_names"]]
    assert len(names) == 15, "three passes, one sample missing in each"
    assert len(data.skip_budget.bad) == 1, "met three times, counted once"
    state = data.train_dataloader().save_state()
    resumed = module(folder, vision, max_bad_samples=1)
    resumed.train_dataloader().restore_state(state)
    assert resumed.skip_budget.bad == data.skip_budget.bad


@pytest.mark.parametrize("workers", [0, 1])
def test_shard_of_which_nothing_can_be_read_does_not_spin(
    tmp_path: Path, vision: VisionProcessor, workers: int
) -> None:
    folder = written(tmp_path / "set", [row(i) for i in range(4)])
    (folder / "train-000000.tar").unlink()
    data = module(folder, vision, num_workers=workers)
    with pytest.raises(ValueError, match=r"train-000000\.tar'.*cannot be read"):
        next(data.train_dataloader())
    data.teardown("fit")
    with pytest.raises(ValueError, match=r"More than data\.max_bad_samples=2"):
        next(module(folder, vision, max_bad_samples=2).train_dataloader())


@pytest.mark.slow
def test_validation_is_one_pass_in_order_each_time(tmp_path: Path, vision: VisionProcessor) -> None:
    folder = written(tmp_path / "set", [row(i) for i in range(9)], validation=5)
    for workers in (0, 1):
        data = module(folder, vision, num_val_workers=workers)
        train, held_out = data.build()
        assert len(train) == 2
        first = [name for batch in held_out for name in batch["sample_names"]]
        assert sorted(first) == [f"val-00000{i // 4}.tar/00000000{4 + i}" for i in range(5)]
        assert [name for batch in held_out for name in batch["sample_names"]] == first
        data.teardown("fit")
    assert module(written(tmp_path / "alone", [row(0), row(1)]), vision).val_dataloader() == []


def test_settings_that_cannot_be_are_refused(tmp_path: Path, vision: VisionProcessor) -> None:
    folder = written(tmp_path / "set", [row(i) for i in range(3)])
    with pytest.raises(ValueError, match=r"data\.micro_batch_size must be 1 or more, not 0"):
        module(folder, vision, micro_batch_size=0)
    with pytest.raises(ValueError, match="3 training samples for 1 ranks x 4 workers"):
        module(folder, vision, num_workers=4).train_dataloader()
