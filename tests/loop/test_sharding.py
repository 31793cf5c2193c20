"""Training in shards: the weights, the checkpoints and the exported model are those of one process."""

import math
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file

from tests.conftest import TINY, run_program, train_here
from tests.launch.test_kill import only_run
from tests.runs.test_train import rows
from tests.support import precision
from tests.support.precision import rounding
from tiryns.runner.checkpoints.files import AtomicCheckpointIO, delete_checkpoint, entry_of
from tiryns.runner.cli.models.consolidate import consolidate
from tiryns.runner.manifest.steps import FILE_NAME as DIGESTS
from tiryns.runner.manifest.verification import verify
from tiryns.runner.run import audit
from tiryns.runner.run.folder import Run

SAVING = [
    "checkpoint.every_steps=3", "checkpoint.keep_last=9", "trainer.max_steps=6", "trainer.validate_every=3",
    *([] if precision.BF16 else ["data.micro_batch_tokens=100"]),  # several for each rank
]  # fmt: skip
SHARDED = ["trainer=fsdp", "trainer.accelerator=cpu"]
EUROBERT = [
    "model.architecture=eurobert", "model.num_attention_heads=2", "+model.config.num_key_value_heads=2",
    "+model.config.head_dim=16",
]  # fmt: skip
"""An architecture that transformers can split the matrices of."""


def on_one(text_file: Path, cwd: Path, *overrides: str) -> Run:
    return train_here(cwd / "outputs" / "day" / "run", text_file, *SAVING, *overrides)


def in_shards(text_file: Path, cwd: Path, *overrides: str) -> Run:
    cwd.mkdir(exist_ok=True)
    plain = [o for o in TINY if o != "trainer=cpu"]
    run_program(*plain, f"data.source={text_file}", *SAVING, *SHARDED, *overrides, "resume=auto", cwd=cwd)
    return only_run(cwd / "outputs")


def cut_at(run: Run, step: int, cwd: Path) -> None:
    """A copy in `cwd` of the run as it was when it was killed after a checkpoint."""
    copy = Run(cwd / "outputs" / "day" / "run")
    shutil.copytree(run.path, copy.path, symlinks=True)
    for checkpoint in copy.checkpoint_dir.glob("step-*.ckpt"):
        if int(checkpoint.stem.removeprefix("step-")) > step:
            delete_checkpoint(checkpoint)
    copy.update_status(state="running")


def assert_same(first: Run, second: Run, apart: float = 0.0) -> None:
    """Order, figures, weights, optimizer and export agree to rounding; a share of `apart` of a tensor may not."""
    assert audit.compare(first.path, second.path) is None
    for ours, theirs in zip(rows(first), rows(second), strict=True):
        for name, value in ours.items():
            expected = pytest.approx(float(theirs[name] or 0), rel=rounding(2e-5, 1e-3), abs=1e-7)
            assert not value or float(value) == expected, name
    saved = [
        AtomicCheckpointIO().load_checkpoint(r.checkpoint_dir / "step-00000006.ckpt") for r in (first, second)
    ]
    for part in ("state_dict", "optimizer_states"):
        assert_close(saved[0][part], saved[1][part], part, apart)
    models = [load_file(run.path / "model" / "model.safetensors") for run in (first, second)]
    assert_close(models[0], models[1], "model", apart)


def assert_close(first: Any, second: Any, name: str, apart: float) -> None:
    if isinstance(first, dict):
        assert list(first) == list(second), name
        for key in first:
            assert_close(first[key], second[key], f"{name}.{key}", apart)
    elif isinstance(first, list):
        assert len(first) == len(second), name
        for i, (a, b) in enumerate(zip(first, second, strict=True)):
            assert_close(a, b, f"{name}[{i}]", apart)
    elif isinstance(first, torch.Tensor):
        if (apart or precision.BF16) and name.endswith("key.bias"):
            return  # the softmax takes no notice of it: its gradient is all rounding
        if precision.BF16:
            precision.assert_close(first, second, least=1e-7, name=name)  # below it is rounding alone
            return
        wrong = ~torch.isclose(first, second, atol=1e-5, rtol=1e-5)
        assert int(wrong.sum()) <= math.ceil(apart * first.numel()), f"{name}: {(first - second).abs().max()}"
    else:
        assert first == second, name


class Runs(NamedTuple):
    whole: Run
    sharded: Run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Runs:
    folder = tmp_path_factory.mktemp("sharded")
    return Runs(on_one(text_file, folder / "whole"), in_shards(text_file, folder / "sharded"))


def test_two_sharded_processes_train_like_one(runs: Runs) -> None:
    assert_same(runs.whole, runs.sharded)
    sizes = [(run.path / "model" / "model.safetensors").stat().st_size for run in runs]
    assert sizes[0] == sizes[1], "tied weights are exported once"
    noted = [entry_of(run.checkpoint_dir / "step-00000006.ckpt", "resolved") for run in runs]
    assert noted[1] == {**noted[0], "processes": 2}
    assert noted[1]["precision"] == precision.PRECISION
    assert re.fullmatch(
        r"6 [0-9a-f]{16} \d+\.\d+( [0-9a-f]{16}@2){2}\n", (runs.sharded.path / DIGESTS).read_text()
    )
    assert verify(runs.sharded.path) == []


@pytest.mark.slow
def test_sharded_checkpoint_goes_on_in_one_process(runs: Runs, tmp_path: Path, text_file: Path) -> None:
    cut_at(runs.sharded, 3, tmp_path)
    assert_same(runs.whole, on_one(text_file, tmp_path))


