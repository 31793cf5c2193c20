"""What a sweep leaves behind: one page that compares its runs."""

from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig


class SweepPage(Callback):
    """Writes the page when the last job of a multirun has ended, also where some of them failed."""

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        """Compares the runs in the sweep's folder."""
        folder = Path(config.hydra.sweep.dir)
        runs = sorted((status.parent for status in folder.glob("*/status.json")), key=_number)
        if runs:
            from runner.report import write_comparison

            print(f"the runs compared: {write_comparison(folder, runs)}", flush=True)


def _number(run: Path) -> tuple[int, str]:
    return (int(run.name) if run.name.isdigit() else 0, run.name)
