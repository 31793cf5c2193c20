"""The rank of this process where srun or torchrun has started it. Imports no torch."""

import contextlib
import os
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tiryns.runner.run.environment import output_of

AGREED_LAUNCH = "TIRYNS_LAUNCH"
"""Environment variable with the launch's name. torchrun's ranks agree on it, as each agent counts its own restarts."""

SECONDS_TO_AGREE = 600.0
"""How long the other ranks wait for rank 0."""

NOT_A_TASK = 0xFFFFFFF0
"""SLURM steps with this number or a larger number are shells and batch scripts, not tasks of srun."""


@dataclass(frozen=True)
class Member:
    """A rank that srun or torchrun has started."""

    rank: int
    world_size: int
    ranks_per_node: int
    launch: str
    """The name of this launch, equal on every rank; from SLURM it is job, step and number of requeues."""
    slurm: bool

    @property
    def num_nodes(self) -> int:
        """Nodes with a rank."""
        return self.world_size // self.ranks_per_node


class Nodes(NamedTuple):
    """How many nodes a run may have."""

    least: int
    most: int

    @property
    def elastic(self) -> bool:
        """Whether the run may continue with more or fewer nodes."""
        return self.least < self.most

    def __str__(self) -> str:
        return f"{self.least}:{self.most}" if self.elastic else str(self.least)


ANY_NODES = Nodes(1, 1024)
"""What `trainer.num_nodes=auto` stands for."""

MOST = 65_536
"""The maximum number of nodes of a run, and of processes of a node; a larger number is taken for a typing error."""


def nodes_of(trainer: Any) -> Nodes:
    """Returns the nodes that a trainer config asks for: a number, a range (`1:4`), or `auto`; else raises ValueError."""
    setting = str(trainer.get("num_nodes", 1))
    if setting == "auto":
        return ANY_NODES
    match = re.fullmatch(r"(\d+)(?::(\d+))?", setting)
    nodes = Nodes(int(match[1]), int(match[2] or match[1])) if match else Nodes(0, 0)
    if not 1 <= nodes.least <= nodes.most <= MOST:
        hint = f"expected a number up to {MOST:,}, a range such as 1:4, or auto"
        raise ValueError(f"trainer.num_nodes={setting}: {hint}")
    return nodes


def num_nodes(trainer: object) -> int:
    """Returns the number of nodes: in a rank the actual number, elsewhere the smallest number that the config allows."""
    here = member()
    return here.num_nodes if here is not None else nodes_of(trainer).least


