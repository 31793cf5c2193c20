"""What 1 to 512 ranks cost in order, cut, tokens, checkpoints and meetings: all of them simulated in one process.

The global batch grows with the ranks, by some 8,000 tokens for each. Every rank draws and cuts the whole of it and reads
its own part, so the time of one is that of one loader process. All ranks' parts of a batch are made once: together they
must be the batch. A checkpoint is that of BERT-base with Adam, in shards of a process group that does not communicate.
"""

import pickle
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import distributed
from torch.distributed.checkpoint import FileSystemWriter
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex
from torch.distributed.checkpoint.planner import SavePlan
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from transformers import BertConfig, BertForMaskedLM

from tests.benchmarks.data.bench_permute import interleaved, table
from tests.benchmarks.data.bench_scale import LONGEST, batches_of, make_store
from tiryns.runner.checkpoints.files import Buffers
from tiryns.runner.checkpoints.sharded import separate
from tiryns.runner.data.store.reader import TokenStore
from tiryns.runner.launch.nodes import SECONDS_BETWEEN_HEARTBEATS
from tiryns.runner.launch.rendezvous import FolderBackend, rendezvous
from tiryns.runner.order.partition import partition
from tiryns.runner.run.cluster import Nodes
from tiryns.runner.run.recording import MEETING
from tiryns.runner.samplers import LengthGrouped, Shuffled

RANKS, RANKS_PER_NODE = (1, 2, 8, 64, 512), 8
DOCUMENTS, PER_RANK, MICRO_BATCH = 10_000_000, 32, 16_384
STEPS, ROUNDS = 20, 3
STEPS_PER_CHECKPOINT = 500
"""The default of `checkpoint.every_steps`."""


def drawn_offsets() -> Iterable[np.ndarray]:
    """The offsets of documents of 1 to 1,024 tokens, 230 on average."""
    lengths = np.random.default_rng(0).lognormal(5, 1, DOCUMENTS).clip(1, LONGEST).astype(np.int64)
    yield np.concatenate([[0], np.cumsum(lengths)])


class Numbers:
    """Another number at each call, so that nothing is asked twice."""

    def __init__(self, made: Any) -> None:
        self.made, self.next = made, 0

    def __call__(self) -> None:
        self.next += 1
        self.made(self.next)


def loading(store: TokenStore, ranks: int) -> tuple[str, ...]:
    """Milliseconds of each part of a step, and of the whole, for one rank of so many."""
    size = ranks * PER_RANK
    sampler, grouped = Shuffled(store, None, 10**6, size, 1), LengthGrouped(store, None, 10**6, size, 1, 50)
    of_rank = partial(
        batches_of, store, sampler, num_ranks=ranks, micro_batch_tokens=MICRO_BATCH, packed=True
    )
    samples = sampler.global_batch(0)[:, 1]
    lengths = store.lengths(samples)
    shares = [of_rank(rank=rank)[0] for rank in range(ranks)]
    together = np.concatenate([share["sample_ids"].numpy()[:, 1] for share in shares])
    assert (np.sort(together) == np.sort(samples)).all()
    tokens = [share["tokens"] for share in shares]
    own = shares[0]["sample_ids"].numpy()[:, 1]
    parts: dict[str, Callable[[], object]] = {
        "order": Numbers(sampler.global_batch),
        "grouped": Numbers(grouped.global_batch),
        "lengths": lambda: store.lengths(samples),
        "cut": lambda: partition(lengths, ranks, MICRO_BATCH, None, True),
        "padded": lambda: partition(lengths, ranks, MICRO_BATCH, None, False),
        "tokens": lambda: store.gather(own),
        "whole": Numbers(of_rank(rank=0).__getitem__),
    }
    seconds = interleaved(parts, STEPS)
    speed = sum(tokens) / ranks / seconds["whole"]
    shown = (f"{value * 1e3:.2f}" for value in seconds.values())
    return f"{ranks}", f"{size:,}", *shown, f"{max(tokens) * ranks / sum(tokens):.3f}", f"{speed:,.0f}"


