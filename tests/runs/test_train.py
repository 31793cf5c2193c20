"""The main job, as a user runs it: what it leaves behind, and that it can go on from there."""

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer, pipeline

from tests.conftest import TINY, Command
from tests.support.precision import rounding
from tiryns import assemble, compose
from tiryns.runner.checkpoints.callback import checkpoint_to_resume
from tiryns.runner.run import audit
from tiryns.runner.run.folder import Run

Train = Callable[..., Run]


def weights(run: Run, step: int) -> dict[str, torch.Tensor]:
    return torch.load(run.checkpoint_dir / f"step-{step:08d}.ckpt", weights_only=True)["state_dict"]


def assert_bitwise(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name


def rows(run: Run) -> list[dict[str, str]]:
    with open(run.path / "metrics.csv") as file:
        return [
            {k: v for k, v in row.items() if k != "time" and not k.startswith("perf/")}
            for row in csv.DictReader(file)
        ]


def assert_same_run(whole: Run, run: Run, steps: int) -> None:
    """Both have the same order, the same weights after so many steps, and the same rows of metrics, bit for bit."""
    assert audit.compare(whole.path, run.path) is None
    assert audit.length(run.path) == steps
    assert_bitwise(weights(whole, steps), weights(run, steps))
    assert rows(whole) == rows(run)


def losses(run: Run) -> dict[int, float]:
    """Training losses by step."""
    return {int(row["step"]): float(row["train/loss"]) for row in rows(run) if row["train/loss"]}


def continued(run: Run, step: int, name: str) -> Run:
    """A copy of a run as it was when it was killed just after the checkpoint of `step`."""
    copy = Run(run.path.with_name(name))
    shutil.copytree(run.path, copy.path, symlinks=True)
    for checkpoint in copy.checkpoint_dir.glob("step-*.ckpt"):
        if int(checkpoint.stem.removeprefix("step-")) > step:
            checkpoint.unlink()
    return copy


def test_run_leaves_a_complete_folder(tiryns: Command, tmp_path: Path, text_file: Path) -> None:
    done = tiryns(*TINY, f"data.source={text_file}")
    folder = next((tmp_path / "outputs").glob("*/*"))
    for name in ("config.yaml", "command.txt", "environment.json", "metrics.csv", "order.txt", "report.html"):
        assert (folder / name).stat().st_size, name
    status = json.loads((folder / "status.json").read_text())
    assert status["state"] == "done"
    assert status["step"] == 12
    assert status["results"]["val/held_out/loss"] > 0
    assert {"last.ckpt", "best.ckpt"} <= {path.name for path in (folder / "checkpoints").iterdir()}
    steps = [int(row["step"]) for row in rows(Run(folder)) if row["train/loss"]]
    assert steps == list(range(1, 13))
    for word in ("tokens", "parameters", "resume=", "report.html", "unigram"):
        assert word in done.stdout, f"{word} is not in\n{done.stdout}"
    model, tokenizer = (
        kind.from_pretrained(folder / "model") for kind in (AutoModelForMaskedLM, AutoTokenizer)
    )
    saved = torch.load(folder / "checkpoints/last.ckpt", weights_only=True)["state_dict"]
    inputs = tokenizer("the old [MASK] runs", return_tensors="pt")
    logits = model.eval()(**inputs).logits
    model.load_state_dict({name.removeprefix("model.pretrained."): value for name, value in saved.items()})
    assert torch.equal(logits, model(**inputs).logits)
    filled = pipeline("fill-mask", model=str(folder / "model"))("the old [MASK] runs")
    assert len(filled) == 5
    assert filled[0]["score"] > 0, filled
    assert "library_name: transformers" in (folder / "model" / "README.md").read_text()


@pytest.mark.parametrize("step", [5, 6], ids=["between validations", "at a validation"])
def test_resumed_run_is_bitwise_the_undisturbed_one(run_here: Train, step: int) -> None:
    words = [f"checkpoint.every_steps={step}", "checkpoint.keep_last=9", "model.dropout=0.1"]
    whole = run_here(*words)
    continued(whole, step, "copy")
    assert_same_run(whole, run_here(*words, folder="copy"), 12)


def test_loss_does_not_depend_on_micro_batches_or_workers(run_here: Train) -> None:
    whole = ["data.micro_batch_tokens=null", "model.dropout=0.1"]
    one = run_here(*whole, folder="one")
    many = run_here(*whole, "data.micro_batch_size=2", "data.num_workers=2", folder="many")
    assert audit.compare(one.path, many.path) is None
    for ours, theirs in zip(rows(one), rows(many), strict=True):
        for name in ("train/loss", "val/held_out/loss"):
            if ours[name]:
                assert float(ours[name]) == pytest.approx(float(theirs[name]), rel=rounding(1e-5, 1e-3))


def test_damaged_checkpoint_is_passed_over(run_here: Train, caplog: pytest.LogCaptureFixture) -> None:
    whole = run_here("checkpoint.every_steps=4", "checkpoint.keep_last=9")
    copy = continued(whole, 8, "copy")
    damaged = copy.checkpoint_dir / "step-00000008.ckpt"
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 64] = bytes(64)
    damaged.write_bytes(content)
    resumed = run_here("checkpoint.every_steps=4", "checkpoint.keep_last=9", folder="copy")
    assert "step-00000008.ckpt" in caplog.text
    assert_bitwise(weights(whole, 12), weights(resumed, 12))


