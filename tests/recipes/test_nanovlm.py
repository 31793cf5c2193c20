"""nanoVLM's recipe against its repository (models/config.py, train.py): sizes, and three rates along one cosine."""

import math
import resource
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from tests.support.processes import start
from tiryns import compose
from tiryns.runner.cli.plan.nominal import NominalRun, meta_model, nominal_plan
from tiryns.runner.optim.groups import parameter_groups
from tiryns.runner.run.folder import Run

STEPS = 40_000
RATES = {"connector": 5.12e-3, "vision_model": 5e-5, "text_model": 5e-5}


def published(step: int, peak: float) -> float:
    """`get_lr` of train.py."""
    lowest, warmup = peak * 0.1, STEPS * 0.03
    if step < warmup:
        return peak * step / warmup  # there of the step after: its first one is not 0
    done = (step - warmup) / (STEPS - warmup)
    return lowest + 0.5 * (1 + math.cos(math.pi * done)) * (peak - lowest)


def test_sizes_and_rates_are_the_published_ones() -> None:
    config = compose("experiment=nanovlm", "mode=inspect")
    plan = nominal_plan(config)
    # SigLIP2-base without its pooling head, a projector of 16 * 768 by 960, SmolLM2-360M with 66 tokens more
    block = 4 * (768**2 + 768) + 2 * 768 * 3072 + 768 + 3072 + 4 * 768
    vision = 3 * 16**2 * 768 + 768 + 32**2 * 768 + 12 * block + 2 * 768
    layer = 960 * 960 * 2 + 2 * 960 * 320 + 3 * 960 * 2560 + 2 * 960
    assert plan["parameters"]["total"] == vision + 16 * 768 * 960 + 32 * layer + 960 + (49152 + 66) * 960
    assert plan["steps"] == STEPS
    run = NominalRun(config)
    for step in (0, 100, 1199, 1200, 5000, 20_000, 39_999):
        assert run.at(step)["lr"] == pytest.approx(published(step, 5e-5), rel=1e-3, abs=1e-12), step
        assert run.at(step)["batch"] == 2 * 8 * 32


def test_each_part_has_its_rate() -> None:
    config = compose("experiment=nanovlm", "mode=inspect")
    given = OmegaConf.to_container(config.optimizer)
    assert isinstance(given, dict)
    model = meta_model(config)
    overrides = given["overrides"]
    groups = parameter_groups(
        model, given["lr"], given["weight_decay"], True, 1.0, overrides, decay_vectors=True
    )
    rates = {name: group["lr"] for group in groups for name in group["param_names"]}
    assert len(rates) == len([*model.parameters()])
    for name, rate in rates.items():
        part = next((part for part in RATES if part in name), "text_model")
        assert rate == RATES[part], name
    assert {group["weight_decay"] for group in groups} == {0.01}, "torch's AdamW decays every parameter"


@pytest.mark.slow
def test_toy_knows_more_than_the_best_constant_answers(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert start(["experiment=nanovlm", "scale=toy"], tmp_path).wait(timeout=3600) == 0
    [run] = map(Run, tmp_path.glob("outputs/*/*"))
    results = run.status["results"]
    found = results["val/validation/exact_match"]
    assert found > results["val/validation/constant_exact_match"] + 0.1
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime - before.ru_utime < 600
