"""Shared by all tests: no network, a cache of its own, few threads, and the program as a user calls it."""

import gc
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import nullcontext
from functools import lru_cache, partial
from pathlib import Path
from subprocess import CompletedProcess, Popen
from typing import Any

import pytest
from _pytest.logging import catching_logs
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers

from tests.support.precision import BF16, PRECISION, as_in_training, in_fp64
from tests.support.processes import ROOT, WarmPopen, be_test_process, nursery, process, warm_process
from tests.support.processes.kept_options import kept_options
from tiryns.runner.patches.exits import run_exit_functions

be_test_process()
pytest_plugins = ["tests.support.needs.skips"]

# The same examples every time, in any time: a red run is a change's fault. HYPOTHESIS_PROFILE=default looks for new ones.
repeatable = settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", repeatable)
settings.register_profile("quick", repeatable, max_examples=25)
# a counterexample of a mutant need not be the smallest
settings.register_profile("mutants", repeatable, phases=[Phase.explicit, Phase.generate])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
constants: Any = providers
# Examples would be made of the constants of all modules that are imported, and change with any line of them.
constants._get_local_constants = lambda: constants._local_constants

os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "WANDB_MODE": "offline",
    "WANDB_ERROR_REPORTING": "false",  # or it waits for a service that takes tracebacks
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "OMP_NUM_THREADS": "1",
    "RAY_worker_niceness": "0",  # not 15, or jobs stand still beside other work
}
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each process that is started compiles this project anew
sys.dont_write_bytecode = False  # the tests themselves too
os.environ |= {"OMP_WAIT_POLICY": "passive", "HF_HUB_DISABLE_TELEMETRY": "1", "COLUMNS": "120"}

# Most of what is alive are libraries and test items, which stay: they are not looked through for garbage again and again.
gc.disable()

# What a shell starts in the background ignores Ctrl-C and Ctrl-\, and so would the programs that are tested.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def few_of(names: Iterable[str], few: Collection[str]) -> list[Any]:
    """Values for `parametrize`: a `few` of the names for the usual tests, and the others for the long ones."""
    return [name if name in few else pytest.param(name, marks=pytest.mark.slow) for name in names]


