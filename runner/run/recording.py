"""Records a run in its folder: its status, config and command, and the lock of the process that trains it."""

import contextlib
import fcntl
import json
import os
import re
import secrets
import shlex
import shutil
from collections.abc import Iterator
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from tiryns.conf.config import OF_PROBES, Config, as_before
from tiryns.conf.registry import ENDS_RUN, OPTIONS, execution_names, option_of
from tiryns.conf.values import rules_of
from tiryns.runner.run.command.failure import coded
from tiryns.runner.run.command.words import command_line, flags, public_overrides, seal_record, sealed_words
from tiryns.runner.run.environment import environment
from tiryns.runner.run.errors import explain
from tiryns.runner.run.files import (
    hold_lock,
    meant_run,
    read_json,
    read_status,
    read_text,
    resume_word,
    takes_lock,
    write_atomically,
)
from tiryns.runner.run.redaction import without_secrets

STOPS_EARLY = "-early"
"""End of the hash of a config with early stopping. Earlier versions left the callback out of the hash at its defaults."""

HASH_LINE = "# config_hash: "
"""Start of the first line of `config.yaml`, which repeats the config's hash in case `status.json` is damaged."""

MARKS = ("status.json", "overrides.json", "command.txt", "config.yaml", "checkpoints")
"""Any of these marks the folder of a run that can be resumed."""

MEETING = ".rendezvous"
"""The folder in the run folder for the rendezvous of the agents of several nodes."""

LEFTOVERS = (".*.tmp", ".*.gone", ".heartbeat-*", ".rank-error")
"""Files and folders in a run folder and among its checkpoints: being written, being deleted, or left by ranks."""


def config_hash(config: DictConfig) -> str:
    """Returns sixteen hex digits, equal for configs of one run, and `STOPS_EARLY` for a run that may stop early.

    Execution settings and targets' modules do not count.
    """
    values: Any = OmegaConf.to_container(config, resolve=False)
    content, ending = dict[str, Any](), ""
    of_probes = OF_PROBES if values.get("mode") == "probe" else ()
    for name, value in values.items():
        if name == "callback":
            options = {n: option_of(name, v) for n, v in value.items()} if isinstance(value, dict) else {}
            settings = {n: as_before(name, value[n]) for n, option in options.items() if option in ENDS_RUN}
            value = {n: node for n, node in settings.items() if node.keys() != {"_target_"}}
            ending = STOPS_EARLY if "early_stopping" in options.values() else ""
        elif value == [] or (name not in of_probes and rules_of(Config).get(str(name), {}).get("execution")):
            continue
        elif isinstance(value, dict) and name in OPTIONS:
            names = execution_names(str(name), value)
            value = {n: v for n, v in as_before(str(name), value).items() if n not in names}
        if value != {}:  # as a group whose settings are all execution
            content[str(name)] = _without_modules(value)
    return sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:16] + ending


def _without_modules(value: object) -> Any:
    """Returns the config with each target cut to its last name."""
    if isinstance(value, list):
        return [_without_modules(item) for item in value]
    if not isinstance(value, dict):
        return value
    last = str(value.get("_target_")).rpartition(".")[2]
    return {name: last if name == "_target_" else _without_modules(v) for name, v in value.items()}


def new_name() -> Path:
    """Returns a new name for a run, `<date>/<time>-<id>`."""
    return Path(datetime.now().strftime("%Y-%m-%d/%H-%M-%S") + "-" + secrets.token_hex(2))


def timestamp() -> str:
    """Returns the time with its offset from UTC, as a folder may be read in another time zone, or in winter time."""
    return datetime.now().astimezone().isoformat(timespec="milliseconds")


def seconds_since(began: str) -> float:
    """Returns the seconds since a time; without an offset it is in this machine's time zone."""
    return round(datetime.now().timestamp() - datetime.fromisoformat(began).timestamp(), 3)