def test_shards_are_consolidated_to_the_exported_model(runs: Runs, tmp_path: Path) -> None:
    consolidate(runs.sharded.checkpoint_dir / "step-00000006.ckpt", tmp_path / "model")
    ours, exported = (
        load_file(folder / "model" / "model.safetensors") for folder in (tmp_path, runs.sharded.path)
    )
    assert ours.keys() == exported.keys()
    assert all(torch.equal(ours[name], exported[name]) for name in ours)


@pytest.mark.slow
@pytest.mark.parametrize("before", ["whole", "sharded"])
def test_checkpoint_goes_on_in_shards(runs: Runs, tmp_path: Path, text_file: Path, before: str) -> None:
    cut_at(getattr(runs, before), 3, tmp_path)
    run = in_shards(text_file, tmp_path)
    assert_same(runs.whole, run)
    digests = [(one.path / DIGESTS).read_text() for one in (runs.sharded, run)]
    assert (digests[0] == digests[1]) == (before == "sharded")


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        ["data.micro_batch_tokens=null", "data.micro_batch_size=2", "optimizer=sgd"],
        ["module.gradient_checkpointing=true", "optimizer=lion"],
        ["objective=enhanced_mlm", "optimizer=rmsprop", "optimizer.eps=1e-3", "module.ema=0.5"],
        ["trainer.devices=3", "optimizer=adagrad", "module.log_parameter_norms=true"],
    ],
)
def test_sharded_runs_of_other_kinds_train_like_one(
    tmp_path: Path, text_file: Path, overrides: list[str]
) -> None:
    sharded = in_shards(text_file, tmp_path / "sharded", *overrides)
    alone = [o for o in overrides if not o.startswith("trainer.devices")]
    # their first steps are as long for a gradient of rounding as for any other
    assert_same(on_one(text_file, tmp_path / "whole", *alone), sharded, apart=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("devices", [2, 4])
def test_split_matrices_train_like_one(tmp_path: Path, text_file: Path, devices: int) -> None:
    split = [*EUROBERT, f"trainer.devices={devices}", "trainer.tensor_parallel_size=2"]
    whole, parted = (
        on_one(text_file, tmp_path / "whole", *EUROBERT),
        in_shards(text_file, tmp_path / "split", *split),
    )
    assert_same(whole, parted)
    cut_at(whole, 3, tmp_path / "again")
    assert_same(whole, in_shards(text_file, tmp_path / "again", *split))


@pytest.mark.slow
def test_replicas_of_shards_train_like_one(runs: Runs, tmp_path: Path, text_file: Path) -> None:
    replicated = ["trainer.devices=4", "trainer.fsdp_replicas=2", "trainer.fsdp_reshard=false"]
    run = in_shards(text_file, tmp_path / "replicas", *replicated)
    assert_same(runs.whole, run)
    assert re.fullmatch(r"6 [0-9a-f]{16} \d+\.\d+( [0-9a-f]{16}@4){2}\n", (run.path / DIGESTS).read_text())
    cut_at(run, 3, tmp_path / "alone")
    assert_same(runs.whole, on_one(text_file, tmp_path / "alone"))
    cut_at(runs.whole, 3, tmp_path / "again")
    assert_same(runs.whole, in_shards(text_file, tmp_path / "again", *replicated))


@pytest.mark.slow
def test_weights_that_travel_in_half_precision_train_like_whole_ones(tmp_path: Path, text_file: Path) -> None:
    half = ["trainer.precision=bf16-mixed", "trainer.fsdp_param_dtype=bfloat16", "trainer.fsdp_prefetch=1"]
    run = in_shards(text_file, tmp_path / "sharded", *half)
    for ours, theirs in zip(rows(on_one(text_file, tmp_path / "whole", half[0])), rows(run), strict=True):
        assert float(ours["train/loss"] or 0) == pytest.approx(float(theirs["train/loss"] or 0), rel=5e-3)
    saved = AtomicCheckpointIO().load_checkpoint(run.checkpoint_dir / "step-00000006.ckpt")["state_dict"]
    assert {value.dtype for value in saved.values()} == {torch.float32}
    assert any(not torch.equal(value, value.bfloat16().float()) for value in saved.values()), "not rounded"


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["trainer=ddp", "trainer.tensor_parallel_size=2"], "tensor_parallel_size=2 needs trainer=fsdp"),
        (["trainer=ddp", "trainer.fsdp_replicas=2"], "trainer.fsdp_replicas=2 needs trainer=fsdp"),
        (["trainer=auto", "trainer.fsdp_reshard=false"], "trainer.fsdp_reshard=False needs trainer=fsdp"),
        (["trainer=fsdp", "trainer.fsdp_replicas=2"], "fsdp_replicas=2 does not divide the 1 processes"),
        (
            ["trainer=fsdp", "trainer.fsdp_param_dtype=bfloat16", "trainer.precision=32-true"],
            "fsdp_param_dtype=bfloat16 needs trainer.precision=bf16-mixed, and it is 32-true",
        ),
        (
            ["trainer=fsdp", "trainer.devices=1", "trainer.tensor_parallel_size=2"],
            "does not divide the 1 processes",
        ),
    ],
)
def test_impossible_layouts_are_refused(overrides: list[str], message: str, run_here: Any) -> None:
    with pytest.raises(ValueError, match=message):
        run_here(*overrides, "trainer.accelerator=cpu", "trainer.devices=1")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["trainer.tensor_parallel_size=2"], "no plan to split the matrices of bert"),
        (["optimizer=muon"], "the optimizer muon needs whole matrices"),
    ],
)
def test_what_cannot_be_sharded_is_refused(
    overrides: list[str], message: str, tmp_path: Path, text_file: Path
) -> None:
    plain = [o for o in TINY if o != "trainer=cpu"]
    done = run_program(*plain, f"data.source={text_file}", *SHARDED, *overrides, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
