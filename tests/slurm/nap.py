"""A callback that makes steps long enough for a signal to find the run at work."""

import time
from typing import Any

from lightning.pytorch import Callback


class Nap(Callback):
    """Sleeps after each step."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def on_train_batch_end(self, *_: Any) -> None:
        time.sleep(self.seconds)
