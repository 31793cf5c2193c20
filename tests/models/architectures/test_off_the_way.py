"""A run of another architecture imports nothing of those that this project brings."""

import subprocess
import sys
from pathlib import Path

import pytest

TRAINS = """
import sys
from tiryns.runner.config.loading import from_pretrained
from tiryns.runner.models import encoder, weights
from transformers import AutoConfig, AutoModelForMaskedLM
sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 48}
settings = {"max_position_embeddings": 32, "dropout": 0.0, "init": "default", "tiled_from": None}
model = encoder.build_encoder(
    architecture=sys.argv[1], config={"vocab_size": 64}, tokenizer=None, **sizes, **settings
)
model.save_pretrained(sys.argv[2])
weights.load_trained(AutoModelForMaskedLM, sys.argv[2])
from_pretrained(AutoConfig, sys.argv[2])
print(*sorted(name for name in sys.modules if name.startswith("tiryns.runner.models.architectures.")))
"""


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["bert", "mosaic_bert"])
def test_architectures_are_imported_where_they_are_used_alone(architecture: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", TRAINS, architecture, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = [name.rpartition(".")[2] for name in done.stdout.split()]
    assert ("modeling_mosaic_bert" in names) == (architecture == "mosaic_bert")
    assert architecture != "bert" or names == ["registered"]
