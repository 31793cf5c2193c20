"""Of torchmetrics a process imports what Lightning needs, and the rest when it is used."""

import subprocess
import sys
from pathlib import Path

import pytest

BEGIN = """
import sys
from tiryns.runner.run import lazy

def whole():
    return "torchmetrics.functional" in sys.modules
"""


def run_script(script: str, folder: Path) -> None:
    subprocess.run([sys.executable, "-c", BEGIN + script], cwd=folder, check=True)


USES = [
    "from torchmetrics import Accuracy", "import torchmetrics; torchmetrics.Accuracy",
    "from torchmetrics import functional", "from torchmetrics.regression import PearsonCorrCoef as Accuracy",
    "from torchmetrics.functional.text import edit_distance as Accuracy", "from torchmetrics import *",
]  # fmt: skip


@pytest.mark.slow
def test_what_is_used_is_there(tmp_path: Path) -> None:
    run_script(
        f"""
import os
with lazy.many_imports():
    from lightning.pytorch import LightningModule
    from torchmetrics import Metric, MetricCollection
assert not whole()
for use in {USES}:
    if os.fork() == 0:  # a process for each
        exec(use)
        break
    assert os.wait()[1] == 0, use
else:
    sys.exit()
assert whole(), use
import torchmetrics
assert torchmetrics.Metric is Metric
assert torchmetrics.MetricCollection is MetricCollection
assert issubclass(torchmetrics.MeanSquaredError, Metric)
assert set(torchmetrics.__all__) <= set(dir(torchmetrics))
assert not hasattr(torchmetrics, "nothing")
""",
        tmp_path,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "parts", ['{"metric": ()}', '{"utilities": (), "gone": ()}', '{"utilities": ("gone",)}']
)
def test_a_version_that_does_not_come_apart_is_imported_whole(parts: str, tmp_path: Path) -> None:
    run_script(
        f"""
lazy.PARTS = {parts}
with lazy.many_imports():
    import lightning.pytorch
assert whole()
""",
        tmp_path,
    )
