"""What every start of the program must not load, and what a run must not."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT, TINY
from tests.support import needs
from tests.support.processes import Done, process, warm_process

PROGRAM = """
import sys
import tiryns.runner.train
from tiryns.runner.cli.compose import prepare
prepare()
print([name for name in ("torch", "transformers", "megatron", "multistorageclient") if name in sys.modules])
"""

UNUSED = (
    "bitsandbytes", "datasets", "tiryns.runner.data.energon", "tiryns.runner.data.vision",
    "tiryns.runner.loaders", "tiryns.runner.models.pretraining.diffusion", "tiryns.runner.models.finetuning",
    "tiryns.runner.models.architectures.modeling_mosaic_bert",
    "lightning.pytorch.cli", "matplotlib", "megatron", "multistorageclient", "optuna", "pandas", "peft", "pyarrow",
    "pytorch_optimizer", "sentence_transformers", "sklearn", "tensorboard", "torch._inductor.compile_fx",
    "torchmetrics.functional", "transformers.generation.utils", "transformers.trainer", "wandb",
)  # fmt: skip
"""Modules that a plain pretraining run has no use for. `accelerate` and `torchvision` are not among them: where they are
installed, as with the extra `peft`, transformers imports them with its models, and accelerate boto3."""

RUN = f"""
import gc, sys
from tiryns.runner.cli.commands import main
main(sys.argv[1:])
print("imported:", [name for name in {UNUSED} if name in sys.modules])
print("collected:", gc.isenabled(), gc.get_freeze_count() > 300_000)
"""


@pytest.mark.slow
def test_starting_loads_no_training_library_nor_plugins_of_theirs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
    assert not done.stderr


@pytest.mark.parametrize(
    ("start", "loaded"),
    [
        pytest.param(process, [], marks=pytest.mark.slow, id="cold"),
        pytest.param(warm_process, ["torchmetrics.functional", "transformers.generation.utils"], id="warm"),
    ],
)
def test_run_loads_only_what_it_uses_and_leaves_modules_out_of_collections(
    start: Callable[..., Done], loaded: list[str], tmp_path: Path, text_file: Path
) -> None:
    """A warm process has loaded what runs of other kinds use as well."""
    needs.version("transformers", "5.24", "its models import generation, and that pandas and sklearn")
    small = [word for word in TINY if word != "model=bert_tiny"]  # of the default architecture
    words = [
        *small, "model.num_hidden_layers=2", f"data.source={text_file}", "trainer.max_steps=1",
        "trainer.validate_every=0",
    ]  # fmt: skip
    done = start("-c", RUN, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == [f"imported: {loaded}", "collected: True True"]
    assert "nanobind" not in done.stderr, "libraries find everything at teardown"
