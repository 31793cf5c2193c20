"""`runner.data.energon.module`, over a small set of real shards."""

import inspect
import logging
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from megatron.energon import WorkerConfig
from torch.distributed import HashStore

from tests.data.energon.sets import NumberedPacks, NumberedRows, make_set, take
from tiryns.runner.data.energon import (
    EnergonDataloader,
    EnergonMultiModalDataModule,
    MultiModalSampleConfig,
    cyclic_iter,
    logger,
)

PARAMETERS = {
    "seq_length": 2048, "micro_batch_size": 1, "global_batch_size": 1, "num_workers": 1, "num_val_workers": None,
    "pin_memory": True, "shuffle_buffer_size": 100, "max_samples_per_sequence": None,
    "multimodal_sample_config": None, "task_encoder": None, "decoder_seq_length": None, "packing_buffer_size": None,
    "validation_task_encoder": None, "pg_collection": None,
}  # fmt: skip


class Group:
    """A process group as far as the documented argument goes."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = lambda: rank, lambda: size


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_set(tmp_path_factory.mktemp("energon") / "set", count=24, validation=5, per_shard=6))


def module(path: str, **settings: Any) -> EnergonMultiModalDataModule:
    given: dict[str, Any] = {
        "micro_batch_size": 2, "num_workers": 0, "task_encoder": NumberedPacks(), **settings,
    }  # fmt: skip
    return EnergonMultiModalDataModule(path, tokenizer="tokenizer", image_processor="processor", **given)


class Counts:
    """A loader with a state, as energon's are, but nothing else of theirs."""

    def __init__(self) -> None:
        self.place = 0

    def __iter__(self) -> Any:
        while True:
            self.place += 1
            yield self.place

    def save_state_rank(self) -> int:
        return self.place

    def restore_state_rank(self, state: int | None) -> None:
        self.place = state or 0


def test_logger() -> None:
    assert isinstance(logger, logging.Logger)


def test_cyclic_iter() -> None:
    batches = cyclic_iter([1, 2])
    assert [next(batches) for _ in range(5)] == [1, 2, 1, 2, 1]
    with pytest.raises(ValueError, match="no batch"):
        next(cyclic_iter([]))


def test_energon_dataloader_is_endless_over_any_iterable() -> None:
    loader = EnergonDataloader([{"id": 0}, {"id": 1}])
    assert iter(loader) is loader
    assert [next(loader)["id"] for _ in range(5)] == [0, 1, 0, 1, 0]


def test_energon_dataloader_state_of_any_loader() -> None:
    first = EnergonDataloader(Counts())
    assert [next(first) for _ in range(3)] == [1, 2, 3]
    assert first.save_state() == 3, "what the loader's save_state_rank gives"
    second = EnergonDataloader(Counts())
    second.restore_state(first.save_state())
    assert second.save_state() == {"state": 3, "skip": 0, "stock": None}
    assert [next(second) for _ in range(2)] == [next(first) for _ in range(2)] == [4, 5]


def test_data_module_has_the_documented_parameters() -> None:
    parameters = list(inspect.signature(EnergonMultiModalDataModule).parameters.values())
    assert [p.name for p in parameters[:3]] == ["path", "tokenizer", "image_processor"]
    assert {p.name: p.default for p in parameters[3:17]} == PARAMETERS
    assert list(PARAMETERS) == [p.name for p in parameters[3:17]]
    assert parameters[-1].kind == inspect.Parameter.VAR_KEYWORD
    assert issubclass(EnergonMultiModalDataModule, pl.LightningDataModule)


def test_data_module_attributes(shards: str) -> None:
    config, encoder = object(), NumberedRows()
    data = module(
        shards, seq_length=64, decoder_seq_length=16, pin_memory=False, multimodal_sample_config=config,
        task_encoder=encoder,
    )  # fmt: skip
    assert (data.path, data.tokenizer, data.image_processor) == (shards, "tokenizer", "processor")
    assert (data.seq_length, data.decoder_seq_length, data.micro_batch_size) == (64, 16, 2)
    assert (data.num_workers, data.pin_memory, data.init_global_step) == (0, False, 0)
    assert data.multimodal_sample_config is config
    assert data.task_encoder is data.validation_task_encoder is encoder
    assert data.train_dataloader_object is None
    assert data.val_dataloader_object is None
    loader = data.train_dataloader()
    assert loader is data.train_dataloader() is data.train_dataloader_object
    assert data.val_dataloader() is data.val_dataloader_object


def test_pg_collection_says_rank_and_world_size(shards: str) -> None:
    ranks = SimpleNamespace(dp=Group(1, 4), cp=Group(1, 2), tp=Group(0, 2))
    config = module(shards, pg_collection=ranks)._build_worker_config(3)
    assert (config.rank, config.world_size, config.num_workers) == (1, 4, 3)
    synonym = module(shards, process_groups=Group(2, 3))._build_worker_config(0, split="val")
    assert (synonym.rank, synonym.world_size) == (2, 3)
    alone = module(shards)._build_worker_config(num_workers=2, split="train")
    assert isinstance(alone, WorkerConfig)
    assert (alone.rank, alone.world_size) == (0, 1)


def test_without_pg_collection_torch_distributed_says(shards: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 2)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 5)
    config = module(shards)._build_worker_config(0)
    assert (config.rank, config.world_size) == (2, 5)