class Recording:
    """The part of a `Run` that its training processes write and agree on.

    A given `state`, which the run is about to have, replaces the recorded state.
    """

    def __init__(self, path: str | Path, state: str | None = None) -> None:
        self.path = Path(path)
        """The folder."""
        self._next_state = state
        self._read: tuple[Any, dict[str, Any]] = None, {}

    @property
    def name(self) -> str:
        """The last two parts of the path, such as `2026-11-03/12-30-11-ab12`."""
        return "/".join(self.path.resolve().parts[-2:])

    @property
    def checkpoint_dir(self) -> Path:
        """The folder of the checkpoints."""
        return self.path / "checkpoints"

    @property
    def status(self) -> dict[str, Any]:
        """The content of `status.json`: `state`, `step`, `seconds`, `results`, and the `error` of a failed run.

        Empty if the file is missing or unreadable. It is parsed again when the file has changed.
        """
        version = None
        with contextlib.suppress(OSError):
            # which asks a file server, where stat may not
            number = os.open(f"{self.path}/status.json", os.O_RDONLY)
            about = os.fstat(number)
            os.close(number)
            version = about.st_ino, about.st_mtime_ns, about.st_size
        if version is None or version != self._read[0]:
            self._read = version, read_status(self.path / "status.json")
        return {**self._read[1], **({"state": self._next_state} if self._next_state else {})}

    @property
    def state(self) -> str:
        """`running`, `done`, `failed`, ...; `killed` if the status says running but no process holds the lock."""
        state = str(self.status.get("state") or "unknown")
        return "killed" if state == "running" and not self.is_locked() else state

    def update_status(self, **values: object) -> None:
        """Changes fields of `status.json`, atomically."""
        write_atomically(self.path / "status.json", json.dumps({**self.status, **values}, indent=1))

    def identity(self) -> str | None:
        """Returns the hash of the run's config, from `status.json`, else from `config.yaml`; None if neither has it."""
        first, _, config = read_text(self.path / "config.yaml").partition("\n")
        identity = str(self.status.get("config_hash") or first.partition(HASH_LINE)[2])
        is_earlier = not identity.endswith(STOPS_EARLY) and "runner.callbacks.EarlyStopping" in config
        return f"{identity}{STOPS_EARLY * is_earlier}" if identity else None

    def is_of(self, identity: str) -> bool:
        """Whether the run's config has this hash, or had it before its data was moved."""
        return identity in (self.identity(), *self.status.get("identities", []))

    def overrides(self) -> list[str]:
        """Returns the run's original overrides, by `overrides.json`, else `command.txt`; ValueError if both are lost."""
        if (overrides := self.noted_overrides()) is not None:
            return overrides
        if not (words := self.command_words()):
            raise ValueError(
                f"overrides.json in {str(self.path)!r} is damaged or missing, and so is command.txt: give the overrides "
                f"that the run was started with, as in {resume_word(self.path)} seed=7; config.yaml shows its settings"
            )
        return public_overrides([w for w in words[1:] if w not in flags(words) and w[:1] != "-"])

    def command_words(self) -> list[str]:
        """Returns the words of the command that started the run; empty if it is lost or cut off within quotes."""
        with contextlib.suppress(ValueError):
            return shlex.split(read_text(self.path / "command.txt"))
        return []

    def noted_overrides(self) -> list[str] | None:
        """Returns the list in `overrides.json`; None if the file is missing or unreadable."""
        file = self.path / "overrides.json"
        return read_json(file, []) or ([] if read_text(file).strip() == "[]" else None)

    def announce(self, identity: str, overrides: list[str]) -> None:
        """Writes the overrides, command and config hash of a job of a sweep, before it begins."""
        self._write_command(words := public_overrides(overrides), None, seal_record(words))
        self.update_status(state="waiting", config_hash=identity)

    def sealed_words(self) -> list[str] | None:
        """Returns the recorded overrides that this user typed; None if no seal proves that this user began the run."""
        return sealed_words(self.status, self.noted_overrides() or [])

    def _write_command(self, words: list[str], line: str | None, seal: dict[str, Any]) -> None:
        """Writes overrides, seal and command: `line` if no command is there yet, or the overrides if `line` is None."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path / "overrides.json", json.dumps(words))
        self.update_status(**seal)
        if line is None or not (self.path / "command.txt").exists():
            command = line or f"tiryns {shlex.join([*flags(), *words])}".strip()
            write_atomically(self.path / "command.txt", command + "\n")

    def begin(self, config: DictConfig, overrides: list[str]) -> None:
        """Writes config, overrides and command without secrets, environment and status, before the run starts."""
        identity = config_hash(config)
        status, now, before = self.status, timestamp(), self.identity()
        is_moved, here = before not in (None, identity), os.getcwd()
        place = [here, os.path.relpath(here, self.path.resolve())]
        earlier = [one for one in status.get("identities", []) if one != before] + [before] * is_moved
        args, words, is_new = public_overrides(overrides), self.sealed_words(), self.noted_overrides() is None
        seal = seal_record(args, None if before is None else words or [])
        is_begun = is_new or words is not None  # by this user
        if is_new or is_moved or (seal["own"] and not is_begun):  # what is typed once is not asked for again
            line = command_line() if is_new and not is_moved else None
            self._write_command(args, line, seal if is_begun or seal["own"] else {})
        text = OmegaConf.to_yaml(without_secrets(config))
        write_atomically(self.path / "config.yaml", f"{HASH_LINE}{identity}\n{text}")
        write_atomically(self.path / "environment.json", json.dumps(environment(), indent=1))
        self.update_status(
            state="running", started=status.get("started") or now,
            session={"began": now, "before": status.get("seconds") or 0.0}, ended=None, error=None,
            config_hash=identity,
            **({"identities": earlier, "moved_in": [place, *status.get("moved_in", [])]} if is_moved else {}),
            pid=os.getpid(), begun_in=status.get("begun_in") or place,
        )  # fmt: skip

    @contextlib.contextmanager
    def record(self, config: DictConfig, overrides: list[str]) -> Iterator[None]:
        """Begins the run, and records its failure if the block raises."""
        self.begin(config, overrides)
        try:
            yield
        except BaseException as error:
            was_stopped = isinstance(error, KeyboardInterrupt | SystemExit)
            state = getattr(error, "state", "interrupted") if was_stopped else "failed"
            with contextlib.suppress(OSError):  # or a full disk would hide why
                self.end(state, error=str(error) if was_stopped else explain(error) or repr(error))
            raise

    def end(self, state: str, **values: object) -> None:
        """Records the end of the run, its state and its seconds."""
        self.advance(state=state, ended=timestamp(), **values)

    def advance(self, **values: object) -> None:
        """Changes fields of `status.json`, and adds this session's seconds up to now.

        Checkpoints call it, so that a killed session counts with its seconds up to the last checkpoint.
        """
        session = self.status.get("session") or {}
        seconds = session.get("before", 0.0) + seconds_since(session.get("began") or timestamp())
        self.update_status(seconds=round(seconds, 3), **values)

    def check_resumable(self, now: bool = True) -> None:
        """Raises ValueError if this is not the folder of a run, or, if `now`, if a process is training in it."""
        if not self.path.exists():
            raise coded("no_such_run", f"resume: there is no folder {str(self.path)!r}{meant_run(self.path)}")
        if not any((self.path / name).exists() for name in MARKS):
            raise coded(
                "no_such_run", f"resume: {str(self.path)!r} is not a run folder (it has no status.json)"
            )
        if now and self.is_locked():
            raise ValueError(f"resume: a process is training in {str(self.path)!r} at this moment")

    def is_same(self, path: Path) -> bool:
        """Whether `path` is this folder or something in it."""
        return path.resolve().is_relative_to(self.path.resolve())

    def is_locked(self) -> bool:
        """Whether a living process holds the folder's lock."""
        try:
            with open(self.path / ".lock") as file:
                # on NFS a reader gets no other lock, and two that look must not take each other for the holder
                return not takes_lock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False

    def lock(self, patience: float = 0.5) -> contextlib.AbstractContextManager[None]:
        """Locks the folder until the process ends; ValueError if another holds it for `patience` seconds, not to look."""
        busy = ValueError(f"a process is training in {str(self.path)!r} at this moment")
        return hold_lock(self.path / ".lock", patience, busy)

    def clear_leftovers(self) -> None:
        """Removes files that no living process can be using. Only the process with the folder's lock may call this."""
        shutil.rmtree(self.path / MEETING, ignore_errors=True)
        folders = (self.path, self.checkpoint_dir)
        for path in [path for folder in folders for one in LEFTOVERS for path in folder.glob(one)]:
            lives = False
            if match := re.search(r"\.(\d+)\.tmp$", path.name):  # the id of a process of this machine
                with contextlib.suppress(ProcessLookupError, OverflowError):
                    with contextlib.suppress(PermissionError):  # somebody else's
                        os.kill(int(match[1]), 0)
                    # a killed process that its parent has not waited for is a zombie
                    lives = not re.search(r"\) Z [^)]*$", read_text(Path(f"/proc/{match[1]}/stat")))
            if not lives:
                with contextlib.suppress(FileNotFoundError):
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
