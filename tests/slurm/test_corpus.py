"""A corpus prepared by jobs of a real cluster is the one that a single process makes."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.data.corpus.conftest import write_texts
from tests.data.text.conftest import paragraphs
from tests.support import needs
from tests.support.processes import SECONDS
from tiryns.runner.run.command.lifetime import PROGRAM

pytestmark = pytest.mark.slurm


def prepare(cwd: Path, *words: str) -> str:
    command = [
        sys.executable, "-c", PROGRAM, "prepare", "corpus", "texts", *words, "--tokenizer", "tokenizer",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("cluster")
def test_jobs_that_wait_for_each_other_make_the_same_store(tmp_path: Path) -> None:
    needs.package("datatrove")
    from tiryns.runner.data.text.tokenizer import train_tokenizer

    train_tokenizer(paragraphs(50), "wordpiece", 120, True).save_pretrained(tmp_path / "tokenizer")
    write_texts(tmp_path / "texts", 3)
    here = prepare(tmp_path, "here", "--deduplicate", "exact", "--workers", "1")
    slurm = ["--executor", "slurm", "time=00:10:00", "partition=main", "mem_per_cpu_gb=1", "qos=null"]
    words = [str(tmp_path / "there"), "--deduplicate", "exact", "--tasks", "3", *slurm]
    assert "submitted; the store is there when the last job, tiryns-index, has ended" in prepare(
        tmp_path, *words
    )
    end = time.monotonic() + SECONDS
    while not (tmp_path / "there" / "store.json").exists():
        logs = [path.read_text()[-1500:] for path in tmp_path.glob("there/logs/*/slurm_logs/*.out")]
        assert time.monotonic() < end, "\n".join(logs)
        time.sleep(1)
    sets = json.loads((tmp_path / "there" / "store.json").read_text())["sets"]
    assert all(content["fingerprint"] in here for content in sets.values())
    assert len(sets["train"]["shards"]) == 3
