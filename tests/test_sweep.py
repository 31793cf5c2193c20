"""A multirun: one folder per job, a page that compares them, and a failed job that does not end the rest."""

from pathlib import Path

from runner.folder import RunFolder
from tests.conftest import TINY, Command

SHORT = ["trainer.max_steps=4", "trainer.validate_every=2"]


def test_sweep_ends_with_a_page_that_compares(iolaus: Command, tmp_path: Path, text_file: Path) -> None:
    done = iolaus("-m", *TINY, f"data.source={text_file}", *SHORT, "optimizer=adamw,lion,muon,soap")
    pages = list((tmp_path / "outputs").glob("*/*-sweep/comparison.html"))
    assert len(pages) == 1
    assert str(pages[0].relative_to(tmp_path)) in done.stdout
    page = pages[0].read_text()
    for name in ("adamw", "lion", "muon", "soap"):
        assert f"optimizer={name}" in page or f">{name}<" in page
    runs = [RunFolder(path.parent) for path in pages[0].parent.glob("*/status.json")]
    assert sorted(run.path.name for run in runs) == ["0", "1", "2", "3"]
    assert {run.status()["state"] for run in runs} == {"done"}
    assert all((run.path / "report.html").exists() for run in runs)


def test_failed_job_does_not_end_the_sweep(iolaus: Command, tmp_path: Path, text_file: Path) -> None:
    done = iolaus(
        "-m", *TINY, f"data.source={text_file}", *SHORT, "sampler.global_batch_size=100000,12", check=False
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "global_batch_size is 100000" in done.stderr
    states = [
        RunFolder(path.parent).status()["state"]
        for path in sorted(tmp_path.glob("outputs/*/*/*/status.json"))
    ]
    assert states == ["failed", "done"]
