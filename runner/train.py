"""`tiryns train`: composes a config, starts its ranks, and in each rank builds, fits, exports and reports.

The Hydra process never joins a process group; rank processes are started with `--rank <run folder>`, without Hydra.
"""

import gc
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from tiryns.runner import log
from tiryns.runner.build import build, build_all
from tiryns.runner.cli import commands
from tiryns.runner.cli.compose import composing_words, flags_first, prepare
from tiryns.runner.config.checks import check_config, lacks_data, remarks_on
from tiryns.runner.config.permissions import on_command_line
from tiryns.runner.config.run_config import with_data
from tiryns.runner.config.skipped import leave_out_rewinds
from tiryns.runner.launch.job import in_sweep, report_failure, report_job_failure, report_stop, run_job
from tiryns.runner.launch.processes import keep_freed_memory, spare_retries
from tiryns.runner.launch.rank import HEARTBEAT, run_rank
from tiryns.runner.launch.requeue import requeue
from tiryns.runner.launch.resume import named_run, saved_overrides
from tiryns.runner.logging.log_file import message_of
from tiryns.runner.loop.assembly import assemble, check_numbered, known_task, preprocessor_of
from tiryns.runner.patches.hydra.start import VERSION_BASE
from tiryns.runner.protocols import asked_callbacks
from tiryns.runner.run.cluster import member, refuse_sweep_of_ranks
from tiryns.runner.run.command.lifetime import outlast_readers, without_teardown
from tiryns.runner.run.command.status import INTERRUPTED
from tiryns.runner.run.errors import Diverged, Rewound, TrainingFailure, wants_traceback
from tiryns.runner.run.files import resume_word
from tiryns.runner.run.folder import Run
from tiryns.runner.run.lazy import many_imports
from tiryns.runner.run.redaction import know_secrets, redact_logs
from tiryns.runner.run.signals import Stopped, ending_with_command, forwarding, stoppable
from tiryns.runner.run.yaml_files import checked_files
from tiryns.runner.sweeps.study import TRIAL
from tiryns.runner.sweeps.suite.definition import check_evaluations
from tiryns.runner.sweeps.words import as_sweep, with_replicates


def main(words: Sequence[str]) -> None:
    """Trains as the command-line arguments `words` say, or as one rank of a run (`--rank <run folder>`)."""
    outlast_readers()
    if words[:1] == ["--rank"]:
        run_rank(Path(words[1]), train)
        return
    os.environ.setdefault("TIRYNS_FULL_ERROR", os.environ.get("HYDRA_FULL_ERROR", "0"))
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises errors and does not print them
    refuse_sweep_of_ranks(words := with_replicates(words))
    command_words = flags_first(words)
    sys.argv[1:] = as_sweep(saved_overrides(command_words, composing_words))  # Hydra reads them there
    prepare()
    with forwarding(), on_command_line([*command_words, *as_sweep(command_words)]), checked_files():
        hydra.main(config_path="pkg://tiryns.conf", config_name="config", **VERSION_BASE)(run)()


def run(config: DictConfig) -> float | None:
    """Runs one job of the command line; an error of the user ends it with one message."""
    try:
        return work(config).get("objective")
    except Exception as error:
        if wants_traceback() or in_sweep():
            raise
        sys.exit(f"error: {message_of(error, Path(HydraConfig.get().runtime.output_dir))}")


def work(config: DictConfig) -> dict[str, float]:
    """Trains in a run folder, in as many processes as the config says; returns the final metrics, or raises Stopped."""
    folder, here = Run(Path(HydraConfig.get().runtime.output_dir)), member()
    know_secrets(config)
    redact_logs()
    first = here is None or here.rank == 0
    with ending_with_command(), stoppable():
        try:
            check_config(config)  # the values of a sweep's job are known only now
            check_evaluations(config, folder.path)
            for line in remarks_on(config, HydraConfig.get()) if first else ():
                log.warning("%s", line)
            if not lacks_data(config):
                spare_retries(with_data(config, folder.path))
            if config.mode in ("inspect", "evaluate"):
                (inspect if config.mode == "inspect" else evaluate)(config, folder)
                return {}
            return run_job(config, folder, here, probe if config.mode == "probe" else train)
        except Stopped as stopped:
            job_id = requeue(stopped, here)
            if first:
                report_stop(folder, str(stopped), job_id)
            raise
        except SystemExit:  # Lightning raises it for a second Ctrl-C
            if first:
                report_stop(folder, "interrupted", None)
            sys.exit(INTERRUPTED)
        except Exception as error:
            if first:
                report_failure(folder)
            if in_sweep():
                report_job_failure(folder, error)
            raise


