"""What is patched in Lightning is still needed, and does what it says."""

import inspect
from importlib.metadata import EntryPoint

import pytest
from lightning import Callback, Trainer
from lightning.fabric.utilities import registry

from tiryns.runner.patches.lightning import keep_plugins, leave_signals_alone


def test_lightning_still_handles_signals_without_a_setting() -> None:
    trainer = Trainer(logger=False, enable_checkpointing=False, accelerator="cpu", enable_progress_bar=False)
    assert not [name for name in inspect.signature(Trainer).parameters if "signal" in name], "lightning.py"
    leave_signals_alone(trainer)
    handlers = trainer._signal_connector
    handlers.register_signal_handlers()
    assert not handlers._original_handlers


class OfAPlugin(Callback):
    pass


def test_lightning_still_asks_all_packages_for_callbacks_of_each_trainer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def entry_points(group: str) -> list[EntryPoint]:
        asked.append(group)
        return [EntryPoint("mine", f"{__name__}:OfAPlugin", group)]

    monkeypatch.setattr(registry, "entry_points", entry_points)
    monkeypatch.setattr("tiryns.runner.patches.lightning.entry_points", entry_points)
    keep_plugins()
    trainers = [Trainer(logger=False, enable_checkpointing=False, accelerator="cpu") for _ in range(2)]
    assert [
        any(isinstance(one, OfAPlugin) for one in vars(trainer)["callbacks"]) for trainer in trainers
    ] == [True] * 2
    assert asked == ["lightning.pytorch.callbacks_factory"], "lightning.py"
