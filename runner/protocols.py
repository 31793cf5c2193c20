"""The attributes and methods, besides Lightning's own, that a run uses on its parts; with defaults.

Parts of this project inherit these classes; a class of the user's own gets the defaults when it is built.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import Any, ClassVar

NOTHING: Mapping[str, Any] = MappingProxyType({})

State = dict[str, Any]
"""The content of a checkpoint, or the state of one part of a run in a checkpoint."""

Resolved = dict[str, Any]
"""The resolved value of every setting that is `auto`, by name; `runner.loop.resolved.resolve` lists the names."""


class RunData:
    """What a run reads and calls on a LightningDataModule."""

    serves_global_batches = False
    """Whether the data's `connect` cuts it into global batches, as `runner.data.module.GlobalBatchDataModule` does."""
    tells_batches = False
    """Whether `train_batches(rank, num_ranks)` can return a rank's shares of the global batches before training."""
    streamed = False
    """Whether training samples are read as a stream, in which samples have no index."""
    layout: str | None = None
    """Layout of a batch: `padded`, `packed` or `single`; None if the data makes batches in a layout of its own."""
    micro_batch_tokens: Any = None
    micro_batch_size: Any = None
    fitted = False
    """Whether `micro_batch_tokens` are what fits into the memory of this rank's device."""
    accept_changes = False
    """Whether a run may resume with changed data, as set by `resume_changed_data`."""
    spent: Mapping[str, float] | None = None
    """Steps, tokens and FLOPs of the checkpoint that a branch with other batches starts from; None for other runs."""
    phase_groups: tuple[str, ...] = ()
    """Groups of settings that phases may change."""
    stores: Sequence[Any] = ()
    """The prepared sets of samples that `train` joins; may be empty if there is only one."""
    needed_tokens: Sequence[str] = ()
    """Special tokens that the tokenizer must have; set before data is prepared."""
    tokenizer: Any = None
    preprocessor: Any = None
    """The processor exported with the model, if it is more than the tokenizer."""
    train: Any = None
    """The training samples; a set of samples has `len`, `gather` and `lengths`."""
    train_set: Any = None
    """The labelled training examples."""
    validation: Mapping[str, Any] = NOTHING
    test: Mapping[str, Any] = NOTHING
    validation_names: Sequence[str] | None = None
    """The validation sets in the order of their loaders; None if unknown."""
    task_name: Any = None
    """The name of the task of labelled data."""

    def train_batches(self, rank: int, num_ranks: int) -> Any:
        """Returns a rank's share of each global batch, by step; only for data with `tells_batches`."""
        raise NotImplementedError

    @property
    def validation_shares(self) -> Mapping[str, float]:
        """The share of the training tokens that each validation set stands for: its weight in the loss of a mixture."""
        return NOTHING

    @property
    def phased_order(self) -> Any:
        """The order of samples of a run with phases; None if the order is not divided by phases."""
        return None

    def take_over(self, record: Resolved) -> None:
        """Restores the decisions that a resumed run made at its start; called before any data is read."""

    def has_targets(self, sequences: Any) -> bool:
        """Whether an evaluated set has figures; a few short texts may have no masked token, and so none."""
        return True

    def decisions(self) -> Mapping[str, Any]:
        """Returns the decisions made while reading the data, which a resumed run restores."""
        return NOTHING

    def baselines(self) -> Mapping[str, float]:
        """Returns metrics of the data to compare results with."""
        return NOTHING

    def token_baselines(self) -> Mapping[str, float]:
        """Returns entropies of the tokens, to compare with a loss in nats per token."""
        return NOTHING

    def known_task(self) -> Mapping[str, Any]:
        """Returns the task settings that are needed to predict on other data."""
        return NOTHING

    def lineage(self) -> Mapping[str, Any]:
        """Returns fingerprints of samples and order, for the manifest."""
        return NOTHING

    def length_of(self, phase: Any) -> int | None:
        """Returns the length of samples in a phase; None if unknown."""
        return None

    def describe(self) -> Mapping[str, str]:
        """Facts for the summary at the start."""
        return class_of(self)


class RunObjective:
    """What a run reads and calls on an objective, besides the methods of `runner.objectives.Collator`."""

    built_with: ClassVar[tuple[str, ...]] = ()
    """Settings that the model is built with, which cannot change during a run."""
    adds_networks: ClassVar[bool] = False
    """Whether the task model trains networks besides the model of transformers."""

    @property
    def needs_validation(self) -> str | None:
        """The setting whose value is chosen on a validation set; None if there is no such setting."""
        return None

    def rate_at(self, progress: float) -> float | None:
        """Returns the masking rate when a share `progress` of the run is done; None without masking."""
        return None

    def targets_per_token(self, progress: float) -> float:
        """Returns the expected number of the head's targets for each token: the masking rate, or 1 without masking."""
        rate = self.rate_at(progress)
        return 1.0 if rate is None else rate


