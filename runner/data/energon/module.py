"""Data sets of megatron-energon (tar shards, read as a stream) for Lightning."""

import logging
from typing import Any, Literal

import lightning.pytorch as pl
from megatron import energon
from megatron.energon import SavableDataLoader, SavableDataset, TaskEncoder, WorkerConfig

from tiryns.runner.data.energon import source
from tiryns.runner.data.energon.loader import EnergonDataloader, EnergonPass, savable_loader, worker_safe
from tiryns.runner.data.energon.tasks import ConversationTaskEncoder, MultiModalSampleConfig, flat_tensors
from tiryns.runner.data.replicas import Replica, find_replica, gather_objects
from tiryns.runner.data.vision.conversation_encoder import ConversationEncoder
from tiryns.runner.data.vision.conversations import ConversationReader
from tiryns.runner.samplers.base import differences

logger = logging.getLogger("tiryns")

PARTS = ("train", "val")

SMALLEST = {
    **dict.fromkeys(("seq_length", "decoder_seq_length", "micro_batch_size", "global_batch_size"), 1),
    **dict.fromkeys(("shuffle_buffer_size", "max_samples_per_sequence", "packing_buffer_size"), 1),
    **dict.fromkeys(("num_workers", "num_val_workers", "max_bad_samples"), 0),
}
"""The smallest values of settings, where there is one."""