def keep_few_rows(items: Iterable[pytest.Item]) -> None:
    """Marks as slow what a table marked `rows(n)` has beyond `n` rows, which are spread evenly over it."""
    tables: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("rows") and not item.get_closest_marker("slow"):
            tables.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for table in tables.values():
        mark = table[0].get_closest_marker("rows")
        assert mark is not None
        few = min(mark.args[0], len(table))
        kept = {index * (len(table) - 1) // max(few - 1, 1) for index in range(few)}
        for index, item in enumerate(table):
            if index not in kept:
                item.add_marker(pytest.mark.slow)


WHOLE_RUNS = ("runs", "cli", "sweeps", "launch", "loop", "logging", "checkpoints", "inference", "config")
"""Folders of tests that start the program."""
APART = ("tests/cli/test_reproduced_recipes.py", "tests/recipes/test_published.py")
"""Long files whose tests share nothing: they come first, and each worker takes one test at a time."""


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Lets a worker have whole files with `--dist loadfile`, as those that are `APART` would keep one for an hour."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return nodeid if path in APART else path

    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole runs first: what is short fills the end, where processes would wait for each other."""
    keep_few_rows(items)
    items.sort(key=lambda item: (not item.nodeid.startswith(APART), item.path.parent.name not in WHOLE_RUNS))


@lru_cache(1)
def loggers(count: int) -> list[logging.Logger]:
    """The root logger and those that keep records to themselves, looked up again when a logger is added."""
    known = logging.root.manager.loggerDict.values()
    return [logging.root, *(one for one in known if isinstance(one, logging.Logger) and not one.propagate)]


def attach_handler(self: Any) -> Any:
    """What pytest does six times a test, but without a look at each of thousands of loggers."""
    root = logging.root
    for logger in loggers(len(root.manager.loggerDict)):
        logger.addHandler(self.handler)
        self.attached_loggers.append(logger)
    if self.level is not None:
        self.handler.setLevel(self.level)
        self.orig_level = root.level
        root.setLevel(min(self.orig_level, self.level))
    return self.handler


def pytest_collection_finish() -> None:
    """From now on garbage is collected, of what the tests make."""
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()
    # Else pytest adds its handlers to each of them, in each phase of each test: 60 of torch's keep to themselves.
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("torch.")]:
        logging.getLogger(name).propagate = True
    catching_logs.__enter__ = attach_handler  # type: ignore[method-assign]


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends a worker of pytest-xdist without Python's teardown, in which triton 3.9 prints what its own objects leaked."""
    gc.unfreeze()
    if hasattr(config, "workerinput"):
        run_exit_functions()
        os._exit(0)  # the status is that of pytest, which has been told all results


Command = Callable[..., CompletedProcess[str]]


def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Forks the test processes; their libraries have a cache together, as they ask for its place when imported."""
    home = tempfile.TemporaryDirectory()
    config.add_cleanup(home.cleanup)
    os.environ["HF_HOME"] = home.name
    nursery(Popen)


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    os.environ["TIRYNS_CACHE"] = str(folder)
    if not hasattr(pytestconfig, "workerinput"):
        os.environ["HF_HOME"] = str(folder / "hf")
    os.environ["TRACKIO_DIR"] = str(folder / "trackio")
    return folder


@pytest.fixture(scope="module", autouse=True)
def options_are_kept(request: pytest.FixtureRequest) -> Iterator[None]:
    """Options of configs are put together once for all tests, but for those of how Hydra does it."""
    with nullcontext() if request.path.parent.name == "patches" else kept_options():
        yield


@pytest.fixture(scope="session", autouse=True)
def libraries_stay_frozen() -> Iterator[None]:
    """What loaders of energon would thaw is not looked through for garbage."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "unfreeze", lambda: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def warm_ranks() -> None:
    """Ranks that a run in this process starts are forked from a process which has imported the libraries."""
    from torch.distributed.elastic.multiprocessing.subprocess_handler import subprocess_handler

    library: Any = subprocess_handler
    library.Popen = WarmPopen


@pytest.fixture
def precision_of_training() -> Iterator[None]:
    """For tests of models: what Lightning puts around a training step, forward, backward and update."""
    with as_in_training():
        yield


@pytest.fixture(params=[False] if BF16 else [False, True], ids=["", "fp64"][: 1 if BF16 else 2])
def also_in_fp64(request: pytest.FixtureRequest) -> Iterator[None]:
    """For tests that two things are equal: once as they are, and once in fp64 to 1e-12."""
    if not request.param:
        yield
        return
    with in_fp64():
        yield


def run_program(*arguments: str, cwd: Path, check: bool = True, **environment: str) -> CompletedProcess[str]:
    """Runs the program as a user calls it, in the folder `cwd`; in a new interpreter with variables that Python reads."""
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    env = {**os.environ, "PYTHONPATH": paths, **environment}
    if any(name.startswith("PYTHON") for name in environment):
        done = process("-m", "runner.train", *arguments, cwd=cwd, **env)
    else:
        done = warm_process("-m", "runner.train", *arguments, cwd=cwd, **env)
    assert not check or done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture
def tiryns(tmp_path: Path) -> Command:
    """Runs the program in an empty folder: `tiryns("trainer.max_steps=3", "data=files")`."""
    return partial(run_program, cwd=tmp_path)


WORDS = [
    "the", "a", "river", "runs", "under", "old", "bridge", "while", "seven",
    "herons", "watch", "and", "nobody", "speaks", "of", "winter", "again",
]  # fmt: skip
"""What test texts are made of."""

TINY = [
    "data=files", "data.vocab_size=300", "data.max_length=48", "data.num_workers=0", "data.micro_batch_tokens=400",
    "sampler.global_batch_size=12", "model=bert_tiny", "model.hidden_size=32", "model.intermediate_size=64",
    "trainer=cpu", f"trainer.precision={PRECISION}", "trainer.max_steps=12", "trainer.validate_every=6",
    "trainer.log_every=1", "optimizer.lr=0.003",
]  # fmt: skip
"""A run of seconds on a text of the tests' own."""


@pytest.fixture(scope="session")
def text_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text of 240 paragraphs of uneven length, one word each among them."""
    return write_text(tmp_path_factory.mktemp("text") / "herons.txt")


def write_text(path: Path) -> Path:
    """Writes the text of `text_file`."""
    import random

    draw = random.Random(0)
    paragraphs = [" ".join(draw.choices(WORDS, k=draw.randint(1, 60))) + "." for _ in range(240)]
    path.write_text("\n\n".join(paragraphs))
    return path


def train_here(folder: Path, text_file: Path, *overrides: str) -> Any:
    """Trains in this process, on the tests' own text, and returns the run folder."""
    return train_as(folder, [*TINY, f"data.source={text_file}", *overrides])


def train_as(folder: Path, arguments: list[str]) -> Any:
    """Trains in this process with these words, and returns the run folder."""
    from tests.support.composed import composed
    from tiryns.runner.run.folder import Run
    from tiryns.runner.train import train

    run, config = Run(folder), composed(arguments)
    run.begin(config, arguments)
    train(config, run)
    return run


@pytest.fixture
def run_here(tmp_path: Path, text_file: Path) -> Callable[..., Any]:
    """Trains in this process: `run_here("optimizer=lion", folder="name")` gives the run folder."""

    def call(*overrides: str, folder: str = "run") -> Any:
        return train_here(tmp_path / folder, text_file, *overrides)

    return call


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The `Graphs` of what is compiled beside the encoder, which itself is not."""
    import torch

    from tests.optim.graphs import Graphs
    from tiryns.runner.optim import compiled

    torch._dynamo.reset()
    found = Graphs()
    monkeypatch.setattr(compiled, "BACKEND", found.backend)
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self, **_: None)
    return found
