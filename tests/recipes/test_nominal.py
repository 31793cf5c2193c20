"""A plan without data: it needs none, agrees with the run on data of full sequences, and says what it cannot know."""

from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

from tests.conftest import TINY
from tests.support.in_process import refused, tiryns_here
from tests.support.json_keys import document
from tiryns import assemble, compose
from tiryns.runner.cli.plan.nominal import NominalRun, nominal_plan, on_gpus
from tiryns.runner.models.flops import step_flops

LENGTH = 24
PHASES = [
    "sampler.global_batch_size=8",
    f"data.max_length={LENGTH}",
    "trainer.max_steps=-1",
    "scheduler=constant",
    "phases=[{name: early, tokens: 3000, sampler: {warmup_from: 2, warmup_by: 2, warmup_tokens: 400},"
    " scheduler: {warmup_tokens: 500}},"
    "{name: late, tokens: 1500, sampler: {global_batch_size: 4}, objective: {mlm_probability: 0.1},"
    " optimizer: {lr: 0.001}, scheduler: {training_kind: inverse_sqrt, training_decay: 0.1}}]",
]


def full_sequences(folder: Path, *words: str) -> DictConfig:
    """A config of data whose sequences all have `data.max_length` tokens."""
    (folder / "one.txt").write_text("the river runs under the old bridge " * 4000)
    whole = ["data.text_unit=file", "data.long_documents=tokens", "data.validation_documents=0"]
    return compose(*TINY, *whole, f"data.source={folder / 'one.txt'}", *words)


@pytest.mark.parametrize("objective", ["mlm", "rtd", "enhanced_mlm", "diffusion", "hybrid"])
def test_every_network_and_target_is_planned(objective: str, tmp_path: Path) -> None:
    parts = assemble(config := full_sequences(tmp_path, f"objective={objective}"))
    config.data.vocab_size = len(parts.data.tokenizer)
    plan, batches = nominal_plan(config), parts.data.train_batches(0, 1)
    assert plan["parameters"]["total"] == sum(p.numel() for p in parts.model.parameters())
    flops = (
        step_flops(parts.model, parts.model.flop_counts(), batches[step]) for step in range(plan["steps"])
    )
    assert plan["flops"] == pytest.approx(sum(flops), rel=0.05)


def test_full_sequences_are_planned_as_they_are_trained(tmp_path: Path) -> None:
    config = full_sequences(tmp_path, *PHASES)
    real, planned = assemble(config), NominalRun(config)
    assert real.max_steps == planned.steps
    sampler: Any = real.data.sampler
    factor = real.scheduler.schedule.factor  # type: ignore[attr-defined]
    for step in range(planned.steps):
        figures = planned.at(step)
        assert len(sampler.global_batch(step)) == figures["batch"]
        assert config.optimizer.lr * factor(step) == pytest.approx(figures["lr"])
        assert sampler.samples_before(step) * LENGTH == figures["tokens"]
    assert [planned.at(step)["masking_rate"] for step in (0, planned.steps - 1)] == [0.3, 0.1]
    assert {planned.at(step)["phase"] for step in range(planned.steps)} == {"early", "late"}


@pytest.mark.slow
def test_plan_of_a_recipe_is_one_document_and_leaves_nothing(tmp_path: Path) -> None:
    done = tiryns_here(tmp_path, "plan", "experiment=mosaicbert", "--json")
    plan = document("plan without data", done.stdout)
    assert plan["steps"] == 70_000
    assert plan["tokens"] == 70_000 * 4096 * 128
    assert [phase["name"] for phase in plan["phases"]] == ["training"]
    assert plan["published_hours"].startswith("11.5 of plain BERT on 8 A100")
    width, inside, layers, vocabulary, length, rate = 768, 3072, 12, 30528, 128, 0.3
    matrices = layers * (4 * width**2 + 3 * width * inside)
    head = rate * (width**2 + vocabulary * width)
    pairs = 2 * layers * length * width  # scores and their sum of values, of forward alone
    assert plan["flops"] == pytest.approx(6 * (matrices + head + pairs) * plan["tokens"], rel=0.01)
    assert not any(tmp_path.rglob("*.*"))
    text = tiryns_here(tmp_path, "plan", "experiment=mosaicbert").stdout
    assert "137,400,384 parameters" in text
    assert "H100" in text
    assert "hours of the run of the published size: 11.5 of plain BERT" in text
    assert "masking rate" in text


def test_hours_follow_from_the_operations() -> None:
    a100 = on_gpus(flops=0.4 * 312e12 * 7200, tokens=100)[0]
    assert (a100["name"], a100["hours"], a100["tokens"]) == ("A100", pytest.approx(2.0), 100)


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["experiment=modernbert"], "data.mixture has no value."),
        (["plan", "data=files", "trainer.max_steps=-1", "trainer.max_epochs=3"], "follows from its data"),
        (["plan", "data=files", "data.tokenizer=some/name"], "give model.config.vocab_size"),
    ],
)
def test_what_needs_data_is_one_message(words: list[str], message: str, tmp_path: Path) -> None:
    assert message in refused(tmp_path, *words)


def test_any_run_without_data_has_a_plan() -> None:
    config = compose("data=files", "mode=inspect", "scheduler=cosine", "trainer.max_steps=50")
    assert OmegaConf.is_missing(config.data, "source")
    plan = nominal_plan(config)
    assert plan["steps"] == 50
    assert plan["points"][0]["lr"] == 0
    assert plan["points"][-1]["step"] == 49