def member() -> Member | None:
    """Returns this process as a rank of srun or torchrun, or None. ValueError if SLURM's nodes have unequal tasks."""
    env = os.environ
    if int(env.get("SLURM_NTASKS", 1)) > 1 and int(env.get("SLURM_STEP_ID", NOT_A_TASK)) < NOT_A_TASK:
        tasks, nodes = int(env["SLURM_NTASKS"]), int(env.get("SLURM_STEP_NUM_NODES", 1))
        if tasks % nodes:
            rule = "every node needs the same number"
            raise ValueError(f"SLURM started {tasks} tasks on {nodes} nodes; {rule}")
        return Member(int(env["SLURM_PROCID"]), tasks, tasks // nodes, slurm_launch(), slurm=True)
    alone = int(env.get("WORLD_SIZE", 1)) == 1 and "TORCHELASTIC_RUN_ID" not in env
    if not alone and "RANK" in env and "LOCAL_WORLD_SIZE" in env:
        # without the store of the agents each launch has a port of its own
        without_store = env.get("TORCHELASTIC_USE_AGENT_STORE") == "False"
        counts = [] if without_store else [env.get("TORCHELASTIC_RESTART_COUNT", 0)]
        words = (env.get("TORCHELASTIC_RUN_ID", 0), *counts, env.get("MASTER_PORT", 0))
        launch = env.get(AGREED_LAUNCH) or "-".join(map(str, words))
        rank, size, per_node = (int(env[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"))
        return Member(rank, size, per_node, launch, slurm=False)
    return None


def refuse_sweep_of_ranks(arguments: list[str]) -> None:
    """Raises ValueError where srun or torchrun has started the same sweep several times."""
    if member() is not None and not {"-m", "--multirun"}.isdisjoint(arguments):
        ways = "type it without srun or torchrun, or use -m hydra/launcher=slurm"
        raise ValueError(f"-m starts its runs itself: {ways}")


def slurm_job() -> str | None:
    """Returns the id of this process's SLURM job, as `scontrol` takes it."""
    if "SLURM_ARRAY_JOB_ID" in os.environ:
        return f"{os.environ['SLURM_ARRAY_JOB_ID']}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    return os.environ.get("SLURM_JOB_ID")


def slurm_launch() -> str:
    """Returns job, step and restart count of this process."""
    names = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")
    return ".".join(os.environ.get(name, "0") for name in names)


def check_layout(trainer: object, devices: int, here: Member) -> None:
    """Raises ValueError unless the config asks for as many processes as were started."""
    per_node, num_nodes, nodes = here.ranks_per_node, here.num_nodes, nodes_of(trainer)
    if devices != per_node or not nodes.least <= num_nodes <= nodes.most:
        raise ValueError(
            f"{'SLURM' if here.slurm else 'torchrun'} started {per_node} processes on each of {num_nodes} nodes, but "
            f"the config has trainer.devices={devices} trainer.num_nodes={nodes}. Set trainer.devices={per_node} "
            f"trainer.num_nodes={num_nodes}, or start as many processes as the config asks for"
        )


def cluster_environment() -> Any:
    """Returns Lightning's environment of the ranks: SLURM's, torchrun's (also under our agent), or a single process's."""
    from lightning.fabric.plugins import environments

    here = member()
    if here is None:
        return environments.LightningEnvironment()
    if not here.slurm:
        use_own_store(here)
        return environments.TorchElasticEnvironment()
    os.environ.setdefault("SLURM_NTASKS_PER_NODE", str(here.ranks_per_node))  # absent after `srun --ntasks`
    if "MASTER_ADDR" not in os.environ:
        os.environ["MASTER_ADDR"] = first_node_address(here)
    # a port below the ephemeral ones: the same for all ranks of a launch, another for another launch
    job, step, restart = map(int, here.launch.split("."))
    port = 15000 + (job * 61 + step * 7 + restart) % 15000
    os.environ.setdefault("MASTER_PORT", str(port))
    return environments.SLURMEnvironment(auto_requeue=False)


def use_own_store(here: Member) -> None:
    """Makes the ranks' process group use a store of rank 0, as gloo cannot be set up twice on the store of the agents.

    Example:
        torchrun restarts ranks but not their agents: a second process group would fail on the agents' store.
    """
    store = agent_store()
    if store is None:
        return
    key = f"tiryns/{here.launch}/own store"
    if here.rank == 0:
        with socket.socket() as free:
            free.bind(("", 0))
            store.set(key, str(free.getsockname()[1]))
    os.environ["MASTER_PORT"] = store.get(key).decode()
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "False"


def first_node_address(here: Member) -> str:
    """Returns a name or address by which every rank reaches the first node; raises ValueError if none resolves."""
    if here.num_nodes == 1:
        return "127.0.0.1"
    nodes = os.environ["SLURM_STEP_NODELIST"]
    first = (output_of("scontrol", "show", "hostnames", nodes) or nodes).split()[0]
    if _resolves(first):
        return first
    facts = (output_of("scontrol", "show", "node", "--oneliner", first) or "").split()
    address = next((fact.removeprefix("NodeAddr=") for fact in facts if fact.startswith("NodeAddr=")), "")
    if _resolves(address):
        return address
    problem = f"the name of the first node, {first!r}, does not resolve here"
    raise ValueError(f"{problem}: export MASTER_ADDR=<its address>")


def agent_store() -> Any:
    """Returns the store of torchrun's agents if ranks may use it; else None."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    from torch.distributed import TCPStore

    return TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)


def _resolves(name: str) -> bool:
    with contextlib.suppress(OSError):
        return bool(name and socket.getaddrinfo(name, None))
    return False


def processes_per_node(trainer: Any) -> int:
    """Returns the ranks on one node that a trainer config asks for."""
    devices = trainer.get("devices", 1)
    if devices not in ("auto", -1, "-1"):
        count = len(devices) if isinstance(devices, Sequence) else devices
        if not isinstance(count, int) or isinstance(devices, str) or not 1 <= count <= MOST:
            raise ValueError(f"trainer.devices={devices}: expected 1 to {MOST:,}, or auto")
        return count
    if trainer.get("accelerator") == "cpu":
        return 1
    import torch

    return max(1, torch.cuda.device_count())
