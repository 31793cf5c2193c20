"""Data sets of megatron-energon (tar shards, read as a stream) for Lightning."""

import logging
from collections.abc import Mapping
from typing import Any, Literal

import lightning.pytorch as pl
from megatron.energon import (
    SavableDataset,
    TaskEncoder,
    WorkerConfig,
    get_loader,
    get_train_dataset,
    get_val_dataset,
)

from iolaus.runner.data.energon.errors import ErrorCollector, SkipBudget, check_least, guard
from iolaus.runner.data.energon.loader import (
    EnergonDataloader,
    EnergonPass,
    savable_loader,
    worker_safe,
)
from iolaus.runner.data.energon.replicas import find_replica, gathered
from iolaus.runner.data.energon.source import check_readers, check_source, count_samples, fingerprint
from iolaus.runner.data.energon.state import differences
from iolaus.runner.data.energon.tasks import (
    ConversationTaskEncoder,
    flat_tensors,
    sample_config,
)
from iolaus.runner.data.vision.conversation_encoder import ConversationEncoder
from iolaus.runner.data.vision.conversations import ConversationReader
from iolaus.runner.run.replicas import Replica

logger = logging.getLogger("iolaus")

PARTS = ("train", "val")


class EnergonMultiModalDataModule(pl.LightningDataModule):
    """Micro-batches of an energon data set, `path`: training is an endless stream, validation one pass in order.

    Lengths are tokens: `seq_length` the longest sample, `row_length` (the same, if not given) a row of packed
    samples, which there are with `packing_buffer_size`, the number of samples that rows are chosen from.
    `decoder_seq_length` is for task encoders of encoder-decoder models. `max_samples_per_sequence` is how many
    samples of a shard are read in a row at most. Workers and task encoder of validation are by default those of
    training; without a `task_encoder` samples are conversations about images, with the special tokens of
    `multimodal_sample_config`. `kwargs` go to `get_train_dataset`.

    A rank reads the share of its *replica*: ranks that share one (tensor or context parallel) read the same. That is
    `pg_collection.dp.rank()` of `.size()` (`process_groups` may be that group itself), else what the trainer's strategy
    says, else the rank of torch.distributed, else 0 of 1.

    The state of every replica's stream goes into the checkpoint. It fits no other number of replicas or workers,
    buffer, batch size or packing: energon would go on with another stream without a word, so that is refused, or with
    `accept_changes` the stream begins again. On purpose unlike Megatron-Bridge's, ranks of one replica read alike,
    validation is neither shuffled nor endless, and a task encoder is made where none is given. `max_bad_samples` may
    be left out per replica; `allow_dataset_code` lets a data set run code of its own.

    Example:
        >>> data = EnergonMultiModalDataModule("shards", tokenizer=None, image_processor=None, num_workers=0)
        >>> config = data._build_worker_config(data.num_workers)
        >>> config.rank, config.world_size, data.train_dataloader_object
        (0, 1, None)
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
        multimodal_sample_config: Any = None,
        task_encoder: TaskEncoder | None = None,
        decoder_seq_length: int | None = None,
        packing_buffer_size: int | None = None,
        validation_task_encoder: TaskEncoder | None = None,
        pg_collection: Any = None,
        *,
        process_groups: Any = None,
        row_length: int | None = None,
        seed: int = 0,
        max_bad_samples: int = 0,
        allow_dataset_code: bool = False,
        accept_changes: bool = False,
        **kwargs: Any,
    ) -> None:
        """Raises ValueError for sizes below 1."""
        super().__init__()
        check_least(1, seq_length=seq_length, decoder_seq_length=decoder_seq_length)
        check_least(1, micro_batch_size=micro_batch_size, global_batch_size=global_batch_size)
        check_least(1, packing_buffer_size=packing_buffer_size, shuffle_buffer_size=shuffle_buffer_size)
        check_least(1, max_samples_per_sequence=max_samples_per_sequence)
        check_least(0, num_workers=num_workers, num_val_workers=num_val_workers)
        check_least(0, max_bad_samples=max_bad_samples)
        if row_length is not None and row_length < seq_length:
            raise ValueError(f"rows of {row_length} tokens cannot hold samples of {seq_length}")
        self.path, self.tokenizer, self.image_processor = str(path), tokenizer, image_processor
        self.seq_length, self.row_length = seq_length, row_length or seq_length
        self.decoder_seq_length = decoder_seq_length
        self.micro_batch_size, self.global_batch_size = micro_batch_size, global_batch_size
        self.num_workers = num_workers
        self.num_val_workers = num_workers if num_val_workers is None else num_val_workers
        self.pin_memory, self.shuffle_buffer_size = pin_memory, shuffle_buffer_size
        self.max_samples_per_sequence = max_samples_per_sequence
        self.packing_buffer_size = packing_buffer_size
        self.multimodal_sample_config = multimodal_sample_config
        self.task_encoder = self.validation_task_encoder = task_encoder
        if validation_task_encoder is not None:
            self.validation_task_encoder = validation_task_encoder
        self.pg_collection = process_groups if pg_collection is None else pg_collection
        self.seed, self.max_bad_samples, self.allow_dataset_code = seed, max_bad_samples, allow_dataset_code
        self.accept_changes, self.train_options = accept_changes, kwargs
        self.skip_budget = SkipBudget(max_bad_samples)
        self.errors = {split: ErrorCollector(max_bad_samples) for split in PARTS}
        self.init_global_step = 0
        self.train_dataloader_object: EnergonDataloader | None = None
        self.val_dataloader_object: EnergonPass | None = None
        self._to_restore: dict[str, Any] | None = None

    def prepare_data(self) -> None:
        """Raises ValueError unless `path` is an energon data set with a training split, and brings no code unasked."""
        check_source(self.path, self.allow_dataset_code)
        if not count_samples(self.path, "train"):
            raise ValueError(f"{self.path!r} has no samples in a split 'train'; see its .nv-meta/split.yaml")

    def data_parallel(self) -> Replica:
        """This process's replica, their number, and the group of one rank of each."""
        return find_replica(self.pg_collection, self.trainer)

    def _build_worker_config(self, num_workers: int, split: str = "train") -> WorkerConfig:
        """Energon's configuration of replicas and workers for a split."""
        rank, size, group = self.data_parallel()
        return WorkerConfig(
            rank=rank,
            world_size=size,
            num_workers=num_workers,
            data_parallel_group=group,
            seed_offset=self.seed,
            global_error_handler=self.errors[split].handle,
        )

    def datasets_provider(
        self, worker_config: WorkerConfig, split: Literal["train", "val"] = "val"
    ) -> SavableDataset[Any]:
        """Energon's data set of micro-batches: `train`, shuffled and without end, or `val`, one pass in order.

        Raises:
            ValueError: another split, or fewer samples than there are processes to read them.
        """
        if split not in PARTS:
            raise ValueError(f"Invalid value for split: {split!r}; there are: {', '.join(PARTS)}")
        check_source(self.path, self.allow_dataset_code)
        task_encoder = self.make_task_encoder(split, self.errors[split])
        if split == "train":
            dataset = self._training_set(worker_config, task_encoder)
        else:
            dataset = get_val_dataset(
                self.path,
                split_part="val",
                worker_config=worker_config,
                batch_size=self.micro_batch_size,
                task_encoder=task_encoder,
            )
        guard(dataset, self.errors[split])
        return dataset

    def _training_set(self, worker_config: WorkerConfig, task_encoder: TaskEncoder) -> SavableDataset[Any]:
        check_readers(self.path, worker_config)
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

    def make_task_encoder(self, split: str, errors: ErrorCollector) -> TaskEncoder:
        """The task encoder of a split: the one given, or that for conversations about images."""
        given = self.task_encoder if split == "train" else self.validation_task_encoder
        if given is not None:
            return given
        return ConversationTaskEncoder(
            encoder=self.make_encoder(),
            reader=ConversationReader({}, caption_prompt="describe the image."),
            collate=flat_tensors,
            row_length=self.row_length,
            errors=errors,
        )

    def make_encoder(self) -> ConversationEncoder:
        """The encoder of conversations to tokens and pixels.

        Raises ValueError for a `multimodal_sample_config` of another kind, which is for a task encoder of one's own.
        """
        samples = sample_config(self.multimodal_sample_config)
        return samples.encoder(self.tokenizer, self.image_processor, self.seq_length)

    def build(self) -> tuple[Any, Any]:
        """Training and validation loader."""
        return self.train_dataloader(), self.val_dataloader()

    def train_dataloader(self) -> Any:
        """The endless stream of micro-batches."""
        return self.stream()

    def stream(self) -> EnergonDataloader:
        """The training stream, resumed from the checkpoint; created on first use."""
        if self.train_dataloader_object is None:
            dataset = self.datasets_provider(self._build_worker_config(self.num_workers, "train"), "train")
            stream = EnergonDataloader(savable_loader(dataset, self.pin_memory), self.skip_budget)
            if self._to_restore is not None:
                stream.restore_state(self._to_restore)
            self.train_dataloader_object = stream
        return self.train_dataloader_object

    def val_dataloader(self) -> Any:
        """Micro-batches of one pass over this replica's share of the validation split; none without one."""
        return self.evaluation() if count_samples(self.path, "val") else []

    def evaluation(self) -> EnergonPass:
        """The validation split, created on first use."""
        if self.val_dataloader_object is None:
            dataset = self.datasets_provider(self._build_worker_config(self.num_val_workers, "val"), "val")
            loader = worker_safe(get_loader(dataset), self.pin_memory)
            self.val_dataloader_object = EnergonPass(loader, self.skip_budget)
        return self.val_dataloader_object

    def test_dataloader(self) -> None:
        """No loaders: an energon data set has no test split."""
        return None

    def teardown(self, stage: str) -> None:
        """Ends the loaders' workers."""
        for loader in (self.train_dataloader_object, self.val_dataloader_object):
            if loader is not None:
                loader.close()
        self.train_dataloader_object = self.val_dataloader_object = None

    def on_exception(self, exception: BaseException) -> None:
        """Ends the loaders' workers if training fails."""
        self.teardown("fit")

    def state_dict(self) -> dict[str, Any]:
        """The states of all replicas' streams, and their layout; a collective operation."""
        stream = self.train_dataloader_object
        if stream is None:
            return {}
        streams = gathered(stream.save_state(), self.data_parallel())
        return {"layout": self.layout_of_stream(), "streams": streams}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resumes this replica's stream from a checkpoint.

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
        logger.warning("%s; it begins again", message)

    def layout_of_stream(self) -> Mapping[str, Any]:
        """The settings that the state of a stream depends on, by their names."""
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
