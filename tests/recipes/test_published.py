"""Each published recipe against its paper: parameters, tokens of its phases, and what it trains with at twenty points."""

from functools import cache
from typing import Any

import pytest

from tests.recipes.papers import PAPERS, Paper
from tiryns import compose
from tiryns.runner.cli.plan.nominal import NominalRun, nominal_plan


@cache
def planned(recipe: str) -> tuple[dict[str, Any], NominalRun]:
    config = compose(f"experiment={recipe}", "mode=inspect")
    return nominal_plan(config), NominalRun(config)


@pytest.mark.rows(2)
@pytest.mark.parametrize(("recipe", "paper"), PAPERS.items(), ids=list(PAPERS))
def test_parameters_and_tokens_are_the_published_ones(recipe: str, paper: Paper) -> None:
    plan, run = planned(recipe)
    counts = plan["parameters"]
    tables = counts["total"] - counts["without_embeddings"]
    counted = counts["total"] - (tables / 2 if paper.without_output else 0)
    assert counted == pytest.approx(paper.millions * 1e6, rel=0.02)
    tokens = [phase.tokens for phase in run.phases]
    if paper.phases:
        assert tokens == pytest.approx(paper.phases, rel=1e-3)
        assert plan["tokens"] == sum(tokens)
    assert plan["flops"] > 6 * counts["without_embeddings"] * plan["tokens"]
    assert len(plan["points"]) >= 19


@pytest.mark.parametrize(("recipe", "paper"), PAPERS.items(), ids=list(PAPERS))
def test_twenty_points_of_the_run_are_the_published_ones(recipe: str, paper: Paper) -> None:
    _, run = planned(recipe)
    assert len(paper.points) == 20
    for point in paper.points:
        in_steps = point if paper.clock == "step" else point * run.steps
        step = run.steps_within(point) if paper.clock == "tokens" else int(in_steps)
        found = run.at(step)
        clock = step / run.steps if paper.clock == "share" else found[paper.clock]
        for name, expected in paper.at(clock).items():
            loosely = {"lr": 2e-3, "batch": 5e-3, "masking_rate": 1e-3}.get(name, 0)
            assert found[name] == pytest.approx(expected, rel=loosely, abs=1e-12), (name, point, found)
