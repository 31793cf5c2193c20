"""Finds the run that a command continues: its folder and its overrides. Imports no torch.

`resume=auto` finds the newest run of exactly this config, even a finished run. `resume=<run folder>` resumes in that
folder. With overrides that change what is computed, or with `resume=<run folder>/checkpoints/step-....ckpt`, it
branches: a new folder starts from the checkpoint and carries the curves so far.
"""

import re
import secrets
import shutil
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from tiryns.conf.registry import GONE
from tiryns.conf.trainer import BUDGETS
from tiryns.runner import log
from tiryns.runner.config.run_config import begun_in, config_of, is_moved, path_from
from tiryns.runner.config.skipped import NOTED, noted_rewinds
from tiryns.runner.launch.agreement import agree_on_launch, agreed_folder
from tiryns.runner.patches.hydra.start import only_shows
from tiryns.runner.run.cluster import member, nodes_of, slurm_job
from tiryns.runner.run.command.words import CONFIG_FLAGS, flags, public_overrides, quote, typed_overrides
from tiryns.runner.run.files import SWEEP, hold_lock, read_sweep, replacing, resume_word
from tiryns.runner.run.folder import Run
from tiryns.runner.run.model_folder import check_links
from tiryns.runner.run.recording import config_hash, new_name
from tiryns.runner.run.redaction import HIDDEN

CARRIED = ("metrics.csv", "order.txt", "digests.txt")
"""Files that a branch copies from its parent run; each is cut at the checkpoint's step."""

STEPS, EPOCHS = "trainer.max_steps", "trainer.max_epochs"
LENGTHS = (STEPS, EPOCHS, *(f"trainer.{name}" for name in BUDGETS))
"""Settings of the length of a run."""

_READABLE = re.compile(r"[\w./ -]+", re.ASCII)
_OVERRIDE = re.compile(r"[+~]{0,2}[A-Za-z_][^=\s]*=.*|~[A-Za-z_]\S*", re.DOTALL)


def run_folder(*, _root_: DictConfig) -> str:
    """Returns the run folder for a composed config; implements the resolver `${run_folder:}`. Raises as `named_run`."""
    identity = config_hash(_root_)
    has_several_nodes = nodes_of(_root_.trainer) != (1, 1) and _root_.mode == "train"
    if only_shows() or not (member() or slurm_job() or has_several_nodes):
        return _chosen_folder(_root_, identity)
    agree_on_launch()
    return agreed_folder(Path(_root_.outputs), identity, lambda: _chosen_folder(_root_, identity))


def _chosen_folder(_root_: DictConfig, identity: str) -> str:
    outputs = Path(_root_.outputs)
    if _root_.mode == "inspect":  # Hydra wants a folder; this one is removed
        return str(Path(tempfile.gettempdir()) / f"tiryns-inspect-{secrets.token_hex(4)}")
    if _root_.mode == "evaluate":
        return str(outputs / f"{new_name()}-evaluation")
    if _root_.resume is None:
        return str(outputs / new_name())
    if _root_.resume == "auto":
        choose = newest_run if only_shows() else newest_or_claimed
        return str(choose(outputs, identity) or outputs / new_name())
    parent = named_run(_root_.resume)
    branches = _root_.resume.endswith(".ckpt")
    stays = not branches and (_is_of(parent, identity, _root_) or is_moved(parent, _root_))
    return str(parent.path if stays else outputs / new_name())


def newest_or_claimed(outputs: Path, identity: str) -> Path:
    """Returns the newest run of this config hash, else a new folder, which simultaneous commands find too.

    Raises ValueError if another process is training in the run.
    """
    outputs.mkdir(parents=True, exist_ok=True)
    with hold_lock(outputs / ".resume-auto.lock"):
        if (path := newest_run(outputs, identity)) is None:
            path = outputs / new_name()
            path.mkdir(parents=True)
            Run(path).update_status(state="waiting", config_hash=identity)
            return path
    check_links(path)
    if member() is None and slurm_job() is None and Run(path).is_locked():
        raise ValueError(f"resume=auto: a process is training this config in {str(path)!r} at this moment")
    return path


def newest_run(outputs: Path, identity: str) -> Path | None:
    """Returns the run under `outputs` that was started last with this config hash, whatever its state."""
    folders = {file.parent for name in ("status.json", "config.yaml") for file in outputs.glob(f"**/{name}")}
    starts = list[tuple[str, Path]]()
    for run in (run for run in map(Run, folders) if run.is_of(identity)):
        config = run.path / "config.yaml"  # whose time is that of the last resume, where the start is lost
        last = datetime.fromtimestamp(config.stat().st_mtime).isoformat() if config.exists() else ""
        starts.append((str(run.status.get("started") or last), run.path))
    return max(starts)[1] if starts else None


