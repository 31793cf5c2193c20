"""Checkpoints in shards: whole or not there, checked before they are trusted, and never code."""

import io
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.metadata import _MEM_FORMAT_ENCODING, Metadata
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.distributed_c10d import _world
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from tiryns.runner.checkpoints.files import AtomicCheckpointIO, damage_of, delete_checkpoint
from tiryns.runner.checkpoints.sharded import REST, PlainReader, read_rest, read_shares


@pytest.fixture(scope="module", autouse=True)
def world_of_one() -> Iterator[None]:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def sharded(tensor: torch.Tensor) -> DTensor:
    return distribute_tensor(tensor, init_device_mesh("cpu", (1,)), [Shard(0)])


def state() -> dict[str, Any]:
    weight = sharded(torch.arange(12.0).view(6, 2))
    moments = {"exp_avg": sharded(torch.ones(6, 2)), "step": torch.tensor(3.0)}
    optimizer = {"state": {0: moments}, "param_groups": [{"lr": 0.1, "params": [0]}]}
    return {
        "state_dict": {"embed": weight, "head": weight}, "optimizer_states": [optimizer], "global_step": 3,
        "loops": {"fit": [1, 2]},
    }  # fmt: skip


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "step-00000003.ckpt"
    files = AtomicCheckpointIO()
    files.save_shards(state(), path, first=True)
    files.wait()
    return path


def test_read_whole_it_is_what_was_saved(saved: Path) -> None:
    read, expected = AtomicCheckpointIO().load_checkpoint(saved), state()
    assert torch.equal(read["state_dict"]["embed"], torch.arange(12.0).view(6, 2))
    assert read["state_dict"]["head"] is read["state_dict"]["embed"], "tied weights are stored once"
    assert torch.equal(read["optimizer_states"][0]["state"][0]["exp_avg"], torch.ones(6, 2))
    for name in ("global_step", "loops"):
        assert read[name] == expected[name]


def test_what_is_written_is_the_state_at_the_save(tmp_path: Path) -> None:
    live, files = state(), AtomicCheckpointIO()
    files.save_shards(live, tmp_path / "a.ckpt", first=True)
    live["state_dict"]["embed"].to_local().zero_()  # training goes on
    files.wait()
    assert files.load_checkpoint(tmp_path / "a.ckpt")["state_dict"]["embed"].sum() == 66


def test_shares_are_sharded_as_the_model_is(saved: Path) -> None:
    like = sharded(torch.zeros(6, 2))
    read = read_shares(saved, {"embed": like, "head": like}, [[like]])
    assert isinstance(read["state_dict"]["embed"], DTensor)
    assert torch.equal(read["state_dict"]["embed"].full_tensor(), torch.arange(12.0).view(6, 2))


@pytest.mark.parametrize("weights", [{"embed": (6, 3), "head": (6, 3)}, {"other": (6, 2)}])
def test_another_model_is_refused(saved: Path, weights: dict[str, tuple[int, int]]) -> None:
    like = {name: sharded(torch.zeros(shape)) for name, shape in weights.items()}
    with pytest.raises(ValueError, match="does not fit this model"):
        read_shares(saved, like, [list(like.values())])


def test_one_flipped_byte_is_noticed(saved: Path) -> None:
    assert damage_of(saved) is None
    shards = next(saved.glob("*.distcp"))
    content = bytearray(shards.read_bytes())
    content[content.index(torch.arange(12.0).numpy().tobytes()) + 5] ^= 1
    shards.write_bytes(content)
    assert "checksum" in str(damage_of(saved))
    with pytest.raises(ValueError, match="is damaged"):
        AtomicCheckpointIO().load_checkpoint(saved)


@pytest.mark.parametrize("part", [REST, ".metadata", "__0_0.distcp"])
def test_a_missing_part_is_noticed(saved: Path, part: str) -> None:
    (saved / part).unlink()
    assert damage_of(saved)


class Evil:
    def __reduce__(self) -> Any:
        return os.mkdir, ("broken-into",)


def test_no_code_is_run(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (saved / ".metadata").write_bytes(pickle.dumps(Evil()))
    assert "mkdir" in str(damage_of(saved))
    buffer = io.BytesIO()
    torch.save({"state_dict": Evil()}, buffer)
    (saved / REST).write_bytes(buffer.getvalue())
    with pytest.raises(pickle.UnpicklingError):
        read_rest(saved)
    assert not (tmp_path / "broken-into").exists()


class Noted:
    """Pickled as the attribute of an object."""

    def __init__(self, owner: Any, name: str) -> None:
        self.owner, self.name = owner, name

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self.owner, self.name)


@pytest.mark.parametrize("module", [b"pathlib", b"pathlib._local"])
def test_paths_of_every_python_are_read(saved: Path, module: bytes) -> None:
    (saved / ".metadata").write_bytes(b"c" + module + b"\nPosixPath\n(Vplace\ntR.")
    assert PlainReader(saved).read_metadata() == Path("place")


def test_members_of_enumerations_may_be_noted_by_name_and_nothing_else_may(saved: Path) -> None:
    file = saved / ".metadata"
    file.write_bytes(
        pickle.dumps(Noted(_MEM_FORMAT_ENCODING, "TORCH_CHANNELS_LAST"))
    )  # as Python 3.11.2 does
    assert PlainReader(saved).read_metadata() is _MEM_FORMAT_ENCODING.TORCH_CHANNELS_LAST
    for owner, name in ((Metadata, "__init__"), (Path("/"), "unlink"), (_MEM_FORMAT_ENCODING, "__class__")):
        file.write_bytes(pickle.dumps(Noted(owner, name)))
        with pytest.raises(pickle.UnpicklingError):
            PlainReader(saved).read_metadata()
        assert damage_of(saved)


def test_a_failed_write_is_told_and_leaves_nothing(saved: Path, tmp_path: Path) -> None:
    files = AtomicCheckpointIO()
    (tmp_path / "file").touch()
    files.save_shards(state(), tmp_path / "file" / "a.ckpt", first=True)
    with pytest.raises(OSError, match="cannot save the checkpoint"):
        files.wait()
    assert damage_of(saved) is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", saved.name]


def test_deleting_takes_the_whole_folder(saved: Path) -> None:
    delete_checkpoint(saved)
    assert list(saved.parent.iterdir()) == []


def test_process_group_of_the_writer_is_given_back(tmp_path: Path) -> None:
    files, shards = AtomicCheckpointIO(), state()
    before = len(_world.pg_map)
    files.save_shards(shards, tmp_path / "step-00000003.ckpt", first=True)
    assert len(_world.pg_map) == before + 1
    files.teardown()
    assert len(_world.pg_map) == before
    assert damage_of(tmp_path / "step-00000003.ckpt") is None, "what had begun is finished"
