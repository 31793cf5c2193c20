"""Sweeps on a real Ray cluster of two nodes on this machine: processes and nodes that die cost nothing."""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

from tests.conftest import ROOT, TINY
from tests.report.pages import read
from tests.runs.test_train import assert_bitwise, rows, weights
from tests.support import needs
from tests.support.in_process import refused
from tests.support.processes import SECONDS, wait_until
from tiryns.conf import sweeps as options
from tiryns.conf.fields import check_fields
from tiryns.runner.run.folder import Run
from tiryns.runner.sweeps import ray as launcher
from tiryns.runner.sweeps.sweeper import register_plugins

STEPS = 120
SWEPT = ["experiment=ours", "imports=[where]", "seed=1,2", f"trainer.max_steps={STEPS}"]
SWEPT += ["trainer.validate_every=60", "checkpoint.every_steps=5", "data.num_workers=1"]

OURS = "# @package _global_\nmodel:\n  dropout: 0.1\n"
WHERE = """
import os, socket
from pathlib import Path
import tiryns

Path("where.txt").open("a").write(f"{os.getpid()} {tiryns.__file__}\\n")
"""
"""A recipe of the user's own, and a module of theirs that it imports."""


class Cluster:
    """A head and nodes, each `ray start --block` with one core, as if on machines of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.nodes: list[subprocess.Popen[bytes]] = []
        self.address = ""

    def start(self, *words: str) -> None:
        """Starts a node; it neither knows where this project lies nor stands in the user's folder."""
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--num-cpus=1", "--block"]
        output = open(self.folder / f"node-{len(self.nodes)}.txt", "wb")  # noqa: SIM115
        kept = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path != str(ROOT)]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(kept), "RAY_USAGE_STATS_ENABLED": "0"}
        node = subprocess.Popen(
            [*command, *words], cwd=self.folder, env=env, stdout=output, stderr=output, start_new_session=True
        )
        self.nodes.append(node)

    def raylet(self, node: int) -> int:
        """The process of a node that starts its workers."""
        leader = self.nodes[node].pid
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words, group = (folder / "cmdline").read_bytes(), os.getpgid(int(folder.name))
            except OSError:
                continue
            if group == leader and words.split(b"\0")[0].endswith(b"/raylet"):
                return int(folder.name)
        return 0

    def stop(self) -> None:
        """Ends all nodes."""
        for node in self.nodes:
            for end in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(node.pid, end)
                    node.wait(timeout=20)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    continue


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    needs.package("ray")
    needs.package("hydra_plugins.hydra_ray_launcher")
    started = Cluster(tmp_path_factory.mktemp("ray"))
    # not that of another cluster
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    temporary = f"/tmp/r{os.getpid()}"  # names of sockets may have 107 bytes
    try:
        started.start("--head", "--port=0", "--include-dashboard=false", f"--temp-dir={temporary}")
        addresses = Path(temporary, "ray_current_cluster")
        wait_until(lambda: addresses.exists() and addresses.read_text() and started.raylet(0))
        started.address = addresses.read_text().strip()
        yield started
    finally:
        started.stop()


def sweep(cwd: Path, text_file: Path, *words: str) -> subprocess.Popen[bytes]:
    """A sweep with configs of the user's own, in a folder of theirs."""
    (cwd / "configs" / "experiment").mkdir(parents=True)
    (cwd / "configs" / "experiment" / "ours.yaml").write_text(OURS)
    (cwd / "where.py").write_text(WHERE)
    paths = [str(cwd), str(ROOT), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "runner.train", "--config-dir", "configs", "-m", *TINY, *SWEPT, *words]
    with open(cwd / "output.txt", "wb") as output:
        return subprocess.Popen(
            [*command, f"data.source={text_file}"], cwd=cwd, env=env, stdout=output, stderr=output
        )


