"""Evaluates the weights of a run with a suite as it trains, in the loop or as jobs of their own.

`suite/step-00000500/` in the run folder is the folder of a suite. Its `model/` has the weights of that step until their
metrics are logged. `weights.txt` has their digest: after a kill or a rewind, only equal weights reuse an evaluation.
"""

import contextlib
import copy
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, TypeVar

from lightning.pytorch import Callback, Trainer
from omegaconf import DictConfig, OmegaConf

from tiryns.runner import log
from tiryns.runner.callbacks.stopping import Heartbeat
from tiryns.runner.callbacks.throughput import Throughput
from tiryns.runner.checkpoints.callback import step_of
from tiryns.runner.checkpoints.digests import state_digest
from tiryns.runner.config.permissions import words_of
from tiryns.runner.inference.card import model_card
from tiryns.runner.inference.export import write_model
from tiryns.runner.loop.assembly import known_task, preprocessor_of
from tiryns.runner.modules.training import TrainingModule
from tiryns.runner.protocols import RunCallback, State
from tiryns.runner.report.suite.figures import cells_of, read_suite_results
from tiryns.runner.run import signals
from tiryns.runner.run.command.lifetime import PROGRAM, same_modules, tells_rank
from tiryns.runner.run.command.words import flags, quote
from tiryns.runner.run.files import SWEEP, read_text, resume_word, takes_lock, typed_path, write_atomically
from tiryns.runner.run.folder import Run
from tiryns.runner.run.metrics_file import row_metrics, whole_rows

WEIGHTS, OUTPUT = "weights.txt", "output.txt"
"""In the folder of an evaluation: the digest of its weights, and what its command has printed."""

WITH_PARENT = "from tiryns.runner.run.command.lifetime import set_parent_death_signal as end; end(15); "

OF_THIS_PROCESS = ("TIRYNS_HEARTBEAT", "TIRYNS_LAUNCH", "TIRYNS_RANK_CONFIG", "TIRYNS_COMMAND_PROCESS")
"""Environment variables that another command must not inherit."""

SECONDS_BETWEEN_LOOKS, SECONDS_TO_STOP = 0.5, 20.0

Waits = Generator[None, None, None]
"""Work as a generator, which yields whenever it has to wait."""

Kind = TypeVar("Kind", bound=Callback)