def test_run_with_nothing_but_damaged_checkpoints_does_not_begin_again(tmp_path: Path) -> None:
    folder = Run(tmp_path)
    folder.checkpoint_dir.mkdir()
    (folder.checkpoint_dir / "step-00000004.ckpt").write_bytes(b"half a checkpoint")
    with pytest.raises(ValueError, match=r"every checkpoint in .* is damaged; remove them"):
        checkpoint_to_resume(folder, "auto")
    assert checkpoint_to_resume(folder, None) is None


def test_checkpoint_of_another_model_is_refused(run_here: Train) -> None:
    run_here("trainer.max_steps=2", "trainer.validate_every=0")
    with pytest.raises(ValueError, match=r"checkpoint is of another model: .* has shape"):
        run_here("trainer.max_steps=4", "model.intermediate_size=128")


def test_diverging_run_stops_and_names_step_and_samples(run_here: Train) -> None:
    """At once on a CPU, and not at the next logged step."""
    from tiryns.runner.run.errors import TrainingFailure

    with pytest.raises(TrainingFailure, match=r"not a number at step [23] \(samples epoch:index 0:\d+"):
        run_here("optimizer.lr=1e30", "module.max_grad_norm=0", "optimizer=sgd", "trainer.log_every=12")


def test_parameter_groups_are_written_and_decay_matrices_alone(
    run_here: Train, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_here(
        "trainer.max_steps=1", "trainer.validate_every=0", "model=modernbert_tiny", "model.hidden_size=32"
    )
    groups = json.loads((run.path / "parameter_groups.json").read_text())
    state = weights(run, 1)
    assert groups["decay"]
    for name in groups["decay"]:
        tensor = next(value for key, value in state.items() if key.endswith(name))
        assert tensor.ndim == 2, name
        assert "norm" not in name
        assert "embedding" not in name
    assert any("norm" in name for name in groups["no_decay"])
    assert "tensors such as" in capsys.readouterr().out


def test_run_killed_behind_its_last_step_still_validates_once(run_here: Train) -> None:
    whole = run_here("trainer.validate_every=5", folder="whole")
    copy = Run(whole.path.with_name("copy"))
    shutil.copytree(whole.path, copy.path, symlinks=True)
    lines = (copy.path / "metrics.csv").read_text().splitlines(keepends=True)
    (copy.path / "metrics.csv").write_text("".join(lines[:-1]))
    assert lines[-1].startswith("12,")
    for _ in range(2):
        resumed = run_here("trainer.validate_every=5", folder="copy")
        assert rows(whole) == rows(resumed)
    assert resumed.status["results"]["val/held_out/loss"] == whole.status["results"]["val/held_out/loss"]


@pytest.mark.slow
def test_text_longer_than_a_model_reads_is_refused(run_here: Train, text_file: Path) -> None:
    folder = run_here("trainer.max_steps=1", "trainer.validate_every=0").path / "model"
    words = ["data=files", f"data.source={text_file}", "model=pretrained", f"model.name_or_path={folder}"]
    with pytest.raises(
        ValueError, match=r"than the 512 tokens that this model can read: set data\.max_length=512"
    ):
        assemble(compose(*words, "data.max_length=513", "sampler.global_batch_size=4"))
    assemble(compose(*words, "data.max_length=512", "sampler.global_batch_size=4"))