class EnergonMultiModalDataModule(pl.LightningDataModule):
    """Micro-batches of an energon data set, `path`: training is an endless stream, validation one pass in order.

    Args:
        seq_length: The longest sample in tokens.
        row_length: The longest row of packed samples in tokens, by default `seq_length`.
        packing_buffer_size: The number of samples that rows are filled from; None packs nothing.
        decoder_seq_length: For task encoders of encoder-decoder models.
        max_samples_per_sequence: The largest number of successive samples from one shard.
        num_val_workers, validation_task_encoder: By default the same as in training.
        task_encoder: By default it encodes conversations about images, with the tokens of `multimodal_sample_config`.
        pg_collection: The process groups; see `data_parallel`. `process_groups` is a synonym.
        max_bad_samples: The largest number of unusable samples that a replica leaves out.
        allow_dataset_code: Lets a data set run code of its own.
        accept_changes: Restarts the stream if the checkpoint has another layout, instead of an error.
        kwargs: Further arguments of `get_train_dataset`.

    The checkpoint has the state of every replica's stream. A run resumes only with the same numbers of replicas and
    workers, buffer, batch size and packing. Two things differ from Megatron-Bridge on purpose: ranks of one replica
    read the same samples, and validation is neither shuffled nor endless.

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
        multimodal_sample_config: object = None,
        task_encoder: TaskEncoder | None = None,
        decoder_seq_length: int | None = None,
        packing_buffer_size: int | None = None,
        validation_task_encoder: TaskEncoder | None = None,
        pg_collection: object = None,
        *,
        process_groups: object = None,
        row_length: int | None = None,
        seed: int = 0,
        max_bad_samples: int = 0,
        allow_dataset_code: bool = False,
        accept_changes: bool = False,
        **kwargs: Any,
    ) -> None:
        """Raises ValueError for a setting below its minimum, or a `row_length` below `seq_length`."""
        super().__init__()
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
        self.task_encoder = task_encoder
        self.validation_task_encoder = validation_task_encoder or task_encoder
        self.pg_collection = process_groups if pg_collection is None else pg_collection
        self.seed, self.max_bad_samples, self.allow_dataset_code = seed, max_bad_samples, allow_dataset_code
        self.accept_changes, self.train_options = accept_changes, kwargs
        self.skip_budget = source.SkipBudget(max_bad_samples)
        self.errors = {split: source.ErrorCollector(max_bad_samples) for split in PARTS}
        self.init_global_step = 0
        self.train_dataloader_object: EnergonDataloader | None = None
        self.val_dataloader_object: EnergonPass | None = None
        self._to_restore: dict[str, Any] | None = None
        for name, least in SMALLEST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"data.{name} must be {least} or more, not {value}")

    def prepare_data(self) -> None:
        """Raises ValueError if `path` is no energon data set, has no training samples, or has code that is refused."""
        source.check_source(self.path, self.allow_dataset_code)
        if not source.count_samples(self.path, "train"):
            raise ValueError(f"{self.path!r} has no samples in a split 'train'; see its .nv-meta/split.yaml")

    def data_parallel(self) -> Replica:
        """Returns the index of this rank's replica, the number of replicas, and the group with one rank per replica."""
        return find_replica(self.pg_collection, self.trainer)

    def _build_worker_config(self, num_workers: int, split: str = "train") -> WorkerConfig:
        rank, size, group = self.data_parallel()
        return WorkerConfig(
            rank=rank, world_size=size, num_workers=num_workers, data_parallel_group=group,
            seed_offset=self.seed, global_error_handler=self.errors[split].handle,
        )  # fmt: skip

    def datasets_provider(
        self, worker_config: WorkerConfig, split: Literal["train", "val"] = "val"
    ) -> SavableDataset:
        """Returns energon's data set. ValueError for an unknown split, or fewer samples than loader processes."""
        if split not in PARTS:
            raise ValueError(f"Invalid value for split: {split!r}; there are: {', '.join(PARTS)}")
        source.check_source(self.path, self.allow_dataset_code)
        arguments: dict[str, Any] = {
            "worker_config": worker_config,
            "batch_size": self.micro_batch_size,
            "task_encoder": self.make_task_encoder(split, self.errors[split]),
        }
        dataset: SavableDataset
        if split == "val":
            dataset = energon.get_val_dataset(self.path, split_part="val", **arguments)
        else:
            ranks, workers = worker_config.world_size, max(1, worker_config.num_workers)
            if (count := source.count_samples(self.path, "train")) < ranks * workers:
                raise ValueError(
                    f"{self.path!r} has {count} training samples for {ranks} ranks x {workers} workers; use fewer of them"
                )
            try:
                dataset = energon.get_train_dataset(
                    self.path, shuffle_buffer_size=self.shuffle_buffer_size,
                    max_samples_per_sequence=self.max_samples_per_sequence,
                    packing_buffer_size=self.packing_buffer_size, **arguments, **self.train_options,
                )  # fmt: skip
            except TypeError as error:
                if not self.train_options:
                    raise
                raise ValueError(f"data.train_options={self.train_options}: {error}") from error
        source.guard(dataset, self.errors[split])
        return dataset

    def make_task_encoder(self, split: str, errors: source.ErrorCollector) -> TaskEncoder:
        """Returns the task encoder of a split: the given one, or an encoder of conversations about images."""
        encoder = self.task_encoder if split == "train" else self.validation_task_encoder
        if encoder is not None:
            return encoder
        return ConversationTaskEncoder(
            encoder=self.make_encoder(), reader=ConversationReader({}, caption_prompt="describe the image."),
            collate=flat_tensors, row_length=self.row_length, errors=errors,
        )  # fmt: skip

    def make_encoder(self) -> ConversationEncoder:
        """Returns the encoder of conversations. Raises ValueError for a `multimodal_sample_config` of another kind."""
        config = self.multimodal_sample_config
        samples = MultiModalSampleConfig() if config is None else config
        if not isinstance(samples, MultiModalSampleConfig):
            raise ValueError(
                f"multimodal_sample_config is a {type(config).__name__}: give a MultiModalSampleConfig, or a task_encoder"
            )
        return samples.encoder(self.tokenizer, self.image_processor, self.seq_length)

    def build(self) -> tuple[Any, Any]:
        """Training and validation loader."""
        return self.train_dataloader(), self.val_dataloader()

    def train_dataloader(self) -> Any:
        """Returns the endless stream of micro-batches, resumed from the checkpoint; created on first use."""
        if self.train_dataloader_object is None:

            def make() -> SavableDataLoader:
                config = self._build_worker_config(self.num_workers, "train")
                return savable_loader(self.datasets_provider(config, "train"), self.pin_memory)

            stream = EnergonDataloader(make(), self.skip_budget, make)
            if self._to_restore is not None:
                stream.restore_state(self._to_restore)
            self.train_dataloader_object = stream
        return self.train_dataloader_object

    def val_dataloader(self) -> Any:
        """Returns the pass over this replica's share of the validation split; an empty list without such a split."""
        return self.validation_pass() if source.count_samples(self.path, "val") else []

    def validation_pass(self) -> EnergonPass:
        """Returns the pass over this replica's share of the validation split, created on first use."""
        if self.val_dataloader_object is None:
            dataset = self.datasets_provider(self._build_worker_config(self.num_val_workers, "val"), "val")
            loader = worker_safe(energon.get_loader(dataset), self.pin_memory)
            self.val_dataloader_object = EnergonPass(loader, self.skip_budget)
        return self.val_dataloader_object

    def test_dataloader(self) -> None:
        """None: an energon data set has no test split."""

    def teardown(self, stage: str) -> None:
        """Ends the loaders' workers."""
        for loader in (self.train_dataloader_object, self.val_dataloader_object):
            if loader is not None:
                loader.close()
        self.train_dataloader_object = self.val_dataloader_object = None

    def on_exception(self, exception: BaseException) -> None:
        self.teardown("fit")

    def state_dict(self) -> dict[str, Any]:
        """Returns the layout and the states of all replicas' streams; all ranks must call it (collective)."""
        if self.train_dataloader_object is None:
            return {}
        streams = gather_objects(self.train_dataloader_object.save_state(), self.data_parallel())
        return {"layout": self.layout_of_stream(), "streams": streams}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resumes this replica's stream. Raises ValueError for another layout, unless changes are accepted."""
        changes = differences(state.get("layout", {}), self.layout_of_stream())
        if not changes:
            self._to_restore = state["streams"][self.data_parallel().rank]
            return
        message = f"the stream of an energon data set resumes only in the layout of its checkpoint: {changes}"
        if not self.accept_changes:
            raise ValueError(f"{message}. To begin the stream again, set resume_changed_data=true")
        logger.warning("%s; the stream begins again", message)

    def layout_of_stream(self) -> dict[str, object]:
        """Returns the settings that the state of a stream depends on."""
        names = ("num_workers", "shuffle_buffer_size", "max_samples_per_sequence", "micro_batch_size")
        return {
            "data": source.fingerprint(self.path), "ranks": self.data_parallel().size,
            **{f"data.{name}": getattr(self, name) for name in (*names, "packing_buffer_size", "row_length")},
            "sampler.global_batch_size": self.global_batch_size, "data.max_length": self.seq_length,
            "data.train_options": repr(sorted(self.train_options.items())), "seed": self.seed,
        }  # fmt: skip
