"""`tiryns doctor`: what it finds is what there is, and what it says a run would choose is what a run chooses."""

import json
import os
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.conftest import ROOT, TINY
from tests.launch.test_kill import only_run
from tests.support.in_process import tiryns_here
from tests.support.precision import pretend_units
from tiryns.runner.cli.doctor import machine
from tiryns.runner.cli.doctor.command import CHOSEN
from tiryns.runner.loop import resolved as resolving
from tiryns.runner.run.environment import environment, version_of

GIB = 2**30
AUTO = [word for word in TINY if not word.startswith("trainer")]
SHORT = ["trainer.max_steps=1", "trainer.validate_every=0"]
NVIDIA_SMI = "#!/bin/sh\ncase $1 in *driver*) echo 575.1;; *) printf 'NVIDIA H200\\nNVIDIA H200\\n';; esac\n"


@pytest.fixture
def doctor(tmp_path: Path) -> Callable[..., Any]:
    """The document of `tiryns doctor SETTINGS --json`, and the status that it ends with."""

    def ask(*words: str, status: int = 0) -> Any:
        done = tiryns_here(tmp_path, "doctor", *words, "--json")
        assert done.returncode == status, done.stdout + done.stderr
        return json.loads(done.stdout)

    return ask


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine with nothing on its PATH but the folder that this returns; facts are found anew, also afterwards."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        monkeypatch.delenv(name)
    environment.cache_clear()
    yield programs
    environment.cache_clear()


def program(folder: Path, name: str, text: str = "#!/bin/sh\n") -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def with_gpus(monkeypatch: pytest.MonkeyPatch, count: int, capability: tuple[int, int] = (9, 0)) -> None:
    facts = SimpleNamespace(name="NVIDIA H200", total_memory=140 * GIB)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: facts)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: capability)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: capability >= (8, 0))
    monkeypatch.setattr(torch.version, "cuda", "13.0")