class RunModule:
    """What a run reads and calls on a LightningModule.

    `model` is no attribute here: a default of the class would hide a submodule of that name.
    """

    trains_global_batches = False
    """Whether each step trains on one global batch, as in `runner.modules.TrainingModule`."""
    compile_model = False
    """Whether the model is still to be compiled."""
    settings: Any = None
    log_every = 1
    """Steps between two lines of the log."""
    best_step: int | None = None
    """The step of the evaluated weights if they are not the last weights, else None."""
    validated_step = -1
    """The step of the last validation."""
    baselines: Mapping[str, float] = NOTHING
    """Metrics of the data to compare results with."""

    def figure_names(self, sequences: object) -> Sequence[str]:
        """Returns the names of a validation set's metrics; the first chooses the best checkpoint. Empty if unknown."""
        return ()

    def after_training(self, folder: Any) -> None:
        """Runs the final evaluation and writes the final files of a run; all ranks must call it."""

    def gathered_weights(self) -> dict[str, Any] | None:
        """Returns the weights to export if each rank has a shard of them, else None; collective."""
        return None

    def evaluation_weights(self) -> AbstractContextManager[None]:
        """Returns a context in which the model has the weights to evaluate and export."""
        return nullcontext()

    def end_evaluation(self) -> None:
        """Switches back to the weights that are trained; may be repeated."""

    def results(self) -> Mapping[str, float]:
        """Returns the results of a run; if empty, they are the metrics that Lightning logged last."""
        return NOTHING

    def describe(self) -> Mapping[str, str]:
        """Facts for the summary at the start."""
        num_trainable = sum(p.numel() for p in self.parameters() if p.requires_grad)  # type: ignore[attr-defined]
        return {**class_of(self), "parameters": f"{num_trainable:,} trainable"}


class RunCallback:
    """The attributes and methods that a run and other callbacks use on a callback of Lightning."""

    rewinds = False
    """Whether the callback rewinds a run whose loss has diverged."""
    needs_batches = False
    """Whether the callback needs global batches, which Lightning's own loop does not have."""
    instead = ""
    """What to do instead in Lightning's own loop, which refuses the callback; empty: the callback is left out."""

    @property
    def other_losses(self) -> Collection[int]:
        """Steps at which a phase with another loss begins."""
        return ()

    @property
    def names_of_ends(self) -> Mapping[int, str]:
        """Last steps of phases, with the names of their checkpoints."""
        return {}

    def metrics(self) -> Mapping[str, float]:
        """Metrics for the log of a step."""
        return NOTHING

    def after_training(self, trainer: Any, module: Any) -> None:
        """Runs after the final evaluation, when the results of the run are known; all ranks must call it."""

    def results(self, trainer: Any) -> Mapping[str, float]:
        """Returns metrics for the results of the run."""
        return NOTHING


class RunLogger:
    """What a run calls on a logger of Lightning."""

    def resume(self, step: int) -> None:
        """Drops the rows after a step, which the resumed run writes again."""

    def mark_preempting(self) -> None:
        """Tells the logging service that the run stops now and will be resumed."""


BY_GROUP: Mapping[str, type] = {"data": RunData, "module": RunModule, "logger": RunLogger}
"""The class with the defaults of each group. Callbacks get no defaults: a run uses only those that are `RunCallback`s."""


def with_defaults(target: object, group: str | None) -> Any:
    """Returns a class of a group with defaults for missing attributes; `target` itself if it has all or is no class.

    Example:
        >>> class Mine:
        ...     layout = "padded"
        >>> found = with_defaults(Mine, "data")()
        >>> found.layout, found.streamed, isinstance(found, Mine)
        ('padded', False, True)
    """
    protocol = BY_GROUP.get(group or "")
    if protocol is None or not isinstance(target, type) or issubclass(target, protocol):
        return target
    namespace = {name: getattr(target, name) for name in ("__module__", "__qualname__", "__doc__")}
    metaclass: Any = type(target)
    return metaclass(target.__name__, (target, protocol), namespace)


def asked_callbacks(callbacks: Iterable[Any]) -> list[Any]:
    """Returns the callbacks that are `RunCallback`s, which Lightning's own are not."""
    return [callback for callback in callbacks if isinstance(callback, RunCallback)]


def class_of(part: object) -> dict[str, str]:
    """Returns the class of a part, for a summary."""
    return {"class": f"{type(part).__module__}.{type(part).__qualname__}"}
