"""The run folder: where it is, what state its run is in, and which one a resumed run belongs to."""

import contextlib
import fcntl
import json
import os
import re
import secrets
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from omegaconf import DictConfig, OmegaConf

from iolaus.conf.config import Config
from iolaus.conf.registry import OPTIONS, execution_names
from iolaus.conf.values import rules_of
from iolaus.runner.run.environment import environment
from iolaus.runner.run.errors import explain
from iolaus.runner.run.files import read_json, write_atomically
from iolaus.runner.run.redaction import HIDDEN, is_secret, num_lookups, redacted, watch_environment

_NAMES_A_PLACE = re.compile(r"""['"]?\$\{[^{}]*\}['"]?""")

CONFIG_FLAGS = ("--config-dir", "-cd", "--config-path", "-cp", "--config-name", "-cn")
"""Hydra's flags that say where configs lie."""


def config_hash(config: DictConfig) -> str:
    """Sixteen hex digits that two configs share exactly when they describe the same run.

    Left out is how the run is executed, and in which module a class lies.
    """
    values = OmegaConf.to_container(config, resolve=False)
    assert isinstance(values, dict)
    content: dict[str, Any] = {}
    for name, value in values.items():
        if rules_of(Config).get(str(name), {}).get("execution"):
            continue
        if isinstance(value, dict) and name in OPTIONS:
            left_out = execution_names(str(name), value)
            value = {field: kept for field, kept in value.items() if field not in left_out}
        content[str(name)] = _without_modules(value)
    return sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _without_modules(value: Any) -> Any:
    """The config with each target cut to its last name."""
    if isinstance(value, list):
        return [_without_modules(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: str(inner).rpartition(".")[2] if name == "_target_" else _without_modules(inner)
        for name, inner in value.items()
    }


def new_name() -> Path:
    """`<date>/<time>-<id>`, unlike any other."""
    return Path(datetime.now().strftime("%Y-%m-%d/%H-%M-%S") + "-" + secrets.token_hex(2))


_LOCKS: set[IO[str]] = set()
"""Open lock files of this process; a forked child lets go of them, or a loader worker would hold a dead run's folder."""

os.register_at_fork(after_in_child=lambda: [file.close() for file in _LOCKS])


class RunFolder:
    """One run's folder: `status.json`, the config it was started with, and a lock while it trains."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        """The last two parts of the path, such as `2026-11-03/12-30-11-ab12`."""
        return "/".join(self.path.resolve().parts[-2:])

    @property
    def checkpoints(self) -> Path:
        """Where the checkpoints lie."""
        return self.path / "checkpoints"

    def status(self) -> dict[str, Any]:
        """What `status.json` says; empty where there is none or it cannot be read."""
        return read_json(self.path / "status.json", {})

    def state(self) -> str:
        """`running`, `done`, `failed`, ...; `killed` where the status says running and nobody is."""
        state = str(self.status().get("state") or "unknown")
        return "killed" if state == "running" and not self.is_locked() else state

    def update_status(self, **values: Any) -> None:
        """Changes fields of `status.json`, atomically."""
        write_atomically(self.path / "status.json", json.dumps({**self.status(), **values}, indent=1))

    def overrides(self) -> list[str]:
        """The command-line overrides the run was started with."""
        return list(json.loads((self.path / "overrides.json").read_text()))

    def announce(self, identity: str, overrides: list[str]) -> None:
        """Writes what a job of a sweep will be, before it begins: `identity` is the hash of its config."""
        self.path.mkdir(parents=True, exist_ok=True)
        kept = public_overrides(overrides)
        write_atomically(self.path / "overrides.json", json.dumps(kept))
        write_atomically(self.path / "command.txt", f"iolaus {shlex.join([*flags(), *kept])}".strip() + "\n")
        self.update_status(state="waiting", config_hash=identity)

    def begin(self, config: DictConfig, overrides: list[str]) -> None:
        """Writes what the run is before it starts: config without secrets, command, overrides, status."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path / "config.yaml", OmegaConf.to_yaml(without_secrets(config)))
        if not (self.path / "overrides.json").exists():
            write_atomically(self.path / "overrides.json", json.dumps(public_overrides(overrides)))
            write_atomically(self.path / "command.txt", command_line() + "\n")
        write_atomically(self.path / "environment.json", json.dumps(environment(), indent=1))
        status, now = self.status(), datetime.now().isoformat()
        self.update_status(
            state="running",
            started=status.get("started") or now[:19],
            session={"began": now, "before": status.get("seconds") or 0.0},
            ended=None,
            error=None,
            config_hash=config_hash(config),
            pid=os.getpid(),
        )

    def add_to_config(self, values: dict[str, Any]) -> None:
        """Adds to `config.yaml` what is known only once the run's parts are made."""
        file = self.path / "config.yaml"
        write_atomically(file, OmegaConf.to_yaml(OmegaConf.merge(OmegaConf.load(file), values)))

    @contextlib.contextmanager
    def recorded(self, config: DictConfig, overrides: list[str]) -> Iterator[None]:
        """Begins the run, and records its failure if the block raises."""
        self.begin(config, overrides)
        try:
            yield
        except BaseException as error:
            stopped = isinstance(error, KeyboardInterrupt | SystemExit)
            state = getattr(error, "state", "interrupted") if stopped else "failed"
            self.end(state, error=str(error) if stopped else explain(error) or repr(error))
            raise

    def end(self, state: str, **values: Any) -> None:
        """Records that the run ended, in which state, and after how many seconds."""
        self.advance(state=state, ended=datetime.now().isoformat(timespec="seconds"), **values)

    def advance(self, **values: Any) -> None:
        """Changes fields of `status.json`, and counts the seconds up to now, without those between two sessions.

        A session that is killed has counted up to its last checkpoint, from which the next one goes on.
        """
        session = self.status().get("session") or {}
        now = datetime.now()
        began = datetime.fromisoformat(session.get("began") or now.isoformat())
        seconds = session.get("before", 0.0) + (now - began).total_seconds()
        self.update_status(seconds=round(seconds, 3), **values)

    def check_resumable(self, now: bool = True) -> None:
        """Raises ValueError unless this is the folder of a run that can be continued, and nobody trains there `now`."""
        if not self.path.is_dir():
            raise ValueError(f"resume: there is no folder {str(self.path)!r}")
        if not self.status() or not (self.path / "overrides.json").exists():
            raise ValueError(f"resume: {str(self.path)!r} is not a run folder (it has no status.json)")
        if now and self.is_locked():
            raise ValueError(f"resume: a process is training in {str(self.path)!r} at this moment")

    def is_same(self, path: Path) -> bool:
        """Whether `path` is this folder or something in it."""
        return path.resolve().is_relative_to(self.path.resolve())

    def is_locked(self) -> bool:
        """Whether a living process holds the folder's lock."""
        try:
            with open(self.path / ".lock") as file:
                return not _takes_lock(file)
        except FileNotFoundError:
            return False

    @contextlib.contextmanager
    def lock(self, patience: float = 0.0) -> Iterator[None]:
        """Locks the folder for this process; the lock ends with the process.

        Raises:
            ValueError: another process still holds it after `patience` seconds.
        """
        deadline = time.monotonic() + patience
        with open(self.path / ".lock", "w") as file:
            while not _takes_lock(file):
                if time.monotonic() >= deadline:
                    raise ValueError(f"a process is training in {str(self.path)!r} at this moment")
                time.sleep(0.2)
            _LOCKS.add(file)
            try:
                yield
            finally:
                _LOCKS.discard(file)


def _takes_lock(file: IO[str]) -> bool:
    """Locks an open lock file for this process, where no other holds it; whether it does."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def editable(config: DictConfig) -> DictConfig:
    """A copy of a job's config that can be changed, without Hydra's own part."""
    copy = config.copy()
    OmegaConf.set_readonly(copy, False)
    OmegaConf.set_struct(copy, False)
    copy.pop("hydra", None)
    return copy


def without_secrets(config: DictConfig) -> DictConfig:
    """A resolved copy in which environment lookups stay lookups and secret settings read `***`."""
    copy = editable(config)
    watch_environment()
    _resolve(copy)
    return copy


def command_line() -> str:
    """The command as typed, fit to be pasted into a shell, without the values of secret settings."""
    words = [f"{word.partition('=')[0]}={HIDDEN}" if _holds_secret(word) else word for word in sys.argv[1:]]
    return f"iolaus {shlex.join(words)}".strip()


def flags(words: Sequence[str] | None = None) -> list[str]:
    """The words of a command, this one unless it is given, that say where configs lie, such as `--config-dir FOLDER`."""
    words = sys.argv[1:] if words is None else words
    long = [word for word in words if word.startswith(CONFIG_FLAGS) and "=" in word]
    pairs = [words[i : i + 2] for i, word in enumerate(words) if word in CONFIG_FLAGS]
    return [*long, *(word for pair in pairs for word in pair)]


def public_overrides(overrides: list[str]) -> list[str]:
    """The overrides that say what a run is: without `resume`, those of Hydra itself, and secrets."""
    kept = (word for word in overrides if not word.startswith(("resume=", "hydra.")))
    return [redacted(word) for word in kept if not _holds_secret(word)]


def typed_overrides(hydra: Any) -> list[str]:
    """The overrides of a job as they were typed: `${...}` stays, to be resolved anew where they are used again."""
    words: Any = OmegaConf.to_container(hydra.overrides.task, resolve=False)
    return [str(word) for word in words]


def _holds_secret(word: str) -> bool:
    """Whether an override gives a secret setting its value; one that names where the value is does not."""
    name, is_given, value = word.partition("=")
    return bool(is_given) and is_secret(name) and not _NAMES_A_PLACE.fullmatch(value)


def _resolve(node: Any) -> None:
    names = list(node) if isinstance(node, DictConfig) else range(len(node))
    for name in names:
        if OmegaConf.is_missing(node, name):
            continue
        lookups, value = num_lookups(), node[name]
        if num_lookups() > lookups:  # the variable is named, not what is in it
            continue
        if OmegaConf.is_config(value):
            _resolve(value)
        elif isinstance(name, str) and is_secret(name) and isinstance(value, str):
            node[name] = "***"
        elif OmegaConf.is_interpolation(node, name):
            node[name] = value