def run_of(cwd: Path, number: int) -> Run | None:
    return next((Run(path) for path in cwd.glob(f"outputs/*/*-sweep/{number}")), None)


def step_of(cwd: Path, number: int) -> int:
    run = run_of(cwd, number)
    order = run.path / "order.txt" if run else None
    return len(order.read_text().splitlines()) if order and order.exists() else 0


@pytest.mark.slow
def test_dead_process_and_dead_node_cost_nothing(cluster: Cluster, tmp_path: Path, text_file: Path) -> None:
    local, remote = tmp_path / "local", tmp_path / "remote"
    local.mkdir()
    remote.mkdir()
    gate = tmp_path / "12"
    gate.touch()
    held = f"+callback.gate={{_target_: tests.support.callbacks.Gate, folder: {tmp_path}, steps: [12]}}"
    words = ["allowed_targets=[tests]", held]
    assert sweep(local, text_file, *words).wait(timeout=SECONDS) == 0, (local / "output.txt").read_text()
    gate.unlink()
    cluster.start(f"--address={cluster.address}")
    wait_until(lambda: cluster.raylet(1))
    ray = ["hydra/launcher=ray", f"hydra.launcher.address={cluster.address}", "hydra.launcher.cpus=1"]
    process = sweep(remote, text_file, *words, *ray)
    wait_until(lambda: min(step_of(remote, 0), step_of(remote, 1)) >= 10, remote)
    killed = {number: run_of(remote, number).status["pid"] for number in (0, 1)}  # type: ignore[union-attr]
    parents = {
        number: int(Path(f"/proc/{pid}/stat").read_text().split()[3]) for number, pid in killed.items()
    }
    assert set(parents.values()) == {cluster.raylet(0), cluster.raylet(1)}, "both nodes have a job"
    on_head = next(number for number, parent in parents.items() if parent == cluster.raylet(0))
    os.kill(killed[on_head], signal.SIGKILL)
    wait_until(lambda: run_of(remote, on_head).status["pid"] != killed[on_head])  # type: ignore[union-attr]
    os.kill(cluster.raylet(1), signal.SIGKILL)
    gate.touch()
    assert process.wait(timeout=SECONDS) == 0, (remote / "output.txt").read_text()
    output = (remote / "output.txt").read_text()
    assert output.count("continuing at step") >= 2, output
    assert len(list(remote.glob("outputs/*/*-sweep/*/status.json"))) == 2, "each in its own folder"
    for number in (0, 1):
        here, there = run_of(local, number), run_of(remote, number)
        assert here is not None
        assert there is not None
        assert there.status["pid"] != killed[number]
        assert there.status["state"] == "done"
        assert_bitwise(weights(here, STEPS), weights(there, STEPS))
        assert (here.path / "order.txt").read_text() == (there.path / "order.txt").read_text()
        assert rows(here) == rows(there)
        assert OmegaConf.load(there.path / "config.yaml").model.dropout == 0.1
    pages = [read(next(cwd.glob("outputs/*/*-sweep/report.html"))) for cwd in (local, remote)]
    tables = [page.table("run").column("run") for page in pages]
    assert tables[0] == tables[1] != []
    assert pages[0].heads == pages[1].heads
    packages = {line.split()[1] for line in (remote / "where.txt").read_text().splitlines()}
    assert packages == {str(ROOT / "tiryns" / "__init__.py")}, "the nodes run the program of the command"


def made(**settings: Any) -> launcher.Launcher:
    """The launcher with these settings; the others are the defaults."""
    known = vars(options.Ray(**settings))
    return launcher.Launcher(**{name: value for name, value in known.items() if name != "_target_"})


@pytest.fixture
def with_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "find_spec", lambda name: name)


@pytest.mark.parametrize("name", ["cpus", "gpus", "mem_gb"])
def test_less_than_nothing_is_refused_before_ray_starts(with_packages: None, name: str) -> None:
    with pytest.raises(ValueError, match=rf"hydra\.launcher\.{name}=-1: it must be a number, 0 or more"):
        made(**{name: -1}).launch([], 0)
    check_fields(options.Ray, "hydra.launcher", vars(options.Ray()))


