"""What every start of the program must not load."""

import subprocess
import sys

from tests.conftest import ROOT

PROGRAM = """
import sys
import iolaus.runner.train
from hydra.core.plugins import Plugins
Plugins.instance()
print([name for name in ("torch", "transformers", "megatron", "multistorageclient") if name in sys.modules])
"""


def test_starting_loads_no_training_library_nor_plugins_of_theirs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
    assert not done.stderr
