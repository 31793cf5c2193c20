"""The contract: how a run is cut, and how often it was stopped, shows neither in the order nor in the loss."""

from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pytest
import torch

from tests.conftest import TINY, Command
from tests.launch.test_kill import only_run
from tests.runs.test_train import Train, continued, losses, rows, weights
from tests.support.precision import BF16_ERROR, rounding
from tiryns.runner.checkpoints.files import entry_of
from tiryns.runner.run import audit
from tiryns.runner.run.folder import Run

PLAIN_STEP = [
    "optimizer=sgd", "optimizer.lr=1", "optimizer.momentum=0", "optimizer.weight_decay=0", "scheduler=constant",
    "module.max_grad_norm=0", "trainer.max_steps=1", "trainer.validate_every=0",
]  # fmt: skip
"""One step that moves the weights by exactly their gradient."""


class Tolerances(TypedDict):
    """Keywords of `pytest.approx`."""

    rel: float
    abs: float


FIGURES: Tolerances = {"rel": rounding(1e-5, 5e-3), "abs": rounding(1e-12, 0.03)}
"""How far figures of validations may be apart; in bf16 one of 39 targets may be guessed another way."""


def validation_figures(run: Run) -> list[float]:
    return [float(row[name]) for row in rows(run) for name in row if row[name] and name.startswith("val/")]


def reference_gradient(run: Run, config: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Initial weights, and the gradient of global batch 0 as one padded batch with transformers' own mean loss."""
    from tests.support.composed import composed
    from tiryns.runner.build import bind, build
    from tiryns.runner.data.module import MASK_STREAM
    from tiryns.runner.order.keyed import sample_keys

    cfg = composed(config)
    data = build(cfg.data)
    data.prepare_data()
    torch.manual_seed(cfg.seed)
    model = build(cfg.model, tokenizer=data.tokenizer)
    collator = build(cfg.objective, **data.collator_arguments())
    data.connect(bind(cfg.sampler), collator, 1, None, cfg.seed, accept_changes=False)
    initial = {name: value.clone() for name, value in model.state_dict().items()}
    samples = data.sampler.global_batch(0)
    longest = int(data.train.lengths(samples[:, 1]).max())
    shape = (len(samples), longest)
    ids = torch.full(shape, data.tokenizer.pad_token_id)
    mask, labels = torch.zeros(shape, dtype=torch.long), torch.full(shape, -100)
    for row, (epoch, index) in enumerate(samples.tolist()):
        tokens = data.train[index]
        keys = sample_keys(cfg.seed, np.array([epoch]), np.array([index]), MASK_STREAM)
        alone = {"input_ids": tokens, "lengths": np.array([len(tokens)], dtype=np.int32), "keys": keys}
        masked = collator.flat_labels(alone)
        ids[row, : len(tokens)] = torch.from_numpy(masked["input_ids"])
        labels[row, : len(tokens)] = torch.from_numpy(masked["labels"])
        mask[row, : len(tokens)] = 1
    model(input_ids=ids, attention_mask=mask, labels=labels).loss.backward()
    return initial, {name: value.grad for name, value in model.named_parameters()}


@pytest.mark.rows(1)
@pytest.mark.parametrize("micro_batch_size", [1, 5, None])
def test_gradient_is_that_of_one_plain_batch(
    run_here: Train, text_file: Path, micro_batch_size: int | None
) -> None:
    overrides = [
        *PLAIN_STEP,
        "data.micro_batch_tokens=null",
        f"data.micro_batch_size={micro_batch_size or 'null'}",
    ]
    run = run_here(*overrides)
    initial, gradient = reference_gradient(run, [*TINY, f"data.source={text_file}", *overrides])
    after, error = weights(run, 1), rounding(1e-5, BF16_ERROR)
    for name, expected in gradient.items():
        moved = initial[name] - after[f"model.pretrained.{name}"]
        assert torch.linalg.norm(moved - expected) <= error * torch.linalg.norm(expected) + 1e-7, name


@pytest.mark.slow
def test_fifty_steps_are_the_same_on_one_two_and_four_processes(
    tiryns: Command, tmp_path: Path, text_file: Path
) -> None:
    runs = []
    cuts = ((1, "null", 0), (1, 4, 2), (1, 16, 4), (2, 16, 0), (2, 4, 1), (4, "null", 0), (4, 4, 2))
    for devices, micro_batch_size, workers in cuts:
        cwd = tmp_path / f"{devices}-{micro_batch_size}"
        cwd.mkdir()
        tiryns(
            *TINY, f"data.source={text_file}", f"trainer.devices={devices}", "trainer.max_steps=50",
            "data.micro_batch_tokens=null", f"data.micro_batch_size={micro_batch_size}",
            f"data.num_workers={workers}", "sampler.global_batch_size=32", cwd=cwd,
        )  # fmt: skip
        runs.append(only_run(cwd / "outputs"))
    for run in runs[1:]:
        assert audit.compare(runs[0].path, run.path) is None
        assert audit.length(run.path) == 50
        assert losses(run) == pytest.approx(losses(runs[0]), rel=rounding(1e-5, 1e-3))


def test_resume_on_another_number_of_processes(
    tiryns: Command, run_here: Train, tmp_path: Path, text_file: Path
) -> None:
    saving = ["checkpoint.every_steps=5", "checkpoint.keep_last=9"]
    whole = run_here(*saving, folder="whole")
    on_two = continued(whole, 5, "on_two")
    on_two.update_status(state="failed")
    tiryns(*TINY, f"data.source={text_file}", *saving, "trainer.devices=2", f"resume={on_two.path}")
    assert not (tmp_path / "outputs").exists(), "it goes on in its folder"
    on_one_again = continued(on_two, 10, "on_one_again")
    assert entry_of(on_one_again.checkpoint_dir / "step-00000010.ckpt", "resolved")["processes"] == 2
    run_here(*saving, folder="on_one_again")
    for run in (on_two, on_one_again):
        assert run.status["step"] == 12
        assert audit.compare(whole.path, run.path) is None
        assert audit.length(run.path) == 12
        assert losses(run) == pytest.approx(losses(whole), rel=rounding(1e-5, 1e-3))


OVER_BUDGET = ["data.micro_batch_tokens=10"]
"""Most sequences are longer than a micro-batch may be."""
LAST_OF_LESS = ["trainer.max_steps=-1", "trainer.max_epochs=1.5", "sampler.global_batch_size=31"]


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    "uneven",
    [
        ["sampler.global_batch_size=1", "trainer.max_steps=4", *OVER_BUDGET],  # a rank without any, too
        pytest.param(OVER_BUDGET, marks=pytest.mark.slow),
        pytest.param(LAST_OF_LESS, marks=pytest.mark.slow),
    ],
)
def test_uneven_shares_neither_hang_nor_show(
    tiryns: Command, run_here: Train, tmp_path: Path, text_file: Path, uneven: list[str]
) -> None:
    text = tmp_path / "uneven.txt"
    text.write_text("a\n\nb\n\n" + text_file.read_text())
    arguments = [f"data.source={text}", "trainer.validate_every=3", *uneven]
    tiryns(*TINY, *arguments, "trainer.devices=2")
    two, one = only_run(tmp_path / "outputs"), run_here(*arguments)
    assert audit.compare(one.path, two.path) is None
    for ours, theirs in zip(rows(one), rows(two), strict=True):
        for name in ("train/loss", "optim/grad_norm", "train/epoch"):
            expected = pytest.approx(float(theirs[name] or 0), rel=rounding(2e-5, 1e-3))
            assert float(ours[name] or 0) == expected, name
    assert validation_figures(one) == pytest.approx(validation_figures(two), **FIGURES)


