"""Tiny runs with YAML options of a user's own."""

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from tests.config.plain_runs import Options, Tiryns
from tests.conftest import TINY
from tests.support.in_process import Done, tiryns_here

SHORT = ["trainer.max_steps=4", "trainer.validate_every=2", "trainer.validation_batches=1"]


@pytest.fixture
def tiny(tmp_path: Path, text_file: Path) -> Tiryns:
    """`tiny({"optimizer": {...}}, "seed=1")` runs a few steps with YAML options named `plain`."""

    def call(options: Options, *words: str, text: bool = True, outputs: str = "out") -> Done:
        for group, node in options.items():
            file = tmp_path / "configs" / group / "plain.yaml"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(OmegaConf.to_yaml(OmegaConf.create(node)))
        (tmp_path / "configs").mkdir(exist_ok=True)
        mine = [f"{group}=plain" for group in options]
        mine += [f"data.source={text_file}"] if text else []
        base = [*TINY, *SHORT]
        for group in options:
            base = [word for word in base if not word.startswith((f"{group}.", f"{group}="))]
        return tiryns_here(
            tmp_path, "--config-dir", "configs", *base, *mine, f"hydra.run.dir={outputs}", *words
        )

    return call