class SuiteEvaluation(Callback, RunCallback):
    """Evaluates the weights every `every` steps and at the end; logs `suite/<name>/<task>` at the step of the weights.

    The suite is a separate command, so that training does not change. A failed suite is a warning.

    Example: `tiryns 'callback=[default,suite]' callback.suite.suite=probe callback.suite.every=500`
    """

    needs_batches = True
    instead = "leave it out, and evaluate model/ at the end: tiryns suite=NAME model=RUN"

    def __init__(self, suite: str, every: int, jobs: bool, overrides: list[str]) -> None:
        self.suite, self.every, self.jobs, self.overrides = suite, every, jobs, list(overrides)
        self._started: dict[Path, subprocess.Popen[bytes]] = {}
        self._given_up: set[Path] = set()
        self._logged: set[int] | None = None

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Continues unfinished evaluations of earlier sessions; collective."""
        _together(trainer, self._take_up(trainer, pl_module))

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *_: object) -> None:
        """Evaluates the weights if a step is due; collective."""
        if trainer.global_step % self.every == 0:
            self._evaluate(trainer, pl_module)

    def after_training(self, trainer: Trainer, module: TrainingModule) -> None:
        """Evaluates the last weights, and warns of evaluations without metrics; collective."""
        if trainer.global_step == 0:
            return
        self._evaluate(trainer, module)
        if not trainer.is_global_zero:
            return
        if waiting := [folder for folder in self._open(trainer) if folder not in self._given_up]:
            names = ", ".join(folder.name for folder in waiting)
            last = typed_path(waiting[-1])
            log.warning(
                "suite %s: no figures yet of %s in %s; when it has ended, read them with: tiryns %s",
                self.suite, names, last.parent, resume_word(last),
            )  # fmt: skip

    def results(self, trainer: Trainer) -> dict[str, float]:
        """Returns the metrics of the newest evaluated weights, and their step; empty without an evaluation."""
        if not (folders := list(filter(_complete, _exported_folders(trainer)))):
            return {}
        figures = figures_of(folders[-1])
        return {**figures, f"{next(iter(figures)).rpartition('/')[0]}/step": float(step_of(folders[-1]))}

    def _evaluate(self, trainer: Trainer, module: TrainingModule) -> None:
        with module.evaluation_weights():
            weights = module.gathered_weights()  # collective
        _together(trainer, self._export_and_take_up(trainer, module, weights))

    def _export_and_take_up(self, trainer: Trainer, module: TrainingModule, weights: State | None) -> Waits:
        run, data = Run(Path(trainer.default_root_dir)), trainer.datamodule  # type: ignore[attr-defined]
        folder = run.path / "suite" / f"step-{trainer.global_step:08d}"
        try:
            with module.evaluation_weights():
                digest = state_digest(module.model.pretrained.state_dict() if weights is None else weights)
                is_there = _complete(folder) or (folder / "model").is_dir()
                if not is_there or read_text(folder / WEIGHTS) != digest:
                    shutil.rmtree(folder, ignore_errors=True)
                    folder.mkdir(parents=True)
                    preprocessor = copy.deepcopy(preprocessor_of(data))  # writing it sets its longest text
                    card = model_card(module.model, preprocessor, run, {}, trainer.global_step)
                    write_model(module.model, preprocessor, folder / "model", card, weights, known_task(data))
                    write_atomically(folder / WEIGHTS, digest)
        except OSError as error:
            self._give_up(folder, str(error))
        yield from self._take_up(trainer, module)

    def _take_up(self, trainer: Trainer, module: TrainingModule) -> Waits:
        """Logs finished evaluations, and starts the others if not running; waits for them unless `jobs`. Rank 0 only."""
        for throughput in _of(Throughput, trainer):
            throughput.on_validation_start()  # the time is not that of training
        for folder in self._open(trainer):
            while not self.jobs and Run(folder).is_locked():  # that of a session that was killed
                time.sleep(SECONDS_BETWEEN_LOOKS)
                yield
            if not Run(folder).is_locked() and not _complete(folder):
                yield from self._run(trainer, folder)
            if _complete(folder):
                self._log(trainer, module, folder)

    def _run(self, trainer: Trainer, folder: Path) -> Waits:
        """Starts the suite, unless it has failed before; waits for its end, unless `jobs`."""
        if folder in self._given_up:
            return
        earlier = self._started.get(folder)
        if earlier is None or (earlier.poll() is not None and not _problem(folder)):
            try:
                process = self._started[folder] = self._start(folder)
            except OSError as error:
                return self._give_up(folder, str(error))
            if self.jobs:
                return
            try:
                while process.poll() is None:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(SECONDS_BETWEEN_LOOKS)
                    yield
            finally:
                process.terminate()  # if it still runs, its jobs save first
                try:
                    process.wait(SECONDS_TO_STOP)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        if not _complete(folder):
            self._give_up(folder, _problem(folder) or _last_line(folder))

    def _start(self, folder: Path) -> "subprocess.Popen[bytes]":
        """Starts an evaluation's suite as a process that holds the folder's lock; with `jobs`, it outlives the run."""
        run = folder.parent.parent
        config = OmegaConf.load(run / "config.yaml")
        assert isinstance(config, DictConfig)
        config_flags = flags(Run(run).command_words())
        model, sweep = quote(str((folder / "model").resolve())), quote(str(folder.resolve()))
        words = [*config_flags, f"suite={self.suite}", f"model={model}", f"hydra.sweep.dir={sweep}"]
        program = PROGRAM if self.jobs else WITH_PARENT + PROGRAM
        env = {n: v for n, v in os.environ.items() if not tells_rank(n) and n not in OF_THIS_PROCESS}
        with open(folder / ".lock", "w") as lock, open(folder / OUTPUT, "ab") as output:
            takes_lock(lock)
            return subprocess.Popen(
                [sys.executable, *same_modules(), "-c", program, *words, *words_of(config), *self.overrides],
                env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                pass_fds=[lock.fileno()], start_new_session=self.jobs,
            )  # fmt: skip

    def _log(self, trainer: Trainer, module: TrainingModule, folder: Path) -> None:
        figures, step = figures_of(folder), step_of(folder)
        module.log_metrics(figures, step)
        self._already_logged(trainer).add(step)
        shutil.rmtree(folder / "model", ignore_errors=True)
        text = ", ".join(f"{name} {value:.4f}" for name, value in figures.items())
        log.info("step %d: %s", step, text)

    def _give_up(self, folder: Path, why: str) -> None:
        """Logs why an evaluation has no metrics; a later session tries again."""
        self._given_up.add(folder)
        step, path = step_of(folder), typed_path(folder)
        again = f"; go on with: tiryns {resume_word(path)}" if (folder / SWEEP).exists() else ""
        log.warning("step %d: suite %s: %s; see %s%s", step, self.suite, why, path, again)

    def _open(self, trainer: Trainer) -> list[Path]:
        """Returns the folders of exported weights whose metrics are not logged."""
        return [f for f in _exported_folders(trainer) if step_of(f) not in self._already_logged(trainer)]

    def _already_logged(self, trainer: Trainer) -> set[int]:
        """Returns the steps with suite metrics in `metrics.csv`, read after a resumed run has dropped later rows."""
        if self._logged is None:
            columns, rows = whole_rows(Path(trainer.default_root_dir) / "metrics.csv")
            self._logged = {
                int(r[0]) for r in rows if any(name.startswith("suite/") for name in row_metrics(columns, r))
            }
        return self._logged


def figures_of(folder: Path) -> dict[str, float]:
    """Returns the means and metrics of a complete evaluation, by their names in the log."""
    content = read_suite_results(folder)
    cells = cells_of(content["models"][0])
    return {f"suite/{Path(content['suite']).stem}/{name}": cell["mean"] for name, cell in cells.items()}


def _together(trainer: Trainer, work: Waits) -> None:
    """Does the work on rank 0, with frequent reductions so that no rank waits long; a signal to any rank ends it."""
    beats, over, end = _of(Heartbeat, trainer), False, object()
    with contextlib.closing(work):
        while not over:
            at_end = trainer.is_global_zero and next(work, end) is end
            for beat in beats:
                if beat.file.exists():  # else the agent does not look yet, or no more
                    beat.beat()
            over = trainer.strategy.reduce_boolean_decision(at_end or signals.first() is not None, all=False)
            if not trainer.is_global_zero and not over:
                time.sleep(SECONDS_BETWEEN_LOOKS)


def _exported_folders(trainer: Trainer) -> list[Path]:
    """Returns the folders of exported weights, up to the present step."""
    files = sorted((Path(trainer.default_root_dir) / "suite").glob(f"step-*/{WEIGHTS}"))
    return [file.parent for file in files if step_of(file.parent) <= trainer.global_step]


def _of(kind: type[Kind], trainer: Trainer) -> list[Kind]:
    return [each for each in trainer.callbacks if isinstance(each, kind)]  # type: ignore[attr-defined]


def _complete(folder: Path) -> bool:
    return bool(read_suite_results(folder).get("complete"))


def _problem(folder: Path) -> str:
    """Returns why an ended suite has no metrics; empty if its jobs are queued or were interrupted."""
    content = read_suite_results(folder)
    problems = [run["problem"] for run in content.get("runs", []) if run["state"] == "failed"]
    return problems[0] if problems else "" if content else _last_line(folder)


def _last_line(folder: Path) -> str:
    lines = read_text(folder / OUTPUT).split("\n")
    return next((line for line in reversed(lines) if line.strip()), "it ended without a word")
