"""`tiryns consolidate CHECKPOINT TARGET`: exports the model of any checkpoint, sharded or not.

CHECKPOINT is `<run>/checkpoints/step-<n>.ckpt` (or `best.ckpt`, `last.ckpt`), or a run folder for its newest one. The run
may be training, or stopped. Its data must still exist. If the run keeps a running average of its weights (`module.ema`,
optimizer=splus), `--weights` chooses the average or the trained weights; the default is what the run exports.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from tiryns.runner.config.run_config import recorded_config
from tiryns.runner.run.command.json_output import print_json
from tiryns.runner.run.folder import Run


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    add = parser.add_argument
    add("checkpoint", type=Path, metavar="CHECKPOINT", help="a checkpoint, or a run folder")
    add("target", type=Path, metavar="TARGET", help="the folder to write")
    about = "raw: the trained weights, ema: their running average (default: what the run exports)"
    add("--weights", choices=("raw", "ema"), help=about)
    about = "settings of the run that let code of others run, such as allowed_targets=[mine]"
    add("allowed", nargs="*", metavar="SETTING=VALUE", help=about)


def main(arguments: Namespace) -> None:
    """Writes the folder and prints its path."""
    target = consolidate(arguments.checkpoint, arguments.target, arguments.allowed, arguments.weights)
    if arguments.json:
        print_json({"checkpoint": arguments.checkpoint, "target": target})
    else:
        print(target)


def consolidate(
    checkpoint: Path, target: Path, allowed: Sequence[str] = (), weights: str | None = None
) -> Path:
    """Writes model, tokenizer and model card to the folder `target`.

    `allowed` repeats settings of another user's run that let code of others run; `weights` is `raw`, `ema`, or None for
    what the run exports. Raises ValueError for an invalid checkpoint or target, OSError if it cannot write the target.
    """
    if target.exists():
        raise ValueError(f"{str(target)!r} is there already; choose a folder that is not")
    run = Run(_checkpoint_path(checkpoint).parent.parent)
    from tiryns.runner.checkpoints.files import AtomicCheckpointIO, read_while_training
    from tiryns.runner.evaluation.totals import LabelledSet
    from tiryns.runner.inference.card import model_card
    from tiryns.runner.inference.export import write_model
    from tiryns.runner.inference.passes import as_resolved, device_here, passes
    from tiryns.runner.loop.assembly import assemble, known_task, preprocessor_of
    from tiryns.runner.loop.phases import take_over
    from tiryns.runner.models.initial.dtypes import weights_dtype
    from tiryns.runner.optim.hooks import exported_weights

    config = recorded_config(run.path, allowed)
    began = config.get("resolved") or {}
    take_over(config, began)
    parts = assemble(config, began)
    data, module = parts.data, parts.module
    if not module.trains_global_batches:
        problem = f"{str(run.path)!r} trains a LightningModule of its own, {type(module).__name__}"
        raise ValueError(f"{problem}: load its checkpoint with load_from_checkpoint")
    state = read_while_training(
        lambda: [_checkpoint_path(checkpoint)], lambda paths: AtomicCheckpointIO().load_checkpoint(paths[0])
    )
    parts.begin_step(max(0, int(state["global_step"]) - 1))
    module.to(weights_dtype(config.trainer.get("precision"))).load_state_dict(state["state_dict"])
    optimizer = module.make_optimizer(model=module.model)
    optimizer.load_state_dict(state["optimizer_states"][0])
    preprocessor = preprocessor_of(data)
    card = model_card(module.model, preprocessor, run, {}, int(state["global_step"]))
    target.parent.mkdir(parents=True, exist_ok=True)
    with exported_weights(optimizer, weights):
        if data.collator.needs_validation:  # such as thresholds, which no checkpoint has
            sequences, how = next(iter(data.validation.values())), as_resolved(began)
            chooser = LabelledSet(module.make_predictions(sequences), calibrating=True)
            model = module.model.to(device_here()).eval()
            for batch in passes(model, data.collator, sequences, how._replace(layout=data.layout)):
                chooser.add(batch.micro_batch, batch.output)
            chooser.finish(lambda mine: [mine], lambda sums: sums)
        return write_model(module.model, preprocessor, target, card, None, known_task(data))


def _checkpoint_path(checkpoint: Path) -> Path:
    """Returns the path of a checkpoint, or of the newest complete one of a run folder; raises ValueError without one."""
    if checkpoint.suffix == ".ckpt" and checkpoint.exists():
        return checkpoint.resolve()
    from tiryns.runner.checkpoints.callback import newest_checkpoint
    from tiryns.runner.checkpoints.files import damage_of

    if checkpoint.is_dir() and (point := newest_checkpoint(checkpoint / "checkpoints")):
        return point.path
    if files := sorted((checkpoint / "checkpoints").glob("step-*.ckpt")):
        newest = f"{files[-1].name}: {damage_of(files[-1])}"
        raise ValueError(f"every checkpoint in {str(checkpoint)!r} is damaged; the newest is {newest}")
    hint = "expected <run>/checkpoints/step-<n>.ckpt or a run folder"
    raise ValueError(f"there is no checkpoint in {str(checkpoint)!r}: {hint}")
