"""`runner.evaluation.metrics`."""

import inspect

import pytest
import torch
from torchmetrics import Metric

from tiryns.runner.evaluation.metrics import get_metrics_for_task


def test_get_metrics_for_task_classification() -> None:
    assert list(inspect.signature(get_metrics_for_task).parameters)[:2] == ["task", "num_labels"]
    metrics = get_metrics_for_task("classification")
    assert all(isinstance(metric, Metric) for metric in metrics.values())
    predicted, true = torch.tensor([1, 1, 0, 0]), torch.tensor([1, 0, 0, 0])
    for name, expected in (("accuracy", 3 / 4), ("macro_f1", (2 / 3 + 4 / 5) / 2)):
        metrics[name].update(predicted, true)
        assert float(metrics[name].compute()) == pytest.approx(expected)
    many = get_metrics_for_task("classification", num_labels=5)["accuracy"]
    many.update(torch.tensor([4, 3]), torch.tensor([4, 2]))
    assert float(many.compute()) == 0.5
