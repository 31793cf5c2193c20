"""The program: compose a config, launch its ranks, and in each rank build, fit, export and report.

`python -m runner.train` and the installed command `iolaus` both arrive at `main`. The Hydra process never joins
a process group; rank processes are started with `--rank <run folder>` and are no Hydra apps.
"""

import logging
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from iolaus.runner.build import build, build_all
from iolaus.runner.cli.commands import handles_command
from iolaus.runner.cli.compose import prepare
from iolaus.runner.config.checks import check_config
from iolaus.runner.config.permissions import on_command_line
from iolaus.runner.launch.hub import spare_retries
from iolaus.runner.launch.job import in_sweep, report_failure, report_job_failure, report_stop, run_job
from iolaus.runner.launch.processes import keep_freed_memory, leave_error, run_rank
from iolaus.runner.launch.requeue import requeue
from iolaus.runner.launch.resume import saved_overrides
from iolaus.runner.loop.assembly import assemble, known_task
from iolaus.runner.run.cluster import member, refuse_sweep_of_ranks
from iolaus.runner.run.errors import explain, wants_traceback
from iolaus.runner.run.folder import RunFolder
from iolaus.runner.run.redaction import know_secrets, redact_logs
from iolaus.runner.run.signals import EXIT_INTERRUPTED, Stopped, ending_with_command, forwarding, stoppable

log = logging.getLogger("iolaus")


def main() -> None:
    """Runs the command line; a wrong config or file ends with one message and exit status 1."""
    os.environ.setdefault("IOLAUS_FULL_ERROR", os.environ.get("HYDRA_FULL_ERROR", "0"))
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra hands errors on instead of printing them its own way
    try:
        if sys.argv[1:2] == ["--rank"]:
            run_rank(Path(sys.argv[2]), train)
        elif not handles_command(sys.argv[1:]):
            refuse_sweep_of_ranks(sys.argv[1:])
            typed, sys.argv[1:] = sys.argv[1:], saved_overrides(sys.argv[1:])
            prepare()
            with forwarding(), on_command_line(typed):
                hydra.main(version_base="1.3", config_path="pkg://iolaus.conf", config_name="config")(run)()
    except BrokenPipeError:  # whoever reads, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains as it ends
        sys.exit(1)
    except Exception as error:
        message = explain(error)
        if message is None or wants_traceback():
            raise
        if sys.argv[1:2] == ["--rank"]:
            leave_error(Path(sys.argv[2]), message)
            sys.exit(1)
        sys.exit(f"error: {message}")


def run(config: DictConfig) -> float | None:
    """One job: writes the run folder, trains in as many processes as the config asks for, records how it ended."""
    folder, here = RunFolder(Path(HydraConfig.get().runtime.output_dir)), member()
    know_secrets(config)
    redact_logs()
    first = here is None or here.rank == 0
    with ending_with_command(), stoppable():
        try:
            check_config(config)  # a trial's values are known only now
            spare_retries(config)
            if config.mode == "inspect":
                inspect(config, folder)
                return None
            return run_job(config, folder, here, train).get("objective")
        except Stopped as stopped:
            requeued = requeue(stopped, here)
            if first:
                report_stop(folder, str(stopped), requeued)
            raise
        except SystemExit:  # what Lightning makes of a second Ctrl-C
            if first:
                report_stop(folder, "interrupted", None)
            sys.exit(EXIT_INTERRUPTED)
        except Exception as error:
            message = explain(error)
            if first:
                report_failure(folder)
            if in_sweep():
                report_job_failure(folder, error, message)
            if message is None or wants_traceback() or in_sweep():
                raise
            sys.exit(f"error: {message}")


def inspect(config: DictConfig, folder: RunFolder) -> None:
    """Shows the plan of a run; Hydra's folder for it goes."""
    from iolaus.runner.cli.plan import show_plan

    try:
        show_plan(config)
    finally:
        shutil.rmtree(folder.path, ignore_errors=True)


def train(config: DictConfig, folder: RunFolder) -> dict[str, float]:
    """Builds the parts the config names, trains, exports and reports; every rank runs it.

    Returns the run's figures, `objective` among them: the best value of the monitored metric.
    """
    import torch

    from iolaus.runner.callbacks import Preemption
    from iolaus.runner.checkpoints.callback import checkpoint_to_resume
    from iolaus.runner.inference.export import export_model
    from iolaus.runner.logging.loggers import finish_loggers
    from iolaus.runner.loop.resolved import (
        Record,
        changes,
        choose_hardware,
        described,
        note,
        recorded,
        resolve,
    )
    from iolaus.runner.loop.trainer import describe_run, final_validation
    from iolaus.runner.report import write_report
    from iolaus.runner.report.summary import end_summary, start_summary
    from iolaus.runner.sweeps.pruning import pruning_of

    keep_freed_memory()
    checkpoint = checkpoint_to_resume(folder, config.resume)
    before = recorded(folder, checkpoint)
    chosen = choose_hardware(config, before)
    data, module, max_steps = assemble(chosen, before.get("layout"))
    resolved = resolve(config, chosen, before, data, module.model)
    note(folder, resolved)
    callbacks, saver = build_all(chosen.callback), build(chosen.checkpoint, folder=folder.checkpoints)
    pruning = pruning_of(folder, saver)
    trainer = build(
        chosen.trainer,
        callbacks=[*callbacks.values(), saver, *pruning, Preemption(saver), Record(resolved)],
        loggers=build_all(config.logger, folder=str(folder.path)),
        folder=folder,
        resumed_step=checkpoint.step if checkpoint else 0,
        max_steps=max_steps,
    )
    if trainer.is_global_zero:
        monitored = {name: chosen.checkpoint.get(name) for name in ("monitor", "mode")}
        folder.update_status(max_steps=max_steps, **monitored)
        decided = described(config, before, resolved)
        start_summary(describe_run(trainer, module, data, folder, checkpoint, decided))
        for line in changes(before if checkpoint else {}, resolved):
            log.warning("%s", line)
    try:
        trainer.fit(module, data, ckpt_path=checkpoint and str(checkpoint.path), weights_only=True)
        pruned = any(callback.pruned for callback in pruning)
        if not pruned:
            final_validation(trainer, module, data)
            module.after_training(folder)
    finally:
        finish_loggers(trainer.loggers)

    weights = None if pruned else module.gathered_weights()
    if torch.distributed.is_initialized():  # threads that are left when a process ends may abort it
        torch.distributed.destroy_process_group()
    results: dict[str, Any] = {**module.results(), **saver.results()}
    if trainer.is_global_zero:
        if not pruned:
            export_model(module, data.preprocessor, folder, results, weights, known_task(data))
        folder.end("pruned" if pruned else "done", step=trainer.global_step, results=results)
        write_report(folder.path)
        end_summary(folder.path, results)
    return results


if __name__ == "__main__":
    main()