def inspect(config: DictConfig, folder: Run) -> None:
    """Shows the plan of a run, and removes the folder that Hydra has made for it."""
    with many_imports():
        from tiryns.runner.cli.plan.shown import show_plan

    try:
        begun = folder.path if config.resume in (None, "auto") else named_run(config.resume, False).path
        show_plan(with_data(config, begun))
    finally:
        shutil.rmtree(folder.path, ignore_errors=True)


def evaluate(config: DictConfig, folder: Run) -> None:
    """Evaluates a finished run on the sets of the config; if this fails, removes the folder of the evaluation."""
    from tiryns.runner.cli.models.evaluate import evaluate_sets

    try:
        evaluate_sets(config, folder.path)
    except BaseException:
        shutil.rmtree(folder.path, ignore_errors=True)
        raise


def probe(config: DictConfig, folder: Run) -> dict[str, float]:
    """Evaluates the frozen features of a model; returns the metrics, `objective` among them."""
    from tiryns.runner.cli.models.probe import probe_model

    return probe_model(config, folder)


def train(config: DictConfig, folder: Run) -> dict[str, float]:
    """Builds, trains, exports and reports, on every rank; repeats this from the checkpoint after a rewind.

    Returns the final metrics, `objective` among them. Under an agent, raises Rewound, and the agent restarts the ranks.
    """
    keep_freed_memory()
    while True:
        try:
            return train_once(config, folder)
        except Rewound as rewound:
            if HEARTBEAT in os.environ:
                raise
            log.warning("%s", rewound)
        gc.collect()  # the next model needs the memory


def train_once(config: DictConfig, folder: Run) -> dict[str, float]:
    """Builds, trains, exports and reports; raises Rewound after a rewind to a checkpoint."""
    with many_imports():
        from tiryns.runner.callbacks import Heartbeat, PhaseChanges, Preemption, taken_back
        from tiryns.runner.callbacks.stopping import KILLED_LOADER
        from tiryns.runner.checkpoints.callback import checkpoint_to_resume
        from tiryns.runner.inference.export import check_export
        from tiryns.runner.logging.loggers import finish_loggers
        from tiryns.runner.loop import lengths, resolved
        from tiryns.runner.loop.lightning_loop import one_epoch, savers
        from tiryns.runner.loop.trainer import describe_run, make_trainer
        from tiryns.runner.report.summary import show
        from tiryns.runner.sweeps.pruning import pruning_of

    config = with_data(config, folder.path)
    checkpoint = checkpoint_to_resume(folder, config.resume)
    is_branch = checkpoint is not None and not folder.is_same(checkpoint.path)
    before = resolved.record_of(folder, checkpoint, config)
    run_config = resolved.choose_hardware(config, before)
    (run_lengths := lengths.run_lengths(run_config)).restore(before)
    leave_out_rewinds(run_config, folder.path)
    parts = assemble(run_config, before, checkpoint and checkpoint.path)
    data, module, max_steps = parts.data, parts.module, parts.max_steps
    values = resolved.note(folder, resolved.resolve(config, run_config, before, data, module))
    phase_changes = {"phases": PhaseChanges(phases, parts.rotary)} if (phases := run_lengths.phases()) else {}
    watching = watchers({**phase_changes, **build_all(run_config.callback)}, data, module)
    *saving, saver = savers(build(run_config.checkpoint, folder=folder.checkpoint_dir), folder.checkpoint_dir)
    pruning = pruning_of(folder, saver) if (folder.path / TRIAL).exists() else []
    beating = [Heartbeat(Path(file))] if (file := os.environ.get(HEARTBEAT)) else []
    trainer = make_trainer(
        config.trainer, run_config.trainer,
        callbacks=[*watching, *saving, saver, *pruning, *beating, Preemption(saver), resolved.Record(values)],
        loggers=build_all(run_config.logger, folder=str(folder.path)), folder=folder,
        resumed_step=(resumed_step := checkpoint.step if checkpoint else 0), max_steps=max_steps,
        epochs=one_epoch(data, max_steps, run_config.trainer.max_epochs, resumed_step, is_branch),
    )  # fmt: skip
    if trainer.is_global_zero:
        check_export(module, preprocessor_of(data), folder, known_task(data))
        monitor_settings = {name: run_config.checkpoint.get(name) for name in ("monitor", "mode")}
        step_entry = {"step": checkpoint.step} if checkpoint and not is_branch else {}
        folder.update_status(max_steps=max_steps if max_steps > 0 else None, **monitor_settings, **step_entry)
        summary, budget = resolved.summary_of(config, before, values), values.get("budget")
        show("tiryns", describe_run(trainer, parts, folder, checkpoint, summary, budget), folder.path)
        for line in resolved.changes(before if checkpoint else {}, values):
            log.warning("%s", line)
    try:
        trainer.fit(module, data, ckpt_path=checkpoint and str(checkpoint.path), weights_only=True)
        if not (is_pruned := any(callback.pruned for callback in pruning)):
            conclude(trainer, module, data, folder)
    except Diverged as error:
        raise taken_back(error, watching, data, trainer, folder, HEARTBEAT in os.environ) from error
    except RuntimeError as error:
        if beating or not str(error).startswith(KILLED_LOADER):  # the agent starts this rank again
            raise
        step = folder.status.get("step")
        progress = f"saved at step {step}" if step else "no checkpoint was written yet"
        raise TrainingFailure(f"{error}; {progress}; go on with {resume_word(folder.path)}") from error
    finally:
        finish_loggers(trainer.loggers)
    return finish(data, module, trainer, folder, saver, is_pruned)


