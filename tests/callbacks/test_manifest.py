import logging
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lightning.pytorch import LightningModule

from tiryns.runner.callbacks import manifest


@pytest.mark.parametrize("differs", [True, False])
def test_rank_with_other_weights_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, differs: bool
) -> None:
    module = LightningModule()
    module.layer = torch.nn.Linear(2, 2)
    trainer: Any = SimpleNamespace(optimizers=[], strategy=None, global_rank=0, world_size=2, global_step=7)
    monkeypatch.setattr(manifest, "gather_objects", lambda mine, _: [mine, ["other"] if differs else mine])
    with caplog.at_level(logging.WARNING, "tiryns"):
        found = manifest.digests_of_ranks(trainer, module)
    assert found == [manifest.state_digest(dict(module.named_parameters()))]
    assert ("after step 7 rank 1 has weights" in caplog.text) == differs