def test_audit_names_the_first_step_that_differs(run_here: Train) -> None:
    one = run_here("trainer.max_steps=3", "trainer.validate_every=0", folder="one")
    other = run_here("trainer.max_steps=3", "trainer.validate_every=0", "seed=43", folder="other")
    difference = audit.compare(one.path, other.path)
    assert difference
    assert difference.step == 1
    masks = run_here(
        "trainer.max_steps=3", "trainer.validate_every=0", "objective.mlm_probability=0.31", folder="masks"
    )
    assert audit.compare(one.path, masks.path)


def test_resume_with_changed_data_can_be_allowed(run_here: Train) -> None:
    run_here("trainer.max_steps=2", "trainer.validate_every=0")
    changed = ["trainer.max_steps=4", "trainer.validate_every=0", "sampler.global_batch_size=6"]
    with pytest.raises(ValueError, match=r"global_batch_size was 12 and is 6.*resume_changed_data=true"):
        run_here(*changed)
    assert run_here(*changed, "resume_changed_data=true").status["step"] == 4


def test_a_log_is_cut_behind_a_step(tmp_path: Path) -> None:
    log = tmp_path / "order.txt"
    log.write_text("1 a\n2 9\n3 0\n4")
    with audit.open_at(log, 2) as file:
        file.write("3 b\n")
    assert log.read_text() == "1 a\n2 9\n3 b\n"