def test_run_gets_what_its_trainer_and_the_launcher_ask_for(with_packages: None) -> None:
    trainer = {"accelerator": "gpu", "devices": 4, "num_nodes": 1}
    asked = {
        "trainer": made()._resources(OmegaConf.create(trainer)),
        "launcher": made(cpus=2, gpus=0.5, mem_gb=1.5)._resources(OmegaConf.create(trainer)),
        "cpu": made(resources={"big": 1})._resources(OmegaConf.create(trainer | {"accelerator": "cpu"})),
    }
    assert asked["trainer"] == {"num_cpus": 1, "num_gpus": 4, "resources": {}}
    assert asked["launcher"] == {"num_cpus": 2, "num_gpus": 0.5, "resources": {}, "memory": 1_500_000_000}
    assert asked["cpu"] == {"num_cpus": 1, "num_gpus": 0, "resources": {"big": 1}}
    with pytest.raises(ValueError, match=r"trainer\.num_nodes=2 needs torchrun"):
        made()._resources(OmegaConf.create(trainer | {"num_nodes": 2}))


def test_job_runs_where_the_command_was_typed_and_is_no_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    for name, value in (("SLURM_PROCID", "3"), ("HERE", "the node's"), ("RANK", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("THERE", raising=False)
    seen: list[Any] = []
    names = ("SLURM_PROCID", "RANK", "HERE", "THERE")
    given = {"HERE": "the command's", "THERE": "the command's"}
    task = launcher.OnNode(
        lambda _: seen.append([os.getcwd(), *map(os.environ.get, names)]), tmp_path, str(tmp_path), given
    )
    task(OmegaConf.create())
    os.environ.pop("THERE")
    assert seen == [[str(tmp_path), None, None, "the node's", "the command's"]]
    elsewhere = launcher.OnNode(lambda _: None, tmp_path, str(tmp_path / "absent"), {})
    with pytest.raises(ValueError, match=r"cannot enter '.*absent' \(No such file"):
        elsewhere(OmegaConf.create())


def test_run_that_is_started_again_waits_for_the_process_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    held = Run(tmp_path).lock()
    held.__enter__()
    monkeypatch.setattr(launcher.time, "sleep", lambda seconds: held.__exit__(None, None, None))
    seen: list[bool] = []
    job = launcher.OnNode(lambda _: seen.append(Run(tmp_path).is_locked()), tmp_path, str(tmp_path), {})
    job(OmegaConf.create())
    assert seen == [False]


def test_cluster_gets_no_variables_of_another_job_or_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_JOB_ID", "WORLD_SIZE", "RAY_ADDRESS", "OURS"):
        monkeypatch.setenv(name, "1")
    found = launcher.environment_for_nodes()
    assert "OURS" in found
    assert not {"SLURM_JOB_ID", "WORLD_SIZE", "RAY_ADDRESS"} & set(found)


def test_without_the_packages_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "find_spec", lambda name: None)
    error = refused(tmp_path, "-m", "hydra/launcher=ray", "seed=1,2")
    assert "hydra/launcher=ray needs the package hydra-ray-launcher: pip install 'tiryns[ray]'" in error
    assert not list(tmp_path.iterdir())


def test_option_is_ours_where_the_plugin_brings_its_own() -> None:
    place = ConfigStore.instance().repo["hydra"]["launcher"]
    ours = place["ray.yaml"]
    try:
        ConfigStore.instance().store(
            "ray", {"_target_": "theirs"}, group="hydra/launcher", provider="ray_launcher"
        )
        assert place["ray.yaml"] is not ours
        register_plugins()
        assert place["ray.yaml"] is ours
    finally:
        place["ray.yaml"] = ours
