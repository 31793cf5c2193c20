"""Task metrics against their definitions, and over two processes against one."""

import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import ROOT
from tests.evaluation.test_other_libraries import ORACLES
from tiryns.runner.evaluation.metrics import KINDS, EntityScore, get_metrics_for_task


@pytest.mark.parametrize(
    ("predicted", "answers", "exact", "f1"),
    [
        ("the Cat", ["cat"], 1.0, 1.0),
        ("An answer!", "answer", 1.0, 1.0),
        ("cat, dog", ["cat dog"], 1.0, 1.0),
        ("anthem", ["them"], 0.0, 0.0),
        ("  white   space ", ["white space"], 1.0, 1.0),
        ("north of the river", ["the river"], 0.0, 0.5),
        ("a b b", ["b b c"], 0.0, 0.8),
        ("river", ["bridge", "the river", "old"], 1.0, 1.0),
        ("old bridge", ["bridge", "a very old bridge"], 0.0, 0.8),
        ("", [], 1.0, 1.0),
        ("something", [], 0.0, 0.0),
        ("", ["something"], 0.0, 0.0),
        ("", ["the"], 1.0, 1.0),
        ("the", ["something"], 0.0, 0.0),
        ("U.S.", ["US"], 1.0, 1.0),
    ],
)
def test_squads_definition(predicted: str, answers: str | list[str], exact: float, f1: float) -> None:
    metrics = get_metrics_for_task("question_answering", 0)
    for metric in metrics.values():
        metric.update([predicted], [answers])
    assert float(metrics["exact_match"].compute()) == exact
    assert float(metrics["f1"].compute()) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        (None, "'E-X' is none of the labels: expected IOB; name the labels"),
        (["O", "B-X", "I-X"], "'E-X' is none of the labels: expected O, B-X, I-X$"),
    ],
)
def test_tags_that_no_label_tells_the_scheme_of_are_refused(labels: list[str] | None, problem: str) -> None:
    metric = get_metrics_for_task("token_classification", 5, **({"labels": labels} if labels else {}))[
        "entity_f1"
    ]
    metric.update([["B-X", "I-X"]], [["B-X", "O"]])
    with pytest.raises(ValueError, match=problem):
        metric.update([["B-X", "E-X"]], [["B-X", "O"]])
    with pytest.raises(ValueError, match="labels A, B mark no entities; schemes are IOB2"):
        EntityScore("f1", labels=["A", "B"])


LABEL = st.integers(0, 3)
ROW = st.tuples(*[st.booleans()] * 6)


@pytest.mark.filterwarnings("ignore:A single label was found")
@settings(max_examples=20)
@given(st.lists(st.tuples(LABEL, LABEL), min_size=1, max_size=30), st.lists(ROW, min_size=1, max_size=20))
def test_labels_are_counted_exactly(pairs: list[tuple[int, int]], rows: list[tuple[bool, ...]]) -> None:
    """As scikit-learn counts them, also of labels that are never true or predicted."""
    items = {"classification": torch.tensor(pairs).T, "multi_label": torch.tensor(rows).split(3, dim=1)}
    for kind, (predicted, true) in items.items():
        for name, value in ORACLES[kind](true.numpy(), predicted.numpy()).items():
            metric = get_metrics_for_task(kind, 4 if kind == "classification" else 3)[name]
            metric = pickle.loads(pickle.dumps(metric))  # as a process that is spawned gets it
            metric.update(predicted, true)
            assert float(metric.compute()) == pytest.approx(value, rel=1e-12, abs=1e-15), (kind, name)


def test_accuracy_of_many_examples_is_a_float64() -> None:
    """25,094 words of which 24,044 are right: a float32 is off in the eighth digit."""
    for task in ("classification", "token_classification"):
        metric = get_metrics_for_task(task, 2)["accuracy"]
        metric.update((torch.arange(25_094) < 1_050).long(), torch.zeros(25_094, dtype=torch.long))
        assert float(metric.compute()) == 24_044 / 25_094