def state_of(rank: int, ranks: int) -> dict[str, DTensor]:
    """Weights and both moments of BERT-base as one rank of so many has them, cut on the first dimension."""
    distributed.init_process_group("fake", rank=rank, world_size=ranks)
    mesh, state = init_device_mesh("cpu", (ranks,)), {}
    with torch.device("meta"):
        weights = dict(BertForMaskedLM(BertConfig()).named_parameters())
    for kind, (name, whole) in product(("weights", "first", "second"), weights.items()):
        rows = -(-len(whole) // ranks)
        own = torch.empty(max(0, min(rows, len(whole) - rank * rows)), *whole.shape[1:])
        cut: dict[str, Any] = {"shape": whole.shape, "stride": whole.stride()}
        state[f"{kind}.{name}"] = DTensor.from_local(own, mesh, [Shard(0)], run_check=False, **cut)
    return state


def plan_of(rank: int, ranks: int, first: SavePlan) -> SavePlan:
    """What another rank writes: the tensors of the first one, with its own rows."""
    items = []
    for item in first.items:
        data: Any = item.tensor_data
        count, *others = data.size
        rows = -(-count // ranks)
        start = min(rank * rows, count)
        offsets, sizes = (
            torch.Size([start, *(0 for _ in others)]),
            torch.Size([min(rows, count - start), *others]),
        )
        data = replace(data, chunk=ChunkStorageMetadata(offsets, sizes))
        items.append(replace(item, index=MetadataIndex(item.index.fqn, offsets), tensor_data=data))
    return replace(first, items=items)


def shards(ranks: int) -> tuple[str, ...]:
    """What a checkpoint in shards costs the first of so many ranks, without what the ranks send each other."""
    state, planner = state_of(0, ranks), DefaultSavePlanner()
    planner.set_up_planner(state, is_coordinator=True)
    first = planner.create_local_plan()
    plans = [first, *(plan_of(rank, ranks, first) for rank in range(1, ranks))]
    for tensor in state.values():
        tensor.to_local().fill_(1.0)
    copying = interleaved({"": lambda: separate(state, {})}, ROUNDS)[""]
    began = time.process_time()
    plan, metadata = planner.create_global_plan(plans)
    size = len(pickle.dumps(metadata))
    planning = time.process_time() - began
    with tempfile.TemporaryDirectory() as folder:
        writer = FileSystemWriter(folder, single_file_per_rank=True, sync_files=True)
        writer.set_up_storage_writer(True)
        own = writer.prepare_global_plan([writer.prepare_local_plan(plan[0])])[0]
        began = time.process_time()
        writer.write_data(own, planner).wait()
        writing = time.process_time() - began
    distributed.destroy_process_group()
    megabytes = sum(tensor.to_local().nbytes for tensor in state.values()) / 1e6
    each = (seconds / STEPS_PER_CHECKPOINT * 1e3 for seconds in (copying, writing + planning))
    figures = f"{copying:.3f}", f"{writing:.2f}", f"{planning:.2f}", f"{size / 1e6:.1f}"
    return f"{ranks}", f"{megabytes:,.1f}", *figures, *(f"{one:.2f}" for one in each)


def whole_checkpoint() -> None:
    """Prints how long the copy of a whole checkpoint stops the rank that writes it, however many others there are."""
    state = {name: tensor.to_local().fill_(1.0) for name, tensor in state_of(0, 1).items()}
    distributed.destroy_process_group()
    buffers = Buffers()
    buffers.copy(state)  # the first one allocates; a run has by then
    seconds = interleaved({"": lambda: buffers.copy(state)}, ROUNDS)[""]
    each = seconds / STEPS_PER_CHECKPOINT * 1e3
    print(
        f"\nA whole checkpoint (ddp): the first of any number of ranks copies for {seconds:.2f} s, {each:.2f} ms a step\n"
    )


def meeting(nodes: int) -> tuple[str, ...]:
    """What it takes the agents of so many nodes to meet in a run folder, and what their heartbeats cost."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(nodes) as agents:
        (Path(folder) / MEETING).mkdir()
        handlers = [rendezvous(Path(folder), Nodes(nodes, nodes + 1)) for _ in range(nodes)]
        began, began_cpu = time.perf_counter(), time.process_time()
        list(agents.map(lambda handler: handler.next_rendezvous(), handlers))
        took, cpu = time.perf_counter() - began, time.process_time() - began_cpu
        for handler in handlers:
            handler.shutdown()
        backend = FolderBackend(Path(folder) / MEETING)

        def beat() -> None:
            state, token = backend.get_state() or (b"", b"")
            backend.set_state(state, token)

        each = interleaved({"": beat}, STEPS)[""]
    busy = each * nodes / SECONDS_BETWEEN_HEARTBEATS
    return f"{nodes}", f"{took:.1f}", f"{cpu:.1f}", f"{each * 1e3:.2f}", f"{busy:.1%}"


def main() -> None:
    """Prints a table each of loading, checkpoints in shards, and meetings."""
    print(f"A step of {PER_RANK} documents a rank out of {DOCUMENTS:,}, CPU ms of one process for one rank\n")
    parts = ["order", "order by length", "lengths", "cut, packed", "cut, padded", "own tokens"]
    with tempfile.TemporaryDirectory() as folder:
        make_store(Path(folder) / "store", drawn_offsets())
        store = TokenStore(Path(folder) / "store")
        heads = ["ranks", "documents", *parts, "a packed step", "largest share / mean", "tokens/s"]
        table(heads, (loading(store, ranks) for ranks in RANKS))
    whole_checkpoint()
    print(f"A checkpoint in shards (fsdp), CPU s of the first rank; every {STEPS_PER_CHECKPOINT} steps\n")
    heads = ["ranks", "own shards, MB", "copy", "writing", "plan", "metadata, MB"]
    heads += ["training waits, ms a step", "in the background, ms a step"]
    table(heads, (shards(ranks) for ranks in RANKS))
    print(f"\nAgents of nodes of {RANKS_PER_NODE} ranks that meet in the run folder, all in one process\n")
    nodes = [ranks // RANKS_PER_NODE for ranks in RANKS if ranks > RANKS_PER_NODE]
    heads = ["nodes", "all have met after, s", "CPU s of all", "a heartbeat, CPU ms", "the file is busy"]
    table(heads, map(meeting, nodes))