@pytest.mark.rows(1)
@pytest.mark.parametrize(("has_bf16", "amx"), [(True, False), (True, True), (False, False)])
def test_run_chooses_what_it_says(
    has_bf16: bool, amx: bool, doctor: Any, text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_units(monkeypatch, has_bf16, amx)
    words = [*AUTO, *SHORT, f"data.source={text_file}"]
    said = doctor(*words)["chosen"]
    assert tiryns_here(tmp_path, *words).returncode == 0
    status = only_run(tmp_path / "outputs").status
    assert said == {name: status["resolved"][name] for name in CHOSEN}
    assert said["precision"] == ("bf16-mixed" if has_bf16 and not amx else "32-true"), "the model is narrow"


def test_no_gpu_and_no_bf16(doctor: Any, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpus(monkeypatch, 0)
    pretend_units(monkeypatch, False)
    found = doctor()
    assert (found["gpus"], found["driver"]) == ([], {"version": None, "gpus": []})
    assert (found["chosen"]["accelerator"], found["chosen"]["precision"]) == ("cpu", "32-true")
    assert found["reasons"]["precision"] == "this processor has no bf16 units"
    assert found["compiler"] is None
    assert "module.compile_model=true needs a C++ compiler, such as g++" in found["hints"]
    program(bare, "clang++")
    found = doctor("trainer.precision=bf16-mixed")
    assert found["compiler"] == "clang++"
    assert not any("compiler" in hint for hint in found["hints"])
    assert found["reasons"]["precision"] == "as trainer.precision says"


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    ("capability", "precision", "attention"),
    [((9, 0), "bf16-mixed", "varlen_attn"), ((7, 5), "32-true", "padded_documents")],
)
def test_gpus(
    capability: tuple[int, int], precision: str, attention: str, doctor: Any, bare: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    program(bare, "nvidia-smi", NVIDIA_SMI)
    with_gpus(monkeypatch, 2, capability)
    found = doctor()
    assert found["driver"] == {"version": "575.1", "gpus": ["NVIDIA H200"] * 2}
    facts = {"name": "NVIDIA H200", "memory": 140 * GIB, "capability": ".".join(map(str, capability))}
    assert found["gpus"] == [{**facts, "flash": capability >= (8, 0)}] * 2
    assert found["chosen"] == {
        "accelerator": "gpu", "precision": precision, "attention": attention, "processes": 1, "threads": None,
    }  # fmt: skip
    assert "one of 2 GPUs is used: trainer=ddp trainer.devices=auto takes all" in found["hints"]
    every = doctor("trainer=ddp", "trainer.devices=auto")
    assert every["chosen"]["processes"] == 2
    assert not any("GPU" in hint for hint in every["hints"])
    assert doctor("trainer=ddp", "trainer.devices=3", status=4)["problems"] == [
        "trainer.devices=3, but torch finds 2 GPUs; trainer.devices=auto takes all"
    ]
    monkeypatch.setattr(resolving, "find_spec", lambda name: name)
    installed = doctor("trainer.precision=bf16-mixed")["chosen"]["attention"]
    assert installed == ("flash_attn" if capability >= (8, 0) else "padded_documents")


@pytest.mark.rows(1)
@pytest.mark.parametrize(("built", "hint"), [(None, "built without CUDA"), ("13.0", "too old for CUDA 13.0")])
def test_gpus_that_torch_cannot_use(
    built: str | None, hint: str, doctor: Any, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(bare, "nvidia-smi", NVIDIA_SMI)
    with_gpus(monkeypatch, 0)
    monkeypatch.setattr(torch.version, "cuda", built)
    assert any(hint in line for line in doctor()["hints"])
    problem = "trainer.accelerator=gpu, but there is no GPU that torch can use; try trainer=cpu"
    assert doctor("trainer=gpu", status=4)["problems"] == [problem]


@pytest.mark.slow
def test_slurm(doctor: Any, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor()["slurm"] == {"job": None, "nodes": None, "tasks": None, "sbatch": None}
    program(bare, "sbatch")
    assert doctor()["slurm"]["sbatch"] == str(bare / "sbatch")
    job = "JOB_ID=17 JOB_NUM_NODES=2 NTASKS=5 PROCID=0 STEP_ID=0 STEP_NUM_NODES=2"
    for name, value in (word.split("=") for word in job.split()):
        monkeypatch.setenv(f"SLURM_{name}", value)
    found = doctor(status=4)
    assert found["problems"] == ["SLURM started 5 tasks on 2 nodes; every node needs the same number"]
    monkeypatch.setenv("SLURM_NTASKS", "4")
    (problem,) = doctor("trainer=ddp", "trainer.accelerator=cpu", status=4)["problems"]
    assert problem.startswith(
        "SLURM started 2 processes on each of 2 nodes, but the config has trainer.devices=2"
    )
    found = doctor("trainer=ddp", "trainer.accelerator=cpu", "trainer.num_nodes=2")
    assert found["slurm"] == {"job": "17", "nodes": 2, "tasks": 4, "sbatch": str(bare / "sbatch")}
    assert found["chosen"]["processes"] == 4


def test_memory_and_cores_are_those_of_the_container(
    doctor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS")
    for module in ("cli.doctor.machine", "run.environment"):
        monkeypatch.setattr(f"tiryns.runner.{module}.CGROUPS", tmp_path)
    whole = doctor()
    assert whole["memory"]["total"] == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert whole["processor"]["quota"] is None
    (tmp_path / "memory.max").write_text(f"{GIB}\n")
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    found = doctor()
    assert found["memory"]["total"] == GIB
    assert found["processor"]["quota"] == 0.5
    cores = found["processor"]["usable_cores"]
    assert f"the container may use 0.5 of {cores} cores at once: export OMP_NUM_THREADS=1" in found["hints"]
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert doctor()["memory"]["total"] == whole["memory"]["total"]


def test_disk(doctor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda path: SimpleNamespace(free=GIB))
    monkeypatch.setattr(machine.os, "access", lambda path, mode: Path(path) != tmp_path / "read")
    (tmp_path / "read").mkdir()
    found = doctor("outputs=read/below", status=4)
    assert found["disk"]["outputs"] == {"folder": "read/below", "free": GIB, "writable": False}
    assert found["problems"] == ["read/below cannot be written: set outputs=FOLDER"]
    assert "read/below has 1.0 GiB left: outputs=FOLDER writes elsewhere" in found["hints"]


def test_broken_torch_leaves_the_rest(doctor: Any, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    found = doctor(status=4)
    assert any("torch" in problem for problem in found["problems"])
    assert found["chosen"] == dict.fromkeys(CHOSEN)
    assert found["memory"]["total"]
    assert found["gpus"] == []


REQUIREMENTS = [
    "nowhere>=3", "numpy<1", "hydra-core>=1", 'optuna-nowhere>=5; extra == "search"',
    'pytest; extra == "dev"',
]  # fmt: skip


def test_packages_that_are_missing_or_of_another_version(
    doctor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "requires", lambda name: REQUIREMENTS)
    machine.packages.cache_clear()
    try:
        found = doctor(status=4)
    finally:
        machine.packages.cache_clear()
    numpy = version_of("numpy")
    assert found["problems"] == [
        "nowhere>=3 is needed, and it is missing: pip install 'nowhere>=3'",
        f"numpy<1 is needed, and {numpy} is installed: pip install 'numpy<1'",
    ]
    extras = {each["extra"]: each for each in found["extras"]}
    assert extras["search"]["missing"] == ["optuna-nowhere>=5"]
    assert extras["search"]["installed"] is False
    assert extras["ray"]["installed"] is None, "nothing is known of it"


def test_extras_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(machine.EXTRAS) == set(project["optional-dependencies"]) - {"dev", "docs"}


def test_screen_fits_and_says_what_the_document_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpus(monkeypatch, 0)
    pretend_units(monkeypatch, False)
    done = tiryns_here(tmp_path, "doctor")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) <= 30
    assert "precision    32-true (this processor has no bf16 units)" in done.stdout
    done = tiryns_here(tmp_path, "doctor", "trainer=gpu")
    assert (done.returncode, done.stderr) == (4, "")
    assert "in the way\n  1" in done.stdout
    wrong = tiryns_here(tmp_path, "doctor", "trainer.precision=bf61")
    assert (wrong.returncode, wrong.stdout) == (1, "")