def test_a_process_group_of_torch_will_do(shards: str) -> None:
    group = torch.distributed.ProcessGroupGloo(HashStore(), 0, 1, timedelta(seconds=60))
    config = module(shards, pg_collection=SimpleNamespace(dp=group))._build_worker_config(0)
    assert (config.rank, config.world_size) == (0, 1)
    assert config.data_parallel_group is group


def test_replicas_read_what_is_theirs_and_ranks_of_one_the_same(shards: str) -> None:
    def epoch(rank: int, cp: int) -> list[int]:
        ranks = SimpleNamespace(dp=Group(rank, 2), cp=Group(cp, 2))
        loader = module(shards, pg_collection=ranks, shuffle_buffer_size=None).train_dataloader()
        return [number for batch in take(loader, 6) for (number,) in batch]

    assert epoch(0, 0) == epoch(0, 1)
    assert sorted(epoch(0, 0) + epoch(1, 0)) == list(range(24))


def test_decoder_seq_length_is_independent_and_rows_have_a_length_of_their_own(shards: str) -> None:
    data = module(shards, seq_length=40, decoder_seq_length=8, row_length=80)
    assert (data.seq_length, data.decoder_seq_length, data.row_length) == (40, 8, 80)
    with pytest.raises(ValueError, match="rows of 20 tokens cannot hold samples of 40"):
        module(shards, seq_length=40, row_length=20)


@pytest.mark.slow
def test_validation_has_workers_and_encoder_of_its_own_or_those_of_training(shards: str) -> None:
    encoder = NumberedRows()
    data = module(shards, num_workers=3)
    assert data.num_val_workers == 3
    assert module(shards, num_workers=3, num_val_workers=0).num_val_workers == 0
    own = module(shards, validation_task_encoder=encoder, micro_batch_size=5)
    assert own.validation_task_encoder is encoder
    (batch,) = own.val_dataloader()
    assert len(batch["names"]) == 5


def test_kwargs_go_to_get_train_dataset(shards: str) -> None:
    data = module(shards, virtual_epoch_length=3)
    assert len(data.train_dataloader()) == 3
    with pytest.raises(ValueError, match="vritual_epoch_length"):
        module(shards, vritual_epoch_length=3).train_dataloader()


def test_datasets_provider(shards: str) -> None:
    data = module(shards)
    worker_config = data._build_worker_config(0, split="val")
    held_out = [n for batch in _loaded(data.datasets_provider(worker_config)) for n in batch["numbers"]]
    assert held_out == [[24], [25], [26], [27], [28]]
    assert data.datasets_provider(data._build_worker_config(0), split="train") is not None
    with pytest.raises(ValueError, match="'test'"):
        data.datasets_provider(worker_config, split="test")  # type: ignore[arg-type]


def _loaded(dataset: Any) -> Any:
    from megatron.energon import get_loader

    return get_loader(dataset)


def test_train_dataloader_is_shuffled_and_endless(shards: str) -> None:
    loader = module(shards, shuffle_buffer_size=4).train_dataloader()
    assert isinstance(loader, EnergonDataloader)
    numbers = [number for batch in take(loader, 40) for (number,) in batch]
    assert set(numbers) == set(range(24))
    assert numbers[:20] != sorted(numbers[:20])


def test_test_dataloader_is_none(shards: str) -> None:
    data: Any = module(shards)
    assert data.test_dataloader() is None


def test_without_a_task_encoder_conversations_are_encoded(shards: str) -> None:
    from tiryns.runner.data.vision.processors import make_processor, train_conversation_tokenizer

    texts = ["USER: number one two three? ASSISTANT: 7"] * 20
    tokenizer = train_conversation_tokenizer(texts, kind="wordpiece", vocab_size=80, lowercase=True)
    images = make_processor("llava", tokenizer, image_size=8, image_places=4).processor.image_processor
    data = EnergonMultiModalDataModule(
        shards, tokenizer, images, seq_length=64, micro_batch_size=2, num_workers=0,
        multimodal_sample_config=MultiModalSampleConfig(image_places=4),
    )  # fmt: skip
    batch = next(data.train_dataloader())
    assert len(batch["lengths"]) == 2
    assert len(batch["input_ids"]) == len(batch["labels"]) == int(batch["lengths"].sum())
    with pytest.raises(ValueError, match="multimodal_sample_config is a dict"):
        EnergonMultiModalDataModule(
            shards, tokenizer, images, num_workers=0, multimodal_sample_config={"image_token": "<image>"}
        ).train_dataloader()


def test_a_plain_trainer_trains_on_it(shards: str) -> None:
    class Reads(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))
            self.seen: list[int] = []
            self.held_out: list[int] = []

        def training_step(self, batch: dict[str, Any], batch_idx: int) -> torch.Tensor:
            self.seen += [number for (number,) in batch["numbers"]]
            return self.weight.sum()

        def validation_step(self, batch: dict[str, Any], batch_idx: int) -> None:
            self.held_out += [number for (number,) in batch["numbers"]]

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    reads = Reads()
    trainer = pl.Trainer(
        max_steps=3, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, val_check_interval=3, num_sanity_val_steps=0,
    )  # fmt: skip
    trainer.fit(reads, datamodule=module(shards))
    assert len(reads.seen) == 6
    assert reads.held_out == [24, 25, 26, 27, 28]
