"""What `auto` came to when a run began holds wherever it goes on: on another machine, in a branch, in another process."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf

from tests.conftest import TINY
from tests.launch.test_kill import only_run
from tests.models.tiny import tiny
from tests.runs.test_train import Train, assert_bitwise, continued, weights
from tests.support.in_process import tiryns_here
from tests.support.precision import pretend_units
from tiryns.runner.checkpoints.files import entry_of
from tiryns.runner.loop import resolved as resolving
from tiryns.runner.loop.resolved import attention_of, changes, check_agreement, choose_hardware, kernel_of
from tiryns.runner.models.pretraining.sparse_head import SparseMaskedLM
from tiryns.runner.models.wrapped import WrappedModel
from tiryns.runner.report.single import write_report
from tiryns.runner.run.folder import Run

Machine = Callable[[bool], None]
SAVING = ["trainer.precision=auto", "checkpoint.every_steps=5", "checkpoint.keep_last=9"]
PRECISION = {True: "bf16-mixed", False: "32-true"}
"""What `auto` is on a CPU with bf16 units, and on one without."""


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Makes this CPU one with bf16 units, or one without."""

    return partial(pretend_units, monkeypatch)


def noted(run: Run, step: int = 12) -> list[Any]:
    """What the run's config, status and checkpoint say was decided."""
    config = OmegaConf.load(run.path / "config.yaml")
    checkpoint = run.checkpoint_dir / f"step-{step:08d}.ckpt"
    return [config.resolved, run.status["resolved"], entry_of(checkpoint, "resolved")]


