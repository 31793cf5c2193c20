"""The parts of supervising ranks, each by itself: who is to blame, when to try again, where agents meet."""

import threading
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from socket import gethostname
from subprocess import TimeoutExpired
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from omegaconf import OmegaConf
from torch.distributed import FileStore
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent

from tiryns.runner.launch import nodes
from tiryns.runner.launch.agent import RankAgent
from tiryns.runner.launch.job import nodes_to_join
from tiryns.runner.launch.nodes import STATE, Leadership
from tiryns.runner.launch.rank import Round, leave_error, lost_peer
from tiryns.runner.launch.rendezvous import FolderBackend
from tiryns.runner.run.cluster import Member, Nodes, nodes_of
from tiryns.runner.run.command.status import LOST_PEER, PREEMPTED, REWOUND
from tiryns.runner.run.folder import Run
from tiryns.runner.run.recording import MEETING


@pytest.mark.parametrize(
    ("ends", "cause"),
    [
        ({0: LOST_PEER, 1: -9}, "rank 1 was killed by SIGKILL"),
        ({0: 1, 1: -11}, "rank 1 was killed by SIGSEGV"),
        ({1: LOST_PEER, 0: 1}, "rank 0 ended with exit status 1"),
        ({2: LOST_PEER}, "rank 2 lost a rank of another node"),
    ],
)
def test_rank_that_began_it_is_named_not_one_that_lost_it(ends: dict[int, int], cause: str) -> None:
    assert Round(ends=ends).cause().replace(f" on {gethostname()}", "") == cause
    assert not Round(ends=ends).is_stopped


def test_ranks_that_a_signal_ended_have_not_failed() -> None:
    assert Round(ends={1: PREEMPTED, 0: 1}).is_stopped
    assert Round(ends={0: -15}, is_signalled=True).is_stopped
    assert not Round(ends={0: -15}).is_stopped, "nobody here has sent that signal"


class Deciding(RankAgent):
    """The decisions of an agent without its processes."""

    def __init__(self, folder: Run, nodes: Nodes | None = None) -> None:
        self.folder, self.nodes = folder, nodes or Nodes(1, 1)
        self._worker_group = cast(Any, SimpleNamespace(spec=SimpleNamespace(max_restarts=3)))
        self.round, self.steps, self.why_no_restart = Round(ends={0: -9}), [], ""
        self._remaining_restarts = 9

    def restarts_after(self, step: int, **given: Any) -> int:
        self.folder.update_status(step=step)
        self.round = Round(**{"ends": {0: -9}, **given})
        self._decide()
        return self._remaining_restarts


def test_two_restarts_without_a_new_checkpoint_are_enough(tmp_path: Path) -> None:
    agent = Deciding(Run(tmp_path))
    assert [agent.restarts_after(step) for step in (4, 4, 8, 8)] == [9, 9, 9, 9]
    assert agent.restarts_after(8) == 0
    assert agent.why_no_restart == "; the last 2 restarts made no progress beyond step 8"


def test_failures_of_another_node_are_not_counted_here(tmp_path: Path) -> None:
    agent = Deciding(Run(tmp_path), Nodes(1, 3))
    elsewhere = [agent.restarts_after(4, ends={0: LOST_PEER, 1: LOST_PEER}) for _ in range(4)]
    assert elsewhere == [10, 11, 12, 13], "torch takes one off each time"
    assert agent.restarts_after(4, ends={0: LOST_PEER, 1: -9}) == 13


def test_ranks_of_a_run_that_went_back_cost_no_restart(tmp_path: Path) -> None:
    agent = Deciding(Run(tmp_path))
    for ends in ({0: REWOUND}, {1: REWOUND, 0: REWOUND}, {0: REWOUND, 1: LOST_PEER}):
        before = agent._remaining_restarts
        assert Round(ends=ends).rewound
        assert agent.restarts_after(4, ends=ends) == before + 1, "torch takes one off each time"
    killed = {1: REWOUND, 0: -9}
    assert not Round(ends=killed).rewound, "the first rank may not have noted it"
    assert agent.restarts_after(4, ends=killed) == 12


def test_last_words_say_why_and_how_to_go_on(tmp_path: Path) -> None:
    agent = Deciding(Run(tmp_path))
    agent.restarts_after(4, ends={1: -9, 0: LOST_PEER})
    used_up = "all restarts are used up (trainer.max_restarts=3)"
    on = f"go on from step 4 with resume={tmp_path}"
    assert agent.failure() == f"rank 1 on {gethostname()} was killed by SIGKILL; {used_up}; {on}"
    agent.restarts_after(4, ends={1: 1, 0: LOST_PEER})
    assert agent.failure().startswith(
        f"rank 1 on {gethostname()} ended with exit status 1: what it printed is above; "
    )
    leave_error(tmp_path, "the vocabulary is too small")
    assert (
        agent.failure() == f"rank 1 on {gethostname()} ended with exit status 1: the vocabulary is too small"
    )


def test_error_with_a_message_is_not_tried_again(tmp_path: Path) -> None:
    agent = Deciding(Run(tmp_path))
    leave_error(tmp_path, "the vocabulary is too small")
    leave_error(tmp_path, "a later one")
    assert agent.restarts_after(4) == 0
    assert (tmp_path / ".rank-error").read_text() == "the vocabulary is too small"


def test_node_that_leaves_costs_no_restart_and_ends_a_run_that_needs_it(tmp_path: Path) -> None:
    ends = {0: PREEMPTED}
    assert Deciding(Run(tmp_path), Nodes(1, 3)).restarts_after(4, ends=ends) == 10, "torch takes one off"
    assert Deciding(Run(tmp_path), Nodes(2, 2)).restarts_after(4, ends=ends) == 0


