"""Data sets of megatron-energon (tar shards, read as a stream) for Lightning."""

import logging
from collections.abc import Mapping
from typing import Any

import lightning.pytorch as pl
import torch
from megatron.energon import (
    SavableDataset,
    TaskEncoder,
    WorkerConfig,
    get_loader,
    get_train_dataset,
    get_val_dataset,
)

from runner.sharding import Replica, replica_of

from .conversation_encoder import ConversationEncoder
from .conversations import ConversationReader
from .energon_errors import Stock, Troubles, check_least, guard
from .energon_loader import EnergonDataloader, EnergonPass, cyclic_iter, savable_loader, settled
from .energon_source import check_source, count_samples, fingerprint
from .energon_state import differences
from .energon_tasks import ConversationTaskEncoder, MultiModalSampleConfig, flat_tensors

log = logging.getLogger("iolaus")

__all__ = [
    "ConversationTaskEncoder",
    "EnergonDataloader",
    "EnergonMultiModalDataModule",
    "MultiModalSampleConfig",
    "cyclic_iter",
]

PARTS = ("train", "val")
"""The splits that are read."""


class EnergonMultiModalDataModule(pl.LightningDataModule):
    """Micro-batches of the training and validation split of an energon data set, `path`; `runner.data.energon_run` makes
    global batches of them.

    Training is an endless stream, validation one pass in order. Lengths are tokens: `seq_length` the longest sample,
    `decoder_seq_length` (the same, if not given) a row of packed samples, which there are with `packing_buffer_size`, the
    number of samples that rows are chosen from. `max_samples_per_sequence` is how many samples of a shard are read in a
    row at most, before another is read from. `num_val_workers` and `validation_task_encoder` are by default those of
    training; without a `task_encoder` samples are conversations about images (`ConversationTaskEncoder`), with the
    special tokens of `multimodal_sample_config`. `kwargs` go to energon's `get_train_dataset`.

    A rank reads the share of its *replica*: ranks that share one (tensor parallel) read the same. `process_groups`, the
    data-parallel process group or something that has it as `dp`, goes before what the trainer's strategy says.

    The state of every replica's stream goes into the checkpoint. It fits no other number of replicas or workers, buffer,
    batch size or packing: energon would go on with another stream without a word, so that is refused, or with
    `accept_changes` the stream begins again. `max_bad_samples` may be left out per replica; `allow_dataset_code` lets a
    data set run code of its own.
    """

    def __init__(
        self,
        path: str,
        tokenizer: Any,
        image_processor: Any,
        seq_length: int = 2048,
        micro_batch_size: int = 1,
        global_batch_size: int = 1,
        num_workers: int = 1,
        num_val_workers: int | None = None,
        pin_memory: bool = True,
        shuffle_buffer_size: int | None = 100,
        max_samples_per_sequence: int | None = None,
        multimodal_sample_config: MultiModalSampleConfig | None = None,
        task_encoder: TaskEncoder | None = None,
        decoder_seq_length: int | None = None,
        packing_buffer_size: int | None = None,
        validation_task_encoder: TaskEncoder | None = None,
        process_groups: Any = None,
        *,
        seed: int = 0,
        max_bad_samples: int = 0,
        allow_dataset_code: bool = False,
        accept_changes: bool = False,
        **kwargs: Any,
    ) -> None:
        """Raises ValueError for sizes below 1."""
        super().__init__()
        check_least(1, seq_length=seq_length, micro_batch_size=micro_batch_size)
        check_least(1, global_batch_size=global_batch_size, packing_buffer_size=packing_buffer_size)
        check_least(
            1, shuffle_buffer_size=shuffle_buffer_size, max_samples_per_sequence=max_samples_per_sequence
        )
        check_least(
            0, num_workers=num_workers, num_val_workers=num_val_workers, max_bad_samples=max_bad_samples
        )
        if decoder_seq_length is not None and decoder_seq_length < seq_length:
            raise ValueError(f"rows of {decoder_seq_length} tokens cannot hold samples of {seq_length}")
        self.path, self.tokenizer, self.image_processor = str(path), tokenizer, image_processor
        self.seq_length, self.row_length = seq_length, decoder_seq_length or seq_length
        self.micro_batch_size, self.global_batch_size = micro_batch_size, global_batch_size
        self.num_workers = num_workers
        self.num_val_workers = num_workers if num_val_workers is None else num_val_workers
        self.pin_memory, self.shuffle_buffer_size = pin_memory, shuffle_buffer_size
        self.max_samples_per_sequence = max_samples_per_sequence
        self.packing_buffer_size = packing_buffer_size
        self.samples = multimodal_sample_config or MultiModalSampleConfig()
        self.task_encoder, self.validation_task_encoder = task_encoder, validation_task_encoder
        self.process_groups, self.seed = process_groups, seed
        self.max_bad_samples, self.allow_dataset_code = max_bad_samples, allow_dataset_code
        self.accept_changes, self.train_options = accept_changes, kwargs
        self.stock = Stock(max_bad_samples)
        self._stream: EnergonDataloader | None = None
        self._to_restore: dict[str, Any] | None = None
        self._evaluation: EnergonPass | None = None

    def prepare_data(self) -> None:
        """Raises ValueError unless `path` is an energon data set with a training split, and brings no code unasked."""
        check_source(self.path, self.allow_dataset_code)
        if not count_samples(self.path, "train"):
            raise ValueError(f"{self.path!r} has no samples in a split 'train'; see its .nv-meta/split.yaml")

    def data_parallel(self) -> Replica:
        """Which of the replicas reads here, of how many, and the group of one rank of each."""
        if self.process_groups is not None:
            group = getattr(self.process_groups, "dp", self.process_groups)
            return Replica(torch.distributed.get_rank(group), torch.distributed.get_world_size(group), group)
        if self.trainer is not None:
            return replica_of(self.trainer)
        if torch.distributed.is_initialized():
            return Replica(torch.distributed.get_rank(), torch.distributed.get_world_size(), None)
        return Replica(0, 1, None)

    def worker_config(self, num_workers: int, troubles: Troubles) -> WorkerConfig:
        """How energon divides samples among the replicas and their workers."""
        rank, size, group = self.data_parallel()
        return WorkerConfig(
            rank=rank,
            world_size=size,
            num_workers=num_workers,
            data_parallel_group=group,
            seed_offset=self.seed,
            global_error_handler=troubles.handle,
        )

    def datasets_provider(
        self, worker_config: WorkerConfig, split: str, task_encoder: TaskEncoder | None = None
    ) -> SavableDataset[Any]:
        """Energon's data set of micro-batches: `train`, shuffled and without end, or `val`, one pass in order.

        Raises:
            ValueError: another split, or fewer samples than there are processes to read them.
        """
        if split not in PARTS:
            raise ValueError(f"there is no split {split!r}; there are: {', '.join(PARTS)}")
        check_source(self.path, self.allow_dataset_code)
        if task_encoder is None:
            task_encoder = self.make_task_encoder(split, Troubles(self.max_bad_samples))
        if split == "val":
            return get_val_dataset(
                self.path,
                split_part="val",
                worker_config=worker_config,
                batch_size=self.micro_batch_size,
                task_encoder=task_encoder,
            )
        readers = worker_config.world_size * max(1, worker_config.num_workers)
        if (count := count_samples(self.path, "train")) < readers:
            raise ValueError(
                f"{self.path!r} has {count} training samples for {worker_config.world_size} ranks x "
                f"{max(1, worker_config.num_workers)} workers; use fewer of them"
            )
        try:
            return get_train_dataset(
                self.path,
                worker_config=worker_config,
                batch_size=self.micro_batch_size,
                shuffle_buffer_size=self.shuffle_buffer_size,
                max_samples_per_sequence=self.max_samples_per_sequence,
                packing_buffer_size=self.packing_buffer_size,
                task_encoder=task_encoder,
                **self.train_options,
            )
        except TypeError as error:
            if not self.train_options:
                raise
            raise ValueError(f"data.train_options={self.train_options}: {error}") from error

    def make_task_encoder(self, split: str, troubles: Troubles) -> TaskEncoder:
        """The task encoder of a split: the one given, or that for conversations about images."""
        given = self.task_encoder if split == "train" else self.validation_task_encoder or self.task_encoder
        return given or ConversationTaskEncoder(
            encoder=self.make_encoder(),
            reader=ConversationReader({}, caption_prompt="describe the image."),
            collate=flat_tensors,
            row_length=self.row_length,
            troubles=troubles,
        )

    def make_encoder(self) -> ConversationEncoder:
        """What makes tokens and pixels of a conversation."""
        return self.samples.encoder(self.tokenizer, self.image_processor, self.seq_length)

    def build(self) -> tuple[EnergonDataloader, Any, None]:
        """Training, validation (None without such a split) and test loader (there is none)."""
        return self.train_dataloader(), self.val_dataloader(), None

    def train_dataloader(self) -> Any:
        """The endless stream of micro-batches."""
        return self.stream()

    def stream(self) -> EnergonDataloader:
        """The training stream, from where the checkpoint left it; made when it is first asked for."""
        if self._stream is None:
            dataset = self._dataset("train", self.num_workers)
            self._stream = EnergonDataloader(savable_loader(dataset, self.pin_memory), self.stock)
            if self._to_restore is not None:
                self._stream.restore_state(self._to_restore)
        return self._stream

    def val_dataloader(self) -> Any:
        """Micro-batches of one pass over this replica's share of the validation split; none without one."""
        return self.evaluation() if count_samples(self.path, "val") else []

    def evaluation(self) -> EnergonPass:
        """The validation split, made when it is first asked for."""
        if self._evaluation is None:
            dataset = self._dataset("val", self.num_val_workers)
            self._evaluation = EnergonPass(settled(get_loader(dataset), self.pin_memory), self.stock)
        return self._evaluation

    def test_dataloader(self) -> None:
        """None: a model is tested on what it was not chosen by, which such a data set has no word for."""
        return None

    def teardown(self, stage: str) -> None:
        """Ends the loaders' workers."""
        for loader in (self._stream, self._evaluation):
            if loader is not None:
                loader.close()
        self._stream = self._evaluation = None

    def on_exception(self, exception: BaseException) -> None:
        """Ends the loaders' workers where training is broken off."""
        self.teardown("fit")

    def state_dict(self) -> dict[str, Any]:
        """Where the stream of every replica stands, and the layout that the states fit; collective."""
        if self._stream is None:
            return {}
        return {"layout": self.layout_of_stream(), "streams": self._gathered(self._stream.save_state())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on with this replica's stream where a checkpoint left it.

        Raises:
            ValueError: the states are of another layout, unless changes are accepted.
        """
        changed = differences(state.get("layout", {}), self.layout_of_stream())
        if not changed:
            self._to_restore = state["streams"][self.data_parallel().rank]
            return
        message = f"the stream of an energon data set goes on only in the layout it was saved in: {changed}"
        if not self.accept_changes:
            raise ValueError(f"{message}. To begin the stream again, set resume_changed_data=true")
        log.warning("%s; it begins again", message)

    def layout_of_stream(self) -> Mapping[str, Any]:
        """All that the state of a stream depends on, by the names of the settings."""
        return {
            "data": fingerprint(self.path),
            "ranks": self.data_parallel().size,
            "data.num_workers": self.num_workers,
            "data.shuffle_buffer_size": self.shuffle_buffer_size,
            "data.max_samples_per_sequence": self.max_samples_per_sequence,
            "data.micro_batch_size": self.micro_batch_size,
            "sampler.global_batch_size": self.global_batch_size,
            "data.packing_buffer_size": self.packing_buffer_size,
            "data.max_length": self.seq_length,
            "data.row_length": self.row_length,
            "data.train_options": repr(sorted(self.train_options.items())),
            "seed": self.seed,
        }

    def _dataset(self, split: str, num_workers: int) -> SavableDataset[Any]:
        troubles = Troubles(self.max_bad_samples)
        dataset = self.datasets_provider(
            self.worker_config(num_workers, troubles), split, self.make_task_encoder(split, troubles)
        )
        guard(dataset, troubles)
        return dataset

    def _gathered(self, mine: Any) -> list[Any]:
        _, size, group = self.data_parallel()
        if size == 1:
            return [mine]
        replicas: list[Any] = [None] * size
        torch.distributed.all_gather_object(replicas, mine, group=group)
        return replicas