def test_correlations_with_equal_predictions_are_0_without_a_warning() -> None:
    metrics = get_metrics_for_task("regression")
    with warnings.catch_warnings(action="error"):
        for name in ("pearson", "spearman"):
            metrics[name].update(torch.full((5,), 2.0), torch.arange(5.0))
            assert float(metrics[name].compute()) == 0


def test_unknown_task_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"task='classifcation'; .*Did you mean 'classification'"):
        get_metrics_for_task("classifcation", 3)
    assert all(pickle.dumps(get_metrics_for_task(task, 3)) for task in KINDS)


@pytest.mark.parametrize(("kind", "shape"), [("classification", (3,)), ("multi_label", (3, 4))])
def test_classes_of_two_shapes_are_refused(kind: str, shape: tuple[int, ...]) -> None:
    """One prediction is not that of three items, nor one column of predictions that of four labels."""
    for metric in get_metrics_for_task(kind, 4).values():
        with pytest.raises(ValueError, match=r"the shape \[.*1\], the .* expected the same shape"):
            metric.update(torch.ones((*shape[:-1], 1), dtype=torch.long), torch.ones(shape, dtype=torch.long))


TWO_PROCESSES = """
import json, os, sys
import torch
import torch.distributed as dist
from tests.evaluation.test_metrics import data, updated
if len(sys.argv) > 1:
    dist.init_process_group("gloo")
rank, size = (dist.get_rank(), dist.get_world_size()) if len(sys.argv) > 1 else (0, 1)
found = updated(data(), rank, size)
if rank == 0:
    print("FOUND" + json.dumps(found), flush=True)
if size > 1:
    dist.barrier()
    dist.destroy_process_group()
"""


def data() -> dict[str, Any]:
    draw = torch.Generator().manual_seed(1)
    count = 103  # does not divide
    tags = [["O", "B-X", "I-X", "B-Y"][i] for i in torch.randint(0, 4, (count * 2,), generator=draw)]
    texts = ["the river", "a bridge", "old herons", "", "seven herons"]
    chosen = torch.randint(0, 5, (count * 2,), generator=draw).tolist()
    return {
        "classification": torch.randint(0, 7, (2, count), generator=draw).unbind(),
        "multi_label": (torch.rand(2, count, 7, generator=draw) > 0.6).unbind(),
        "regression": torch.randn(2, count, generator=draw).double().unbind(),
        "entities": ([[t] for t in tags[:count]], [[t] for t in tags[count:]]),
        "answers": ([texts[i] for i in chosen[:count]], [[texts[i]] for i in chosen[count:]]),
    }


def updated(given: dict[str, Any], rank: int, size: int) -> dict[str, float]:
    """Every metric over this rank's contiguous share, of which rank 0 has the larger, in two updates."""
    found = {}
    kinds = {"entities": "token_classification", "answers": "question_answering"}
    for kind, (predicted, true) in given.items():
        cut = len(true) if size == 1 else 61
        share = slice(0, cut) if rank == 0 else slice(cut, None)
        for name, metric in get_metrics_for_task(kinds.get(kind, kind), 7).items():
            if kind == "entities" and name == "accuracy":
                continue
            mine = predicted[share], true[share]
            for part in (slice(0, 20), slice(20, None)):
                metric.update(mine[0][part], mine[1][part])
            found[f"{kind}/{name}"] = float(metric.compute())
    return found


def run(*arguments: str) -> dict[str, float]:
    import json

    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False, timeout=1200)
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if "FOUND" in line)
    return json.loads(line.partition("FOUND")[2])


@pytest.mark.slow
def test_two_processes_give_the_figures_of_one(tmp_path: Path) -> None:
    program = tmp_path / "ranks.py"
    program.write_text(f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n{TWO_PROCESSES}")
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    two = run(sys.executable, *launcher, str(program), "distributed")
    one = run(sys.executable, str(program))
    assert two.keys() == one.keys()
    for name, value in one.items():
        if name in ("regression/pearson", "regression/spearman", "regression/mse"):
            assert two[name] == pytest.approx(value, rel=1e-6), name
        else:
            assert two[name] == value, name
