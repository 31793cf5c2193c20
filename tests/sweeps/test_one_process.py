"""What a process keeps of the jobs that it runs one after the other, and what it starts."""

import gc
import multiprocessing
import os
import platform
import weakref
from pathlib import Path
from typing import Any

import pytest
from hydra.core.utils import JobReturn
from hydra.types import RunMode
from omegaconf import OmegaConf

from tests.benchmarks.sweeps.bench_sweep_memory import measure
from tests.support.processes import warm_process
from tiryns.runner.launch.job import KERNEL_CACHES, bound_kernel_caches, start_processes_as_usual
from tiryns.runner.run.folder import Run
from tiryns.runner.sweeps.sweep_page import SweepPage

STATM = Path("/proc/self/statm")

KERNELS_OF_MANY_SIZES = """
import sys
import torch
from tiryns.runner.launch.job import bound_kernel_caches
from tiryns.runner.launch.processes import return_freed_memory

def resident() -> int:
    return_freed_memory()  # holes between kernels fill up later on one processor than on another
    return int(open("/proc/self/statm").read().split()[1]) * 4 // 1024

if sys.argv[1] == "bounded":
    bound_kernel_caches()
weight, patches = torch.randn(64, 64, dtype=torch.bfloat16), torch.randn(16, 16, 3, 3)
for size in range(200, 450):
    torch.randn(size, 64, dtype=torch.bfloat16) @ weight
    torch.conv2d(torch.randn(1, 16, 8, size), patches)
    if size == 350:
        before = resident()
print(resident() - before)
"""
"""Multiplies matrices and convolves images of 250 sizes; prints by how many MB the last 100 let the process grow.

oneDNN compiles kernels for matrices in bf16 where the processor has units for them, for convolutions on every one.
"""


@pytest.mark.slow
@pytest.mark.skipif(not STATM.exists(), reason="reads the memory from /proc")
def test_kernels_of_former_sizes_are_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KERNEL_CACHES:
        monkeypatch.delenv(name, raising=False)
    grown = {
        kind: int(warm_process("-c", KERNELS_OF_MANY_SIZES, kind, cwd=tmp_path).stdout)
        for kind in ("bounded", "as torch does")
    }
    assert grown["bounded"] < 3 < grown["as torch does"] / 2


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc alone gives freed memory back")
@pytest.mark.parametrize("mode", ["MULTIRUN", "RUN"])
def test_next_job_begins_without_the_freed_memory_of_a_larger_one(mode: str) -> None:
    tensors: list[bytes] = [b"x" * 100_000 for _ in range(2000)]
    del tensors[:-1]  # the last one lies above the others in the heap
    page, before = SweepPage(), resident()
    page._frozen = True
    page.on_job_end(OmegaConf.create({"hydra": {"mode": RunMode[mode]}}), job_return=JobReturn())
    assert (before - resident() > 150) == (mode == "MULTIRUN")


def resident() -> int:
    """Returns the megabytes of memory that this process has."""
    return int(STATM.read_text().split()[1]) * 4 // 1024


@pytest.mark.slow
@pytest.mark.skipif(not STATM.exists(), reason="reads the memory from /proc")
def test_five_hundred_jobs_end_in_the_memory_of_some(tmp_path: Path) -> None:
    (_, early, *before), (jobs, late, *after) = measure(str(tmp_path), (60, 500))
    states = [Run(file.parent).status["state"] for file in tmp_path.glob("outputs/*/*/*/status.json")]
    assert states == ["done"] * jobs == ["done"] * 500
    assert late - early < 100
    assert all(now <= then + 1 for now, then in zip(after, before, strict=True)), "open files and threads"


def test_bound_of_the_user_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KERNEL_CACHES[0], "7")
    monkeypatch.delenv(KERNEL_CACHES[1], raising=False)
    bound_kernel_caches()
    assert [os.environ[name] for name in KERNEL_CACHES] == ["7", "128"]


class Held:
    """What a job has left in a circle of references, as a trainer is."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.parametrize("mode", ["MULTIRUN", "RUN"])
def test_job_of_a_sweep_leaves_neither_its_config_nor_circles(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen: list[bool] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(True))
    gc.disable()
    try:
        page = SweepPage()
        for _ in range(2):
            left = weakref.ref(Held())
            done: Any = JobReturn(cfg=OmegaConf.create({"a": 1}), hydra_cfg=OmegaConf.create({"b": 1}))
            page.on_job_end(OmegaConf.create({"hydra": {"mode": RunMode[mode]}}), job_return=done)
            assert (done.cfg is None, done.hydra_cfg is None, left() is None) == (mode == "MULTIRUN",) * 3
    finally:
        gc.enable()
    assert len(frozen) == (mode == "MULTIRUN"), "the libraries once, no later job's objects"


def start_method_in_job() -> tuple[str, str]:
    """How a worker of joblib starts processes, before and after a job has begun."""
    before = multiprocessing.get_start_method()
    start_processes_as_usual()
    return before, multiprocessing.get_start_method()


def test_worker_of_joblib_starts_processes_as_any_other() -> None:
    joblib = pytest.importorskip("joblib")
    usual = multiprocessing.get_start_method()
    found = joblib.Parallel(n_jobs=2)(joblib.delayed(start_method_in_job)() for _ in range(2))
    assert found[0] == ("loky", usual)
    start_processes_as_usual()
    assert multiprocessing.get_start_method() == usual