@pytest.mark.rows(1)
@pytest.mark.parametrize("begins_with_bf16", [True, False])
def test_run_goes_on_as_it_began_on_a_machine_of_another_kind(
    run_here: Train, machine: Machine, begins_with_bf16: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    machine(begins_with_bf16)
    whole = run_here(*SAVING, folder="whole")
    continued(whole, 5, "resumed")
    machine(not begins_with_bf16)
    capsys.readouterr()
    resumed = run_here(*SAVING, folder="resumed")
    began, here = PRECISION[begins_with_bf16], PRECISION[not begins_with_bf16]
    assert re.search(rf"precision +{began}, as the run began", capsys.readouterr().out)
    assert_bitwise(weights(whole, 12), weights(resumed, 12))
    assert [record["precision"] for record in [*noted(whole), *noted(resumed)]] == [began] * 6

    other = run_here(*SAVING, folder="other")
    assert re.search(rf"precision +{here}, chosen for this machine", capsys.readouterr().out)
    assert [record["precision"] for record in noted(other)] == [here] * 3
    assert not all(torch.equal(value, weights(other, 12)[name]) for name, value in weights(whole, 12).items())
    assert whole.status["config_hash"] == other.status["config_hash"], "one config, whatever the machine"


@pytest.mark.slow
@pytest.mark.rows(1)
@pytest.mark.parametrize("architecture", ["deberta", "bert"])
def test_model_that_autocast_breaks_is_computed_in_fp32(
    run_here: Train, machine: Machine, caplog: pytest.LogCaptureFixture, architecture: str
) -> None:
    machine(True)
    run = run_here(
        *SAVING, "model=encoder", f"model.architecture={architecture}", "model.num_hidden_layers=1",
        "model.num_attention_heads=2", "trainer.max_steps=2",
    )  # fmt: skip
    breaks = architecture == "deberta"
    assert run.status["resolved"]["precision"] == ("32-true" if breaks else "bf16-mixed")
    assert (
        "precision is 32-true: DebertaForMaskedLM cannot be computed in bf16-mixed" in caplog.text
    ) == breaks


@pytest.mark.slow
def test_layout_is_the_one_that_the_run_began_in(
    run_here: Train, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    saving = ["checkpoint.every_steps=5", "checkpoint.keep_last=9"]
    padded = run_here("data.layout=padded", *saving, folder="padded")
    continued(padded, 5, "resumed")
    resumed = run_here(*saving, folder="resumed")
    assert_bitwise(weights(padded, 12), weights(resumed, 12))
    assert "changes from" not in caplog.text
    packed = run_here(*saving, folder="packed")
    assert [record["layout"] for record in (*noted(resumed), *noted(packed))] == [
        *["padded"] * 3,
        *["packed"] * 3,
    ]
    continued(packed, 5, "elsewhere")

    def refuse(model: WrappedModel) -> None:
        raise ValueError("it lets documents see each other; set data.layout=padded")

    monkeypatch.setattr(WrappedModel, "pack_rows", refuse)
    with pytest.raises(
        ValueError,
        match=r"^the run began with packed rows, which cannot be had here: .* set data\.layout=padded$",
    ):
        run_here(*saving, folder="elsewhere")
    run_here(*saving, "data.layout=padded", folder="elsewhere")


@pytest.mark.slow
def test_branch_takes_over_what_its_parent_decided_and_pages_say_it(
    tmp_path: Path, text_file: Path, machine: Machine
) -> None:
    machine(True)
    done = tiryns_here(
        tmp_path, *TINY, f"data.source={text_file}", "trainer.precision=auto", "trainer.max_steps=4"
    )
    assert re.search(r"attention +documents", done.stdout)
    parent = only_run(tmp_path / "outputs")
    machine(False)
    done = tiryns_here(tmp_path, f"resume={parent.path}", "trainer.max_steps=6", "outputs=branches")
    branch = only_run(tmp_path / "branches")
    assert [record["precision"] for record in noted(branch, 6)] == ["bf16-mixed"] * 3
    assert "this CPU has no bf16 units, so it is emulated, and slow" in done.stdout + done.stderr
    page = write_report(branch.path).read_text()
    assert "decided when it began" in page
    assert "bf16-mixed" in page
    named = tiryns_here(
        tmp_path, f"resume={parent.path}", "trainer.precision=32-true", "trainer.max_steps=6", "outputs=named"
    )
    assert named.returncode == 0, named.stderr
    assert [record["precision"] for record in noted(only_run(tmp_path / "named"), 6)] == ["32-true"] * 3


def config(**trainer: Any) -> Any:
    asked = {"accelerator": "auto", "precision": "auto", "attention": "auto", "devices": 1, "num_nodes": 1}
    return OmegaConf.create({"trainer": {**asked, **trainer}, "data": {"layout": "auto"}})


ON_GPU = {"accelerator": "gpu", "precision": "bf16-mixed", "attention": "varlen_attn"}


@pytest.mark.parametrize(
    ("asked", "before", "message"),
    [
        ({}, ON_GPU, r"^the run began on a GPU, .* trainer\.accelerator=cpu it goes on without one$"),
        (
            {"accelerator": "cpu"},
            {**ON_GPU, "precision": "16-mixed"},
            r"^the run began with trainer\.precision=16-mixed, which needs a GPU, .*bf16-mixed or .* with another$",
        ),
        ({"accelerator": "cpu", "precision": "16-mixed"}, {}, r"^trainer\.precision=16-mixed, which needs a GPU"),
        ({"accelerator": "cuda"}, {}, r"trainer\.accelerator=cuda, but there is no GPU"),
    ],
)  # fmt: skip
def test_what_this_machine_cannot_do_is_said_in_a_line(
    asked: dict[str, str], before: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=message):
        choose_hardware(config(**asked), before)


def test_a_run_of_a_cpu_stays_there_beside_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    assert choose_hardware(config(), {}).trainer.accelerator == "gpu"
    before = {"accelerator": "cpu", "precision": "32-true", "attention": "documents"}
    assert choose_hardware(config(), before).trainer.accelerator == "cpu"
    moved = choose_hardware(config(accelerator="gpu"), before).trainer
    assert (moved.accelerator, moved.precision) == ("gpu", "32-true")
    counted = choose_hardware(config(devices="auto"), before).trainer
    assert counted.accelerator == "gpu", "by which the launching process has counted"


def with_flash_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU that has it."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (9, 0))


@pytest.mark.parametrize("installed", [True, False])
def test_kernel_of_attention_is_the_one_that_the_run_began_with(
    monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    with_flash_attention(monkeypatch)
    monkeypatch.setattr(resolving, "find_spec", lambda name: installed or None)
    fresh = choose_hardware(config(), {})
    assert fresh.trainer.attention == ("flash_attn" if installed else "varlen_attn")
    assert attention_of(None, "packed", fresh.trainer) == fresh.trainer.attention
    assert choose_hardware(config(), ON_GPU).trainer.attention == "varlen_attn"
    assert (
        attention_of(None, "packed", choose_hardware(config(precision="32-true"), {}).trainer)
        == "padded_documents"
    )
    with_package = {**ON_GPU, "attention": "flash_attn"}
    if installed:
        assert choose_hardware(config(), with_package).trainer.attention == "flash_attn"
        assert (
            choose_hardware(config(attention="varlen_attn"), with_package).trainer.attention == "varlen_attn"
        )
    else:
        with pytest.raises(
            ValueError, match=r"^the run began with trainer\.attention=flash_attn.*=varlen_attn$"
        ):
            choose_hardware(config(), with_package)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_attention_with_dropout_that_the_kernel_lacks_is_told(
    monkeypatch: pytest.MonkeyPatch, dropout: float
) -> None:
    with_flash_attention(monkeypatch)
    monkeypatch.setattr(resolving, "find_spec", lambda name: True)
    model = SparseMaskedLM(tiny("bert", attention_probs_dropout_prob=dropout))
    told = {
        name: attention_of(model, "packed", choose_hardware(config(attention=name), {}).trainer)
        for name in ("flash_attn", "varlen_attn")
    }
    assert told == {
        "flash_attn": "flash_attn",
        "varlen_attn": "padded_documents" if dropout else "varlen_attn",
    }
    before = {**ON_GPU, "attention": told["varlen_attn"]}
    assert choose_hardware(config(), before).trainer.attention == "varlen_attn", "as the run began"
    assert kernel_of({**before, "attention": "sdpa"}) == "auto", "of padded rows, which is no setting"
    assert kernel_of({**before, "precision": "32-true", "attention": "padded_documents"}) == "auto"


def test_ranks_that_decided_otherwise_are_named() -> None:
    alike = {"precision": "32-true", "layout": "packed", "threads": 2}
    check_agreement([alike, {**alike, "threads": 4}])
    with pytest.raises(
        ValueError,
        match=r"rank 0 would train with precision 32-true, rank 1 with bf16-mixed: .* set trainer\.precision",
    ):
        check_agreement([alike, {**alike, "precision": "bf16-mixed"}])
    with pytest.raises(ValueError, match=r"rank 2 with padded: .* set data\.layout"):
        check_agreement([alike, alike, {**alike, "layout": "padded"}])


def test_nothing_is_said_where_nothing_changes(machine: Machine) -> None:
    machine(False)
    now = {"accelerator": "cpu", "precision": "32-true", "processes": 1}
    assert changes(now, now) == []
    assert changes({}, now) == []
    assert changes({**now, "processes": 2}, now) == ["processes changes from 2 to 1 where this run goes on"]
    assert len(changes({}, {**now, "precision": "bf16-mixed"})) == 1
    machine(True)
    assert changes({}, {**now, "precision": "bf16-mixed"}) == []
