"""An energon data set as the data of a run: its conversations for reports, and its micro-batches in global batches."""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import torch
from megatron.energon import Sample, stateless
from megatron.energon import edataclass as sample_type
from megatron.energon.cache.file_store import WebdatasetFileStore
from megatron.energon.epathlib import EPath
from PIL import Image

from tiryns.conf.data.vision import Energon
from tiryns.conf.trainer import check_length
from tiryns.runner.config.calling import takes_settings
from tiryns.runner.data.batches import share_of
from tiryns.runner.data.energon.loader import EnergonDataloader, EnergonPass
from tiryns.runner.data.energon.module import EnergonMultiModalDataModule
from tiryns.runner.data.energon.source import ErrorCollector, count_samples, fingerprint, samples_in_order
from tiryns.runner.data.energon.tasks import ConversationTaskEncoder, identity, read_conversation
from tiryns.runner.data.micro_batch import Collate, MicroBatch, Share
from tiryns.runner.data.replicas import Replica
from tiryns.runner.data.vision.conversation_encoder import ConversationEncoder
from tiryns.runner.data.vision.conversations import Conversation, ConversationReader
from tiryns.runner.data.vision.image_text import ConversationData
from tiryns.runner.data.vision.images import decode_image
from tiryns.runner.data.vision.processors import conversation_texts, find_processor
from tiryns.runner.protocols import RunData
from tiryns.runner.samplers import GlobalBatchSampler


class GlobalBatchStream:
    """This rank's shares of global batches `start` to `stop - 1`, of `num_micro` micro-batches each.

    It has a length (the whole run's), so Lightning prefetches no batch. A checkpoint would count such a batch as used.
    """

    def __init__(self, stream: EnergonDataloader, num_micro: int, start: int, stop: int) -> None:
        self.stream, self.num_micro, self.start, self.stop = stream, num_micro, start, stop

    def __len__(self) -> int:
        return self.stop

    def __iter__(self) -> Iterator[Share]:
        for _ in range(self.start, self.stop):
            yield named_share([next(self.stream) for _ in range(self.num_micro)])


class EvaluationPass:
    """Yields every validation sample once over all ranks. A finished rank yields fillers until all ranks are finished."""

    def __init__(
        self, loader: EnergonPass, filler: Callable[[], MicroBatch], replica: Replica, device: torch.device
    ) -> None:
        self.loader, self.filler, self.replica, self.device = loader, filler, replica, device

    def __iter__(self) -> Iterator[Share]:
        batches = iter(self.loader)
        while True:
            micro_batch = next(batches, None)
            num_unfinished = torch.tensor(float(micro_batch is not None), device=self.device)
            if self.replica.size > 1:
                torch.distributed.all_reduce(num_unfinished, group=self.replica.group)
            if not num_unfinished:
                return
            yield named_share([self.filler() if micro_batch is None else micro_batch])


def named_share(micro_batches: list[MicroBatch]) -> Share:
    """Returns micro-batches as a share, with their `sample_names` joined."""
    names = [name for micro_batch in micro_batches for name in micro_batch.pop("sample_names")]
    return {**share_of(micro_batches), "sample_names": names}


@sample_type
class FoundConversation(Sample):
    """A conversation, and the identity of its sample. The images are named by data set and file."""

    conversation: Conversation
    identity: str


class ReadConversations(ConversationTaskEncoder):
    """A task encoder that yields conversations, without tokens or pixels."""

    def __init__(self, reader: ConversationReader) -> None:
        self.reader = reader

    @stateless
    def encode_sample(self, sample: Sample) -> FoundConversation:
        """Returns the conversation of a sample. Raises ValueError if the sample has none."""
        conversation, _ = read_conversation(sample, self.reader)
        with_files = conversation._replace(images=[_file(sample, name) for name in conversation.images])
        return FoundConversation.derive_from(sample, conversation=with_files, identity=identity(sample))


class ShardImages:
    """Images from shards, by data set and file."""

    def read(self, reference: str, where: str) -> Image.Image:
        """Returns the image in RGB. Raises UndecodableImage for a broken one."""
        path, _, name = reference.rpartition("#")
        content, _ = WebdatasetFileStore(EPath(path))[name]
        return decode_image(content, f"{where}: the image {name!r}")


class Examples:
    """The conversations of a split, and the number of each sample by its identity."""

    def __init__(self, samples: Iterable[FoundConversation], encoder: ConversationEncoder) -> None:
        by_name = {item.identity: item.conversation for item in samples}
        self.examples = list(by_name.values())
        self.numbers = {name: number for number, name in enumerate(by_name)}
        self.encoder, self.images = encoder, ShardImages()

    def __len__(self) -> int:
        return len(self.examples)


def _file(sample: Sample, name: str) -> str:
    """Returns the path `data set#file` of an image: the file with the ending `name`, else the first that is not text."""
    assert sample.__sources__
    source = sample.__sources__[0]
    file_name = f"{sample.__key__}.{name}"
    others = (file for file in source.file_names if not file.endswith((".json", ".txt")))
    return f"{source.dataset_path}#{file_name if file_name in source.file_names else next(others, name)}"


SHARED = (
    *("path", "micro_batch_size", "global_batch_size", "num_workers", "num_val_workers", "row_length"),
    *("shuffle_buffer_size", "max_samples_per_sequence", "packing_buffer_size", "max_bad_samples"),
    "allow_dataset_code",
)
"""Settings that the data module for Lightning takes by the same name."""