def conclude(trainer: Any, module: Any, data: Any, folder: Run) -> None:
    """Evaluates the last weights by validation and by the module, then by callbacks; all ranks must call it."""
    validates = trainer.enable_validation and data.validation_names != []
    if validates and module.validated_step != trainer.global_step:
        trainer.validate(module, data, verbose=False)
    module.after_training(folder)
    for callback in asked_callbacks(trainer.callbacks):
        callback.after_training(trainer, module)


def watchers(callbacks: dict[str, Any], data: Any, module: Any) -> list[Any]:
    """Returns the callbacks of a run. For Lightning's own loop, callbacks that read global batches are left out."""
    from tiryns.runner.loop.lightning_loop import LightningLoop, is_plain, limits_of_plain

    for callback in asked_callbacks(callbacks.values()):
        if callback.rewinds:
            check_numbered(data, "callback.divergence.action=rewind")
    if not is_plain(data, module):
        return list(callbacks.values())
    readers = [callback for callback in asked_callbacks(callbacks.values()) if callback.needs_batches]
    for callback in (reader for reader in readers if reader.instead):
        problem = f"{type(callback).__name__} needs global batches, and {type(module).__name__}"
        raise ValueError(f"{problem} is trained by Lightning's own loop: {callback.instead}")
    log.warning("%s", limits_of_plain(data, module))
    return [LightningLoop(), *(callback for callback in callbacks.values() if callback not in readers)]


def finish(data: Any, module: Any, trainer: Any, run: Run, saver: Any, pruned: bool) -> dict[str, float]:
    """Exports and reports a trained run, on every rank; returns its final metrics."""
    import torch

    from tiryns.runner.inference.export import export_model
    from tiryns.runner.loop.lightning_loop import plain_results
    from tiryns.runner.manifest.record import complete_manifest
    from tiryns.runner.report.single import write_report
    from tiryns.runner.report.summary import end_summary

    weights = None if pruned else module.gathered_weights()
    if torch.distributed.is_initialized():  # its threads may abort a process that ends
        torch.distributed.destroy_process_group()
    results: dict[str, Any] = {**(module.results() or plain_results(trainer)), **saver.results()}
    for callback in asked_callbacks(trainer.callbacks):
        results |= callback.results(trainer)
    if trainer.is_global_zero:
        if not pruned:
            export_model(module, preprocessor_of(data), run, results, weights, known_task(data))
            complete_manifest(run)
        state = "pruned" if pruned else "done"
        run.advance(step=trainer.global_step, results=results)
        write_report(run.path, state)
        end_summary(run.path, results, state)
        run.end(state)  # last: a run that is killed before goes on here when it is resumed
    return results


if __name__ == "__main__":
    with without_teardown():
        commands.main(["train", *sys.argv[1:]])