def _is_of(run: Run, identity: str, config: DictConfig) -> bool:
    """Whether a run has this config, by its hash, or by its overrides if the hash is lost; True if both are lost."""
    if run.identity():
        return run.is_of(identity)
    try:
        return run.overrides() == public_overrides(typed_overrides(config.hydra))
    except ValueError:  # they are lost too, and were given again
        return True


def named_run(resume: str, to_train: bool = True) -> Run:
    """Returns the run that `resume` names by its folder or by one of its checkpoints.

    Raises ValueError if it is no run, or if another process is training in it.
    """
    path = Path(resume)
    if path.suffix == ".ckpt":
        if not path.exists():
            there = ", ".join(sorted(file.name for file in path.parent.glob("*.ckpt"))) or "none"
            raise ValueError(f"resume: there is no checkpoint {resume!r}; there are: {there}")
        path = path.parent.parent
    folder = Run(path)
    now = to_train and member() is None and slurm_job() is None  # jobs wait for the lock
    folder.check_resumable(now)
    return folder


def saved_overrides(
    arguments: list[str], words_of: Callable[[DictConfig], list[str]] | None = None
) -> list[str]:
    """Returns the command-line arguments, preceded by the overrides of the run that `resume=<folder>` names.

    So `resume=<folder>` alone gives that run's config, with the folder of configs that it was started with. Further
    overrides change it, and a new length replaces the old one. If the folder of configs is gone, `words_of` gives the
    overrides that compose the run's `config.yaml`. If `scheduler.cooldown_steps` is given without a length, the cool-down
    begins at the checkpoint: the run ends that many steps, or that share of its new length, after it.
    """
    if (resume := _value("resume", arguments)) in (None, "", "auto", "null"):
        return arguments
    # as it is printed for a shell: Hydra reads no comma, = or ä without quotes
    if not _READABLE.fullmatch(str(resume)) and Path(str(resume)).exists():
        arguments = [f"resume={quote(str(resume))}" if a == f"resume={resume}" else a for a in arguments]
    if sweep := read_sweep(Path(str(resume))):
        return _saved_sweep(sweep, Path(str(resume)), arguments)
    folder = named_run(str(resume), to_train=False)
    places = [] if flags(arguments) else _with_folders(flags(folder.command_words()), folder.path)
    words, file = _overrides_of(folder, arguments), folder.path / "overrides.json"
    if places is None:
        places, file = [], folder.path / "config.yaml"
        if words_of is None or not (config := config_of(folder)):
            raise ValueError(
                f"resume: a folder of configs that the run was started with is not here, and {str(file)!r} cannot be "
                f"read: say where the folder is (--config-dir FOLDER {resume_word(folder.path)})"
            )
        words = words_of(config)
    overrides = _valid_overrides(words, arguments, str(file))
    cooldown, additions = _value("scheduler.cooldown_steps", arguments) or "", []
    length = float(cooldown) if re.fullmatch(r"\d*\.?\d+", cooldown) else 0
    if length and not _lengths(arguments):
        checkpoints = [Path(str(resume))] if str(resume).endswith(".ckpt") else folder.checkpoints()
        if not checkpoints:
            raise ValueError(f"resume: the run {resume!r} has no checkpoint yet")
        from tiryns.runner.checkpoints.callback import step_of  # with torch

        step = step_of(checkpoints[-1].resolve())
        additions = [f"{STEPS}={int(step + length if length >= 1 else step / (1 - length) + 1e-9)}"]
    if (new := _lengths(arguments + additions)) and _value(STEPS, arguments) != "-1":
        lengths = _lengths(overrides)
        overrides = [word for word in overrides if word not in lengths]
        # a length of the default or of a recipe is not among the overrides; epochs do not count beside steps
        keys = {word.partition("=")[0] for word in new} | ({EPOCHS} if _value(STEPS, new) else set())
        has = [name for name in LENGTHS if folder.settings.get(name) not in (None, -1)]
        old = dict.fromkeys([STEPS] * bool(_value(STEPS, lengths)) + has)
        additions += [f"{name}={-1 if name == STEPS else 'null'}" for name in old if name not in keys]
    first = next(i for i, a in enumerate(arguments) if "=" in a and not a.startswith("-"))
    return places + arguments[:first] + overrides + arguments[first:] + additions


