"""Finetuning with low-rank adapters: what stays frozen, and exports in every task."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import train_here
from tests.modules.conftest import ROWS, TASKS, Finetune
from tests.modules.test_finetuning import weights
from tiryns.runner.opened_run import open_run
from tiryns.runner.run.folder import Run

LORA = ["model.adapter=lora", "model.adapter_rank=4", "model.adapter_alpha=16"]
QUICK = ["trainer.max_steps=6", "trainer.validate_every=3", "data.test=null"]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Run:
    """A pretraining run to start from."""
    folder = tmp_path_factory.mktemp("adapted") / "base"
    return train_here(folder, text_file, "trainer.max_steps=2", "trainer.validate_every=0")


@pytest.mark.slow
@pytest.mark.parametrize("export", ["merged", "separate"])
@pytest.mark.parametrize("task", TASKS)
def test_export_predicts_as_the_run_did(finetune: Finetune, base: Run, task: str, export: str) -> None:
    run = finetune(
        task, *LORA, *QUICK, f"model.adapter_export={export}", "trainer.precision=32-true", start=base
    )
    before, after = weights(base, "last.ckpt"), weights(run, "last.ckpt")
    frozen = [name for name in after if "base_layer" in name or "embeddings" in name]
    assert len(frozen) > 20
    assert all(torch.equal(after[n], before[n.replace(".base_layer", "")]) for n in frozen)
    assert (run.path / "model" / "adapter_config.json").exists() is (export == "separate")
    assert (run.path / "model" / "model.safetensors").exists() is (export == "merged")
    card = (run.path / "model" / "README.md").read_text()
    code = card.split("```python\n")[1].split("```")[0].replace("<this folder>", str(run.path / "model"))
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["model"].config.architectures or export == "separate"
    lines = [json.loads(line) for line in (run.path / "predictions.jsonl").read_text().splitlines()]
    rows = ROWS[task](23, 1)
    found = open_run(run.path).predict(
        [{k: v for k, v in row.items() if not k.startswith("label")} for row in rows]
    )
    assert len(found) == len(lines) == 23
    assert [one["predicted"] for one in found] == [line["predicted"] for line in lines]