class EnergonData(ConversationData, EnergonMultiModalDataModule, RunData):
    """The streams of `EnergonMultiModalDataModule` as global batches of `global_batch_size` samples (rows, if packed).

    A global batch is `micro_batch_size` x replicas x micro-batches. Its samples depend on the layout too, so a run
    resumes only in the layout of its checkpoint. Example: `tiryns experiment=vlm_shapes_energon`
    """

    serves_global_batches = True
    settings: Energon
    test_names = ()

    @takes_settings(Energon)
    def __init__(self, settings: Energon) -> None:
        super().__init__(
            tokenizer=None, image_processor=None, seq_length=settings.max_length,
            **{name: getattr(settings, name) for name in SHARED}, **settings.train_options,
        )  # fmt: skip
        self.settings, self.layout = settings, settings.layout
        self.read_row = ConversationReader(settings.columns, settings.caption_prompt)
        self.validation: dict[str, Examples] = {}
        self.test: dict[str, Examples] = {}
        self.prepared = False
        self.start = 0

    def prepare_data(self) -> None:
        """Checks the data set, loads the processor, and reads the validation split. ValueError names a bad sample."""
        if self.prepared:
            return
        super().prepare_data()
        self.num_samples = count_samples(self.path, "train")
        self.vision = find_processor(self.settings, self._texts)
        self.tokenizer, self.image_processor = self.vision.tokenizer, self.vision.processor.image_processor
        if count_samples(self.path, "val"):
            samples = samples_in_order(self.path, "val", ReadConversations(self.read_row))
            self.validation = {"validation": Examples(samples, self.make_encoder())}
        self.validation_names = [*self.validation]
        self.prepared = True

    def make_task_encoder(self, split: str, errors: ErrorCollector) -> ConversationTaskEncoder:
        """Returns the task encoder, which makes micro-batches of the objective from samples."""
        return ConversationTaskEncoder(
            encoder=self.make_encoder(), reader=self.read_row, collate=self.collator,
            row_length=self.row_length, errors=errors,
            numbers=self.validation["validation"].numbers if split == "val" else None,
            packed=self.layout == "packed",
        )  # fmt: skip

    def connect(
        self,
        make_sampler: Callable[..., GlobalBatchSampler],
        collator: Collate,
        max_steps: int,
        max_epochs: float | None,
        seed: int,
        accept_changes: bool,
    ) -> int:
        """Sets the collator; returns the number of global batches. ValueError for a non-default sampler or no length."""
        name = getattr(getattr(make_sampler, "func", make_sampler), "__name__", "")
        if name != "Shuffled":
            raise ValueError(
                f"the sampler {name} chooses samples by their number, but data=energon is a stream that shuffles by "
                "itself (data.shuffle_buffer_size): leave the sampler at its default, or use data=image_text"
            )
        check_length(max_steps, max_epochs)
        self.collator, self.seed, self.accept_changes = collator, seed, accept_changes
        if max_steps < 0:
            if self.packing_buffer_size is not None:
                raise ValueError(
                    "an epoch's number of packed rows is unknown before reading it: give trainer.max_steps instead of "
                    "trainer.max_epochs, or set data.packing_buffer_size=null"
                )
            assert max_epochs is not None
            max_steps = math.ceil(max_epochs * self.num_samples / self.global_batch_size)
        self.max_steps = max_steps
        return max_steps

    def epoch_at(self, step: int) -> float:
        """Returns the passes over the training split so far, estimated from this replica's share."""
        return self.skip_budget.samples * self.data_parallel().size / self.num_samples

    def train_dataloader(self) -> GlobalBatchStream:
        """Returns batches after the checkpoint. ValueError unless micro_batch_size x replicas divides a global batch."""
        replicas = self.data_parallel().size
        num_micro, rest = divmod(self.global_batch_size, self.micro_batch_size * replicas)
        if rest:
            raise ValueError(
                f"a global batch of {self.global_batch_size} is not a multiple of data.micro_batch_size="
                f"{self.micro_batch_size} x {replicas} ranks; change sampler.global_batch_size or one of them"
            )
        return GlobalBatchStream(super().train_dataloader(), num_micro, self.start, self.max_steps)

    def val_dataloader(self) -> list[EvaluationPass]:
        """Returns the pass over the validation split, shared by all ranks; an empty list without such a split."""
        if not self.validation:
            return []
        assert self.trainer is not None
        filler = self.make_task_encoder("val", ErrorCollector(0)).filler
        device = self.trainer.strategy.root_device
        return [EvaluationPass(self.validation_pass(), filler, self.data_parallel(), device)]

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resumes the stream from a checkpoint; raises as `EnergonMultiModalDataModule.load_state_dict`."""
        super().load_state_dict(state)
        self.start = state["global_batches"]

    def state_dict(self) -> dict[str, Any]:
        """Returns the number of global batches so far, and the state of the stream; a collective operation."""
        assert self.trainer is not None
        return {"global_batches": self.trainer.global_step, **super().state_dict()}

    def lineage(self) -> dict[str, object]:
        """Returns the data set's fingerprint and the number of workers, which decide the order, for the manifest."""
        return {"data": fingerprint(self.path), "order": {"workers": self.settings.num_workers}}

    def describe(self) -> dict[str, str]:
        unit = "samples" if self.packing_buffer_size is None else f"rows of up to {self.row_length} tokens"
        return {
            "source": f"energon data set {self.path}",
            "training": f"{self.num_samples:,} samples",
            **{name: f"{len(examples):,} samples" for name, examples in self.validation.items()},
            "vocabulary": f"{len(self.tokenizer):,} tokens",
            "global batch": f"{self.global_batch_size} {unit}",
            "micro-batch": f"{self.micro_batch_size} of them, {self.layout}",
        }

    def _texts(self) -> Iterator[str]:
        samples = samples_in_order(self.path, "train", ReadConversations(self.read_row))
        first = islice(samples, self.settings.tokenizer_samples)
        return conversation_texts(item.conversation for item in first)