def _with_folders(words: list[str], begun: Path) -> list[str] | None:
    """Returns the flags of a run or sweep with its folders of configs as they lie here; None if a folder is gone."""
    for i, flag in enumerate(words):
        name, is_given, value = flag.partition("=")
        place = value if is_given else "".join(words[i + 1 : i + 2])
        if name in ("--config-dir", "-cd") and not Path(place).is_dir():
            path = path_from(place, begun_in(begun))
            if not Path(path).is_dir():
                return None
            words[i if is_given else i + 1] = f"{name}={path}" if is_given else path
    return words


def _lengths(words: list[str]) -> list[str]:
    return [word for word in words if word.partition("=")[0] in LENGTHS]


def _overrides_of(folder: Run, arguments: list[str]) -> list[str]:
    """Returns the overrides of a run; empty if they are lost and the command has overrides."""
    try:
        return folder.overrides()
    except ValueError as lost:
        if all(word.startswith(("-", "resume=", "hydra")) for word in arguments):
            raise ValueError(f"resume: {lost}") from None
        log.warning("the overrides of %s are lost: only the overrides of this command are used", folder.path)
        return []


def _saved_sweep(sweep: dict[str, Any], folder: Path, arguments: list[str]) -> list[str]:
    """Returns the command that runs a sweep again in its folder, with the other words of this command line."""
    rest = [a for a in arguments if a not in ("-m", "--multirun") and not a.startswith("resume=")]
    file = str(folder / SWEEP)
    places, words = list[str](), sweep.get("flags")
    for word in map(str, words if isinstance(words, list) else [words]):
        is_value = not word.startswith("-") and places and places[-1] in CONFIG_FLAGS
        if not (is_value or word.partition("=")[0] in CONFIG_FLAGS):
            raise ValueError(f"resume: {file} is damaged: {word!r} is no flag of a sweep")
        places.append(word)
    places = [] if flags(rest) else _with_folders([*places], folder) or places
    hydra = _valid_overrides(sweep.get("hydra"), rest, file, of_hydra=True)
    overrides = _valid_overrides(sweep.get("overrides"), rest, file)
    return ["-m", *places, *hydra, f"hydra.sweep.dir={quote(str(folder))}", *overrides, *rest]


def _valid_overrides(words: Any, arguments: list[str], file: str, of_hydra: bool = False) -> list[str]:
    """Returns a file's overrides, `words`, without the secrets that `arguments` replace. Anyone may have made the file.

    Raises ValueError for an entry that is no override, such as a flag, and for a secret that is not given again.
    """
    names, overrides = {_name(word) for word in arguments}, []
    for word in words if isinstance(words, list) else [words]:
        override = isinstance(word, str) and _OVERRIDE.fullmatch(word) and _name(word) != "resume"
        if not override or of_hydra != _name(word).startswith(("hydra.", "hydra/")):
            raise ValueError(f"resume: {file} is damaged: {word!r} is no override of a run")
        if HIDDEN not in word:
            overrides.append(word)
        elif _name(word) not in names:
            raise ValueError(
                f"resume: {_name(word)} held a secret, which is not written ({word}): give it again, as {_name(word)}=..."
            )
    return [word for word in overrides if _name(word) not in GONE]


def _name(override: str) -> str:
    return override.partition("=")[0].lstrip("+~")


def inherit(folder: Run, resume: str | None) -> None:
    """Gives a branch the curves and the skipped batches of its parent run, and records the parent."""
    if resume == "auto" and not folder.checkpoint_dir.exists():
        log.info("resume=auto: no checkpoint of this config is here, so the run begins at step 0")
    if resume is None or resume == "auto" or folder.is_same(Path(resume)):
        return
    parent = named_run(resume)
    notes = [{**note, "inherited": True} for note in noted_rewinds(parent.path)]
    folder.update_status(branched_from=str(Path(resume).resolve()), **({NOTED: notes} if notes else {}))
    for name in CARRIED:
        if (parent.path / name).exists() and not (folder.path / name).exists():
            with replacing(folder.path / name) as temporary:
                shutil.copyfile(parent.path / name, temporary)


def _value(name: str, arguments: list[str]) -> str | None:
    values = [a.partition("=")[2].strip("'\"") for a in arguments if a.partition("=")[0] == name]
    return values[-1] if values else None
