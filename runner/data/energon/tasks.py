"""Makes micro-batches for vision-language models from energon's captions, questions and conversations.

Letters in shapes: D samples, N tokens of all samples, L tokens of one sample.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from megatron import energon
from megatron.energon import CaptioningSample, Sample, TaskEncoder, VQASample, stateless
from megatron.energon import edataclass as sample_type
from torch.utils.data import default_convert

from tiryns.runner.data.energon.source import ErrorCollector
from tiryns.runner.data.micro_batch import Collate, FlatSamples, MicroBatch, Tokenizer
from tiryns.runner.data.read.rows import Row
from tiryns.runner.data.text.holdout import digest
from tiryns.runner.data.vision.conversation_encoder import ConversationEncoder, SampleTooLong
from tiryns.runner.data.vision.conversations import Conversation, ConversationReader
from tiryns.runner.data.vision.images import EncodesInPlaces, ImageEncoder, decode_image, join_images
from tiryns.runner.order.packing import pack


@dataclass(frozen=True)
class MultiModalSampleConfig:
    """Special tokens of samples with images.

    Example:
        >>> MultiModalSampleConfig(image_places=4).image_token
        '<image>'
    """

    image_token: str = "<image>"
    """The tokenizer's token for a feature of an image."""
    image_places: int = 1
    """The number of these tokens per image."""
    ignore_index: int = -100
    """The label of a token that is no target."""

    def encoder(self, tokenizer: Tokenizer, image_processor: Any, max_length: int) -> ConversationEncoder:
        """An encoder of conversations of up to `max_length` tokens. Raises ValueError for an unknown image token."""
        token = tokenizer.get_vocab().get(self.image_token)
        if token is None:
            raise ValueError(f"the tokenizer has no token {self.image_token!r} for images")
        images = ImageEncoder(EncodesInPlaces(image_processor, [token] * self.image_places), token, [token])
        return ConversationEncoder(tokenizer, images, max_length, "error", self.ignore_index)


@sample_type
class RawConversation(Sample):
    """A row of json, and the files of its images by their endings."""

    row: object
    files: dict[str, Any]


@sample_type
class EncodedSample(Sample):
    """Tokens and labels int64 [L], and the model's inputs for each image; or the `problem` that prevents them."""

    input_ids: Any = None
    labels: Any = None
    images: Any = ()
    prompt_length: int = 0
    problem: str | None = None
    too_long: bool = False


@sample_type
class PackedSamples(Sample):
    """Samples of one row."""

    samples: list[EncodedSample]


class PlainDecoder:
    """Decodes json and text; the task encoder decodes images, and nothing is unpickled."""

    def __call__(self, sample: Mapping[str, object]) -> dict[str, object]:
        """Decodes the files of a sample."""
        return {name: self.decode(name, value) for name, value in sample.items()}

    def decode(self, name: str, value: object) -> object:
        """Returns the content of a file by its name, or the error if it cannot be decoded."""
        ending = name.rpartition(".")[2].lower()
        try:
            if isinstance(value, bytes) and ending in ("json", "txt", "text", "caption"):
                return json.loads(value) if ending == "json" else value.decode("utf-8")
        except ValueError as error:
            return error
        return value

    def config(self) -> dict[str, object]:
        """Returns an empty dict, as the decoder has no settings."""
        return {}


@stateless
def cook(sample: dict[str, Any]) -> RawConversation:
    """Splits a crude sample into its json and its other files."""
    files = {name: value for name, value in sample.items() if not name.startswith("__")}
    return RawConversation(**energon.basic_sample_keys(sample), row=files.pop("json", None), files=files)


