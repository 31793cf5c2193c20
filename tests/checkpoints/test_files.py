import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tiryns.runner.checkpoints.files import (
    RESERVED_FROM,
    AtomicCheckpointIO,
    Buffers,
    damage_of,
    write_checkpoint,
)


@pytest.fixture
def io() -> Iterator[AtomicCheckpointIO]:
    writer = AtomicCheckpointIO()
    yield writer
    writer.teardown()


class Gate:
    """Stands before the writing thread until opened."""

    def __init__(self, io: AtomicCheckpointIO) -> None:
        self.opened = threading.Event()
        io._writer.submit(self.opened.wait)


def state(value: float) -> dict[str, Any]:
    return {
        "state_dict": {"a": torch.full((3, 4), value)},
        "moments": [torch.full((5,), value)],
        "global_step": int(value),
    }


def test_what_is_written_is_the_state_at_the_save(io: AtomicCheckpointIO, tmp_path: Path) -> None:
    gate, checkpoint = Gate(io), state(1)
    io.save_checkpoint(checkpoint, tmp_path / "a.ckpt")
    checkpoint["state_dict"]["a"].fill_(9)
    checkpoint["state_dict"]["b"] = torch.ones(1)
    checkpoint["moments"].append(None)
    assert not (tmp_path / "a.ckpt").exists()
    gate.opened.set()
    loaded = io.load_checkpoint(tmp_path / "a.ckpt")
    assert loaded["global_step"] == 1
    assert list(loaded["state_dict"]) == ["a"]
    assert torch.equal(loaded["state_dict"]["a"], torch.ones(3, 4))
    assert len(loaded["moments"]) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.ckpt"]


def test_what_follows_a_save_comes_after_it(io: AtomicCheckpointIO, tmp_path: Path) -> None:
    gate, seen = Gate(io), []
    io.save_checkpoint(state(1), tmp_path / "a.ckpt")
    io.then(lambda: seen.append((tmp_path / "a.ckpt").exists()))
    assert seen == []
    gate.opened.set()
    io.wait()
    assert seen == [True]


def test_a_failed_write_is_told_and_nothing_follows_it(io: AtomicCheckpointIO, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    followed: list[int] = []
    io.save_checkpoint(state(1), tmp_path / "file" / "a.ckpt")
    io.then(lambda: followed.append(1))
    message = r"cannot save the checkpoint .*a\.ckpt.* Earlier checkpoints are intact"
    with pytest.raises(OSError, match=message):
        io.save_checkpoint(state(2), tmp_path / "b.ckpt")
    io.wait()
    assert followed == []
    assert not (tmp_path / "b.ckpt").exists()


def test_check_raises_only_what_is_over(io: AtomicCheckpointIO, tmp_path: Path) -> None:
    gate = Gate(io)
    (tmp_path / "file").write_text("")
    io.save_checkpoint(state(1), tmp_path / "file" / "a.ckpt")
    io.check()
    gate.opened.set()
    with pytest.raises(OSError, match="cannot save"):
        io.wait()


def test_tied_tensors_stay_one(tmp_path: Path) -> None:
    layer = nn.Linear(200, 200, bias=False)
    tied = {"a": layer.weight, "b": layer.weight, "c": layer.weight.detach().clone()}
    copied = Buffers().copy(tied)
    assert copied["a"].data_ptr() == copied["b"].data_ptr() != copied["c"].data_ptr()
    write_checkpoint(copied, tmp_path / "a.ckpt")
    assert (tmp_path / "a.ckpt").stat().st_size < 2.5 * layer.weight.numel() * 4


def test_copies_lie_in_memory_as_the_originals() -> None:
    columns = torch.randn(6, 4).T[:3]
    copied = Buffers().copy([columns, torch.ones(1).expand(5)])
    assert copied[0].stride() == columns.stride()
    assert torch.equal(copied[0], columns)
    assert torch.equal(copied[1], torch.ones(5))


def test_memory_is_used_again() -> None:
    buffers = Buffers()
    first = buffers.copy(state(1))["state_dict"]["a"]
    address = first.data_ptr()
    second = buffers.copy(state(2))["state_dict"]["a"]
    assert second.data_ptr() == address
    assert torch.equal(second, torch.full((3, 4), 2.0))


def test_reserved_memory_is_what_the_copy_takes() -> None:
    large = torch.arange(RESERVED_FROM // 4 + 1, dtype=torch.float32)
    buffers = Buffers()
    buffers.reserve([large])
    next(t for t in threading.enumerate() if t.name == "checkpoint-memory").join()
    reserved: list[Tensor] = [t for some in buffers._free.values() for t in some]
    assert buffers.copy([large])[0].data_ptr() == reserved[0].data_ptr()
    assert torch.equal(reserved[0], large)


def test_a_modules_state_keeps_its_versions() -> None:
    saved = nn.BatchNorm1d(2).state_dict()
    assert Buffers().copy(saved)._metadata == saved._metadata  # type: ignore[attr-defined]


def test_one_flipped_byte_is_noticed(io: AtomicCheckpointIO, tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    io.save_checkpoint({"w": torch.arange(1000.0)}, path)
    io.wait()
    assert damage_of(path) is None
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is damaged"):
        io.load_checkpoint(path)


@pytest.mark.parametrize("left", [".step-00000003.ckpt.tmp", ".step-00000003.ckpt.4711.tmp"])
def test_what_a_killed_run_was_writing_goes_with_the_next_save(tmp_path: Path, left: str) -> None:
    (tmp_path / left).write_text("half a checkpoint")
    (tmp_path / "step-00000002.ckpt").write_text("whole")
    write_checkpoint(state(4), tmp_path / "step-00000004.ckpt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000002.ckpt", "step-00000004.ckpt"]
