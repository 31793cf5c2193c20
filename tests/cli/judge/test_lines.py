"""What `tiryns judge` shows of the runs that it trains: a line each."""

import re
from pathlib import Path

import pytest

from tests.support.processes import warm_process

PRINTING = """
import sys
from pathlib import Path
from hydra.core.hydra_config import HydraConfig
from tiryns.runner import train
from tiryns.runner.cli.commands import main
from tiryns.runner.run.folder import Run

def work(config):
    folder = Run(Path(HydraConfig.get().runtime.output_dir))
    with folder.lock(), folder.record(config, list(HydraConfig.get().overrides.task)):
        print("a summary")
        folder.end("done", results={"objective": float(config.seed)})
    return {"objective": float(config.seed)}

train.work = work
main(sys.argv[1:])
"""
"""The program with a training that prints and costs nothing."""


@pytest.mark.slow
def test_a_line_is_printed_for_each_run_and_the_rest_kept_beside_it(tmp_path: Path) -> None:
    words = ["--change", "optimizer=muon", "trainer.max_steps=60", "--seeds", "2", "--anyway"]
    done = warm_process("-c", PRINTING, "judge", *words, "--metric", "objective", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [re.sub(r", \d:\d\d, outputs/\S+", "", line) for line in done.stderr.splitlines()] == [
        "judge: the config as it is, seed 1", "[1/1] seed=1: objective 1", "judge: optimizer=muon, seed 1",
        "[2/2] optimizer=muon seed=1: objective 1", "judge: the config as it is, seed 2",
        "[3/3] seed=2: objective 2", "judge: optimizer=muon, seed 2",
        "[4/4] optimizer=muon seed=2: objective 2",
    ]  # fmt: skip
    kept = [file.read_text() for file in tmp_path.glob("outputs/*/*/*/output.txt")]
    assert kept == ["a summary\n"] * 4