@dataclass(eq=False, repr=False)
class ConversationTaskEncoder(TaskEncoder):
    """Makes micro-batches of captions, questions and conversations.

    A sample is energon's CaptioningSample or VQASample with undecoded images, or a crude sample: a json row for
    `ConversationReader`. The row names its images by the endings of their files in the shard (`0.png`).

    `collate` makes a micro-batch of flat samples. A sample that cannot be used gets no tokens, and its micro-batch has
    the reason in `bad`, so the stream alone decides which samples are skipped. Packed rows have up to `row_length`
    tokens.
    """

    encoder: ConversationEncoder
    reader: ConversationReader
    collate: Collate
    row_length: int
    errors: ErrorCollector
    numbers: Mapping[str, int] | None = None
    """For evaluation: the index of each sample of the split, by the sample's identity."""
    packed: bool = False

    decoder = PlainDecoder()
    cookers = [energon.Cooker(cook)]  # noqa: RUF012  energon's own class has a list here

    @stateless
    def encode_sample(self, sample: Sample) -> EncodedSample:
        """Returns the tokens, labels and pixels of a sample, or the problem that prevents them."""
        try:
            conversation, files = read_conversation(sample, self.reader)
            prefix = f"{conversation.name()}: the image"
            images = [decode_image(files[name], f"{prefix} {name!r}") for name in conversation.images]
            text, inputs = self.encoder(conversation, images)
        except (ValueError, KeyError, OSError) as error:
            too_long = isinstance(error, SampleTooLong)
            return EncodedSample.derive_from(sample, problem=str(error), too_long=too_long)
        ids, labels, prompt_length, _ = text
        fields = {"input_ids": ids, "labels": labels, "prompt_length": prompt_length}
        return EncodedSample.derive_from(sample, images=inputs, **fields)

    def select_samples_to_pack(self, samples: list[EncodedSample]) -> list[list[EncodedSample]]:
        """Returns the samples of each row; packs whole samples into rows by best fit."""
        lengths = np.array([1 if s.input_ids is None else len(s.input_ids) for s in samples])
        order, bounds = pack(lengths, self.row_length)
        return [[samples[i] for i in order[a:b]] for a, b in pairwise(bounds)]

    @stateless
    def pack_selected_samples(self, samples: list[EncodedSample]) -> PackedSamples:
        """Returns the samples of a row."""
        return PackedSamples.derive_from(samples[0], samples=samples)

    @stateless
    def batch(self, samples: Sequence[EncodedSample | PackedSamples]) -> dict[str, Any]:
        """Returns a micro-batch with `sample_names`, `bad` (problems) and `too_long` (number skipped for length)."""
        flat = [s for one in samples for s in (one.samples if isinstance(one, PackedSamples) else [one])]
        good = [sample for sample in flat if sample.problem is None]
        skips = [s.too_long and self.encoder.too_long == "skip" for s in flat]
        bad = [s.problem for s, skip in zip(flat, skips, strict=True) if s.problem is not None and not skip]
        return {
            **(self.collate(self._flat(good)) if good else self.filler()),
            "sample_names": [place(sample) for sample in good],
            "bad": [*self.errors.drain(), *bad],
            "too_long": sum(skips),
        }

    def filler(self) -> MicroBatch:
        """Returns a micro-batch with weight 0, for a rank that has no samples while other ranks have some."""
        ids = np.zeros(1, dtype=np.int64)
        labels = np.full_like(ids, self.encoder.ignore_index)
        sample = EncodedSample(__key__="filler", __restore_key__=(), input_ids=ids, labels=labels)
        return {**self.collate({**self._flat([sample]), "filler": True}), "sample_names": []}

    def _flat(self, samples: Sequence[EncodedSample]) -> FlatSamples:
        numbers = [(self.numbers or {}).get(identity(sample), -1) for sample in samples]
        return {
            "input_ids": np.concatenate([sample.input_ids for sample in samples]),
            "labels": np.concatenate([sample.labels for sample in samples]),
            "lengths": np.array([len(sample.input_ids) for sample in samples], dtype=np.int32),
            "prompt_lengths": np.array([sample.prompt_length for sample in samples], dtype=np.int64),
            "image_counts": np.array([len(sample.images) for sample in samples], dtype=np.int64),
            **join_images([image for sample in samples for image in sample.images]),
            "undecodable": np.zeros(len(samples), dtype=bool), "samples": np.array(numbers, dtype=np.int64),
            "keys": np.array([digest(place(sample)) for sample in samples], dtype=np.uint64), "filler": False,
            "packed": self.packed, "evaluation": self.numbers is not None,
        }  # fmt: skip


def read_conversation(sample: Sample, reader: ConversationReader) -> tuple[Conversation, Mapping[str, bytes]]:
    """Returns the conversation of a sample, and its image files by name. ValueError names an unusable sample."""
    where = place(sample)
    if isinstance(sample, RawConversation):
        row, files = sample.row, sample.files
    elif isinstance(sample, VQASample):
        row = {"question": sample.context, "answer": sample.answers, "image": ["image"]}
        files = {"image": sample.image}
    elif isinstance(sample, CaptioningSample):
        row, files = {"caption": sample.caption, "image": ["image"]}, {"image": sample.image}
    else:
        raise ValueError(
            f"{where}: is a {type(sample).__name__}; expected a CaptioningSample, a VQASample, or crude samples of json "
            "and images (CrudeWebdataset in .nv-meta/dataset.yaml), or give a task encoder of your own"
        )
    if not isinstance(row, Mapping):
        problem = f"its json is {row!r:.200}"
        if row is None:
            problem = f"has no file ending in .json, only {', '.join(files)}"
        raise ValueError(f"{where}: {problem}; expected an object with named columns")
    conversation = reader(Row(where, row), 0)
    for name in conversation.images:
        if not isinstance(files.get(name), bytes):
            raise ValueError(
                f"{conversation.name()}: there is no image {name!r} in the shard; its files are: {', '.join(files)}"
            )
    return conversation, files


def place(sample: Sample) -> str:
    """Shard and key of a sample, the same for every copy of the data set."""
    return f"{sample.__sources__[0].shard_name}/{sample.__key__}" if sample.__sources__ else sample.__key__


def identity(sample: Sample) -> str:
    """Data set, shard and key of a sample."""
    return f"{sample.__sources__[0].dataset_path}/{place(sample)}" if sample.__sources__ else place(sample)


def flat_tensors(flat: FlatSamples) -> MicroBatch:
    """Flat samples with tensors instead of arrays: a micro-batch without padding or packing."""
    tensors: MicroBatch = default_convert({**flat, "keys": flat["keys"].view(np.int64)})
    return tensors
