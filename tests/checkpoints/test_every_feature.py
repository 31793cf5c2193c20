"""One run with all that may change the state of a run, killed and resumed; each alone is among the long tests."""

import pytest
import torch
from safetensors.torch import load_file

from tests.conftest import train_as
from tests.data.mixture.test_runs import words
from tests.runs.test_train import assert_bitwise, assert_same_run, continued, weights
from tiryns.runner.manifest.inputs import read_manifest
from tiryns.runner.manifest.steps import FILE_NAME as DIGESTS
from tiryns.runner.run.folder import Run

FIRST = "{name: first, steps: 5}"
SECOND = (
    "{name: second, steps: 7, data: {max_length: 24, mixture: {code: 2}}, "
    "sampler: {global_batch_size: 16, warmup_from: 8, warmup_steps: 2, warmup_by: 4}, "
    "objective: {mlm_probability: 0.6, final_mlm_probability: 0.2}, "
    "optimizer: {lr: 0.002, weight_decay: 0.4}, model: {rope_theta: 77, local_rope_theta: 33}}"
)
FEATURES = [
    "model=modernbert_tiny", "model.dropout=0.1", "optimizer=muon", "module.ema=0.5", "scheduler=constant",
    f"phases=[{FIRST}, {SECOND}]", "trainer.max_steps=-1", "checkpoint.every_steps=1", "checkpoint.keep_last=20",
    "callback.manifest.every=1",
]  # fmt: skip


EMBEDDINGS = "model.embeddings.tok_embeddings.weight"


def exported(run: Run) -> dict[str, torch.Tensor]:
    return load_file(run.path / "model" / "model.safetensors")


@pytest.fixture(scope="module")
def arguments(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [*words(tmp_path_factory.mktemp("texts")), *FEATURES]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, arguments: list[str]) -> Run:
    run: Run = train_as(tmp_path_factory.mktemp("whole") / "run", arguments)
    return run


@pytest.mark.rows(1)
@pytest.mark.parametrize("step", [3, 7], ids=["before the change", "in the warm-ups"])
def test_resumed_run_is_bitwise_the_undisturbed_one(whole: Run, step: int, arguments: list[str]) -> None:
    cut = continued(whole, step, f"cut_{step}")
    train_as(cut.path, [*arguments, "data.num_workers=1"])
    assert_same_run(whole, cut, 12)
    assert_bitwise(exported(whole), exported(cut))
    assert not torch.equal(exported(cut)[EMBEDDINGS], weights(cut, 12)[f"model.pretrained.{EMBEDDINGS}"]), (
        "the average"
    )
    assert (cut.path / DIGESTS).read_text() == (whole.path / DIGESTS).read_text()
    assert read_manifest(cut.path)["totals"]["tokens"] == read_manifest(whole.path)["totals"]["tokens"]
