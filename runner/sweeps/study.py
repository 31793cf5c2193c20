"""The study of a search: its storage, which several sweepers may share, the owners of trials, and the importances.

A storage is a journal file, or `grpc://HOST:PORT` of Optuna's gRPC proxy. Optuna is imported when a search begins.
"""

import os
import secrets
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiryns.runner.run.files import hold_lock, read_json
from tiryns.runner.run.folder import Run

if TYPE_CHECKING:
    from tiryns.runner.report.comparison.importance import Importance

JOURNAL, STUDY = "study.journal", "search"

SWEEPERS, SWEEPER = ".sweepers", "sweeper"
"""Folder in the sweep's folder with a lock for each sweeper; attribute of a trial with the token of its sweeper."""

TRIAL = "trial.json"
"""File in a run's folder with its trial and the storage of the study."""

PROXY = "grpc://"

SECONDS_TO_ANSWER = 20.0

FEWEST_TRIALS, ENOUGH_TRIALS = 20, 50
"""Complete trials needed for rough importances, and for good ones: the best tenth then has 5, as Optuna advises."""


def import_optuna() -> Any:
    """Returns Optuna with logging limited to errors; raises ImportError with the command that installs it."""
    try:
        import optuna
    except ImportError as error:
        hint = "hydra/sweeper=optuna needs the package optuna: pip install 'tiryns[search]'"
        raise ImportError(hint) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def storage_of(setting: str | None, sweep: Path) -> str:
    """Returns the storage of a search: the setting, else the journal in the sweep's folder."""
    if setting and setting.startswith(PROXY):
        return setting
    return str(Path(setting or sweep / JOURNAL).absolute())


def noted_storage(place: str, folder: Path) -> str:
    """Returns the storage that a run folder records as `place`: a proxy's address, or a path relative to the folder."""
    return place if place.startswith(PROXY) else str(folder / place)


def open_storage(storage: str) -> Any:
    """Returns Optuna's storage, which many processes may write to; raises ConnectionError, ImportError or ValueError."""
    storages = import_optuna().storages
    if not storage.startswith(PROXY):
        return storages.JournalStorage(storages.journal.JournalFileBackend(storage))
    host, _, port = storage.removeprefix(PROXY).rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"hydra.sweeper.storage={storage}: expected a file or grpc://HOST:PORT")
    try:
        proxy = storages.GrpcStorageProxy(host=host, port=int(port))
        proxy.wait_server_ready(timeout=SECONDS_TO_ANSWER)
    except ImportError as error:
        raise ImportError(
            f"hydra.sweeper.storage={storage} needs the package grpcio: pip install 'tiryns[search]'"
        ) from error
    except ConnectionError as error:
        problem = f"no proxy has answered in {SECONDS_TO_ANSWER:.0f} seconds"
        raise ConnectionError(f"hydra.sweeper.storage={storage}: {problem}") from error
    return proxy


def repair(storage: str) -> None:
    """Cuts off the half-written last line that a killed process has left in a journal: it would spoil appended lines."""
    journal = Path(storage)
    if storage.startswith(PROXY) or not journal.exists():
        return
    lock = import_optuna().storages.journal.JournalFileSymlinkLock(storage)
    lock.acquire()  # or another sweeper may be writing that line now
    try:
        text = journal.read_bytes()
        if text and not text.endswith(b"\n"):
            os.truncate(journal, text.rfind(b"\n") + 1)
    finally:
        lock.release()


class Claims:
    """The trials of a shared study that this sweeper may run: its own, and trials of dead sweepers in its folder."""

    def __init__(self, sweep: Path, storage: str) -> None:
        self.sweep, self.storage, self.token = sweep, storage, secrets.token_hex(4)

    @contextmanager
    def mark_alive(self) -> Iterator[None]:
        """Marks this sweeper as alive for the block."""
        lock = self._lock_of(self.token)
        lock.path.mkdir(parents=True)
        with lock.lock():
            yield

    def turn(self) -> Any:
        """Keeps other sweepers from choosing trials in the block, except sweepers of other folders on the same proxy."""
        place = self.sweep / JOURNAL if self.storage.startswith(PROXY) else Path(self.storage)
        return hold_lock(place.with_name(f".{place.name}.turn"))

    def claim(self, trial: Any) -> None:
        """Marks a trial as this sweeper's."""
        trial.set_user_attr(SWEEPER, self.token)

    def may_run(self, trial: Any) -> bool:
        """Whether this sweeper may run or report a trial that has begun."""
        owner = trial.user_attrs.get(SWEEPER)
        if owner is None:  # its sweeper was killed before it could say so
            return self.storage == storage_of(None, self.sweep)
        lock = self._lock_of(owner)
        return owner == self.token or (lock.path.exists() and not lock.is_locked())

    def _lock_of(self, token: str) -> Run:
        return Run(self.sweep / SWEEPERS / token)


def study_importance(sweep: Path) -> "Importance | None":
    """Returns the importance of each setting of a search for reaching the best tenth of its trials, by PED-ANOVA.

    Returns None if the local journal or Optuna is missing, or for fewer than 2 settings or `FEWEST_TRIALS` trials.
    Source: Watanabe, Bansal and Hutter 2023 (arXiv 2304.10255).
    """
    records = ((file, read_json(file, {}).get("journal")) for file in sorted(sweep.glob(f"*/{TRIAL}")))
    storage = next((noted_storage(str(place), file.parent) for file, place in records if place), PROXY)
    if storage.startswith(PROXY) or not Path(storage).is_file():
        return None
    try:
        optuna = import_optuna()
        study = optuna.load_study(study_name=STUDY, storage=open_storage(storage))
        trials = study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.COMPLETE])
    except (ImportError, KeyError, OSError, ValueError):  # a page needs no whole journal
        return None
    if len(trials) < FEWEST_TRIALS or len({name for trial in trials for name in trial.params}) < 2:
        return None
    with warnings.catch_warnings(action="ignore"):
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
    rough = "" if len(trials) >= ENOUGH_TRIALS else f" With fewer than {ENOUGH_TRIALS} trials it is rough."
    from tiryns.runner.report.comparison.importance import Importance  # numpy, which composing does without

    sentence = (
        f"How much each setting matters for reaching the best tenth of {len(trials)} complete trials, in shares of all "
        f"(PED-ANOVA, by Optuna).{rough}"
    )
    return Importance(shares, {}, sentence)