def test_rank_that_no_signal_ends_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(timeout: float) -> None:
        raise TimeoutExpired("a rank in input that cannot be interrupted", timeout)

    agent, rank = Deciding(Run(tmp_path)), SimpleNamespace(pid=2**22 + 1, wait=wait)
    monkeypatch.setattr(agent, "_ranks", lambda: {0: rank})
    monkeypatch.setattr(LocalElasticAgent, "_shutdown", lambda *_: None)
    agent._shutdown()


def test_agents_meet_again_where_one_ends_before_ranks_are_numbered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, tries = Deciding(Run(tmp_path)), []
    agent.lead = lambda: True

    def meet(agent: RankAgent, group: object) -> None:
        tries.append(group)
        if len(tries) < 3:
            store = FileStore(str(tmp_path / "store"))
            store.set_timeout(timedelta(seconds=0.1))
            store.get("assigned_ranks/0")

    monkeypatch.setattr(LocalElasticAgent, "_rendezvous", meet)
    agent._rendezvous(cast(Any, "group"))
    assert tries == ["group"] * 3


def test_state_of_a_meeting_changes_only_for_who_knows_it(tmp_path: Path) -> None:
    ours, theirs = FolderBackend(tmp_path), FolderBackend(tmp_path)
    assert ours.get_state() is None
    assert ours.set_state(b"one") == (b"one", b"one", True)
    assert theirs.set_state(b"two") == (b"one", b"one", False), "it did not know of the first"
    assert theirs.set_state(b"two", b"one") == (b"two", b"two", True)
    assert ours.set_state(b"three", b"one") == (b"two", b"two", False)
    assert ours.get_state() == (b"two", b"two")


def test_of_many_changes_of_one_state_one_succeeds(tmp_path: Path) -> None:
    FolderBackend(tmp_path).set_state(b"start")
    outcomes: list[bool] = []

    def change(number: int) -> None:
        done = FolderBackend(tmp_path).set_state(b"by %d" % number, b"start")
        assert done is not None
        outcomes.append(done[2])

    threads = [threading.Thread(target=change, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [False] * 7 + [True]


@pytest.mark.parametrize(
    ("asked", "nodes"), [(1, (1, 1)), (3, (3, 3)), ("2", (2, 2)), ("1:4", (1, 4)), ("auto", (1, 1024))]
)
def test_number_of_nodes_is_a_number_a_range_or_auto(asked: object, nodes: tuple[int, int]) -> None:
    assert nodes_of({"num_nodes": asked}) == nodes


@pytest.mark.parametrize("asked", [0, -1, "4:1", "many", "1:", ":2", "1:2:3", 1.5, ""])
def test_other_numbers_of_nodes_are_refused(asked: object) -> None:
    with pytest.raises(
        ValueError,
        match=r"trainer\.num_nodes=.*: expected a number up to 65,536, a range such as 1:4, or auto",
    ):
        nodes_of({"num_nodes": asked})


def test_task_of_slurm_that_is_alone_on_its_node_is_an_agent() -> None:
    config = OmegaConf.create({"trainer": {"num_nodes": 2, "devices": 4}})
    agent, rank = (Member(0, size, per_node, "7.0.0", slurm=True) for size, per_node in ((2, 1), (8, 4)))
    assert nodes_to_join(config, agent) == (2, 2)
    assert nodes_to_join(config, rank) == (1, 1)
    assert nodes_to_join(config, None) == (2, 2)
    config.trainer.num_nodes = 3
    with pytest.raises(ValueError, match=r"SLURM started 2 nodes, but the config has trainer\.num_nodes=3"):
        nodes_to_join(config, agent)


def test_one_node_leads_and_another_takes_over(tmp_path: Path) -> None:
    config = OmegaConf.create({"resume": None, "seed": 1})
    first = Leadership(config, Run(tmp_path / "run"), [])
    first.meet("")
    second = Leadership(config, Run(tmp_path / "run"), [])
    second.meet("")
    assert (first.leads, second.leads) == (True, False)
    first.close()
    second._last_try = float("-inf")
    assert second.take()
    assert Run(tmp_path / "run").status["state"] == "running"
    second.close()


@pytest.mark.parametrize("others_live", [True, False])
def test_node_that_takes_the_lead_leaves_a_meeting_of_others_alone(
    others_live: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node that led has died, and a new one comes before another has taken over."""
    run, config = Run(tmp_path / "run"), OmegaConf.create({"resume": None, "seed": 1})
    (meeting := run.path / MEETING).mkdir(parents=True)
    store, saving, ended = meeting / "store", run.path / ".status.json.4194305.tmp", threading.Event()
    for file in (store, saving, meeting / STATE):
        file.write_text("0")

    def live() -> None:
        for beat in count():
            if ended.wait(0.05):
                return
            (meeting / STATE).write_text(str(beat))

    monkeypatch.setattr(nodes, "is_attended", partial(nodes.is_attended, seconds=1))
    other = threading.Thread(target=live)
    if others_live:
        other.start()
    with Leadership(config, run, []) as newcomer:
        newcomer.meet("7")
        ended.set()
        assert newcomer.leads
        assert (store.exists(), saving.exists()) == (others_live, others_live)
        assert (meeting / "ready").read_text() == "7"


def test_lost_peer_is_told_from_other_errors() -> None:
    gloo = RuntimeError("[pair.cc:538] Connection closed by peer [127.0.0.1]:55128")
    assert lost_peer(gloo) == "Connection closed by peer"
    store = torch.distributed.DistNetworkError("The client socket has timed out after 7500ms")
    assert lost_peer(store) == "has timed out"
    assert lost_peer(RuntimeError("shape mismatch")) is None
    assert lost_peer(OSError("Connection closed by peer")) is None
