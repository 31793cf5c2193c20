"""The base class of data modules: global batches in an exact order, validation sets by name, exact resume."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader

from tiryns.conf.data.common import Batching
from tiryns.conf.phases import Phase, place_of
from tiryns.conf.trainer import check_length
from tiryns.runner import log
from tiryns.runner.data.batches import (
    MASK_STREAM,
    VALIDATION_STREAM,
    GatheredSequences,
    GlobalBatches,
    LengthWarmup,
    PhaseCollators,
    PhaseParts,
)
from tiryns.runner.data.micro_batch import Collate, Share
from tiryns.runner.data.replicas import replica_of
from tiryns.runner.data.workers import StepLoader, StepSampler
from tiryns.runner.order.timeline import Pairs, merge, number_of, pairs_before
from tiryns.runner.protocols import Resolved, RunData
from tiryns.runner.samplers import GlobalBatchSampler, LengthGrouped, Sequential
from tiryns.runner.samplers.base import Fingerprint, SeamlessSampler, differences
from tiryns.runner.samplers.mixed import SKIPPED, Joined, Mixed, Remaining, whole_order
from tiryns.runner.samplers.phased import PHASES, Draws, Phased

TOKENS_OF_CPUS = 4096
"""Tokens of a micro-batch for `auto` on a CPU: few enough for its cache, enough to outweigh the cost of a call."""


class GlobalBatchDataModule(pl.LightningDataModule, RunData):
    """Serves `train` and `validation` sequences as global batches; a subclass makes them in `prepare_data`."""

    serves_global_batches = tells_batches = True
    phase_groups: tuple[str, ...] = ("sampler", "objective")
    evaluation_batch_size: int | None = None
    """Samples of an evaluation that are sorted by length together; None for as many as a global batch has."""
    settings: Batching
    train: GatheredSequences
    validation: Mapping[str, GatheredSequences]

    def __init__(self, settings: Batching) -> None:
        super().__init__()
        self.settings = settings
        self.layout, self.num_workers = settings.layout, settings.num_workers
        self.micro_batch_size, tokens = settings.micro_batch_size, settings.micro_batch_tokens
        self.micro_batch_tokens: Any = TOKENS_OF_CPUS if tokens == "auto" else tokens
        """Tokens of a micro-batch; None sets no bound."""
        self.start = 0
        self.skipped: Pairs = []
        self.length_warmup: LengthWarmup | None = None
        self.phases: list[Phase] = []
        """The phases of the run as they are given; set before `prepare_data`."""
        self.parts: Sequence[PhaseParts] = ()
        self.cuts: dict[int, int] = {}
        """Steps in which the epochs of parents ended, with the number of samples that they trained there."""
        self.end: dict[int, int] = {}
        """The step in which this run's epochs end, with the number of its samples."""
        self.changed: dict[str, object] = {}
        """The checkpoint's values of data and order that differ from this run's, if `accept_changes` is set."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Returns a hash of the data, which must be the same to resume."""

    def lineage(self) -> dict[str, object]:
        """Fingerprints of the sets of samples and of their order, for the run's manifest."""
        sets = {**self.validation, **self.test}
        fingerprints = {name: getattr(samples, "fingerprint", None) for name, samples in sets.items()}
        digests = {name: digest for name, digest in fingerprints.items() if isinstance(digest, str)}
        changes = {"changed": self.changed} if self.changed else {}
        return {
            "data": self.fingerprint(), "evaluation": digests, "order": self.order_fingerprint(), **changes
        }  # fmt: skip

    @property
    def whole(self) -> GatheredSequences:
        """The training samples that a run without phases has; they come first in `train`."""
        return self.train

    def order_fingerprint(self) -> Fingerprint:
        """Returns the settings that decide the samples of each step; a resume compares them."""
        warmup = self.length_warmup
        return {**self.sampler.fingerprint(), **({"length_warmup": warmup.fingerprint()} if warmup else {})}

    def connect(
        self,
        make_sampler: Callable[..., GlobalBatchSampler],
        collator: Collate,
        max_steps: int,
        max_epochs: float | None,
        seed: int,
        accept_changes: bool,
        skip_batches: Pairs | None = None,
        parts: Sequence[PhaseParts] = (),
        leave_out: Callable[[GlobalBatchSampler], GlobalBatchSampler] | None = None,
    ) -> int:
        """Sets sampler and collator; returns the number of steps. Raises ValueError for a run without a length.

        Later global batches replace the skipped ones, `skip_batches`, so that number of steps and schedule stay the same.
        `parts` are the phases of the run. `leave_out` returns the sampler without some samples.
        """
        self.collator, self.seed, self.accept_changes, self.parts = collator, seed, accept_changes, parts
        check_length(max_steps, max_epochs)
        self.sampler = self._in_phases(self._sampler(make_sampler, max_steps, max_epochs))
        self.skipped = merge(skip_batches) if skip_batches else []
        if self.skipped:
            num_steps = len(self.sampler)
            make_more = partial(make_sampler, **self.sampler.length_settings())
            more = self._sampler(make_more, number_of(num_steps, self.skipped), None)
            self.sampler = Remaining(self._in_phases(more), self.skipped, num_steps)
        for step, count in self.cuts.items():
            missing = len(self.sampler.global_batch(step - 1)) - count if step < len(self.sampler) else 0
            if missing > 0 and isinstance(whole_order(self.sampler), SeamlessSampler | Mixed | Phased):
                self.sampler = Joined(self.sampler, step, count)
            elif missing > 0:
                log.warning("the parent run ended in step %d: %d samples are not trained on", step, missing)
        if not self.streamed and self.sampler.num_epochs is not None:
            last = len(self.sampler)
            self.end = {last: len(self.sampler.global_batch(last - 1))}
        if leave_out is not None:
            self.sampler = leave_out(self.sampler)
        self.length_warmup = self._length_warmup(len(self.sampler))
        return len(self.sampler)

    def take_over(self, record: Resolved) -> None:
        self.cuts, self.spent = dict(record.get("cuts") or ()), record.get("spent")

    def decisions(self) -> Mapping[str, Any]:
        """Returns the steps in which epochs have ended or will end, with the number of their samples."""
        cuts = {**self.cuts, **self.end}
        return {"cuts": [[step, count] for step, count in cuts.items()]} if cuts else {}

    def _length_warmup(self, max_steps: int) -> LengthWarmup | None:
        """Returns the length warm-up of the training samples; None unless a subclass has one."""
        return None

    def _sampler(
        self, make_sampler: Callable[..., GlobalBatchSampler], max_steps: int, max_epochs: float | None
    ) -> GlobalBatchSampler:
        length = (None, max_steps) if max_steps > 0 else (max_epochs, None)
        return make_sampler(dataset=self.whole, num_epochs=length[0], num_batches=length[1])

    def _in_phases(self, whole: GlobalBatchSampler) -> GlobalBatchSampler:
        """Returns the order `whole` with the phases of the run. ValueError if phases cannot divide that order."""
        if not self.parts:
            return whole
        orders, draws = self._draws(whole)
        places = [n for n, part in enumerate(self.parts) if part.make_sampler or draws[n].shares]
        seamless = isinstance(whole, SeamlessSampler | Mixed) and not isinstance(whole, LengthGrouped)
        if places and not seamless:
            group = "sampler" if self.parts[places[0]].make_sampler else "data"
            raise ValueError(
                f"{place_of(places[0], self.parts[places[0]].name)}.{group}: {type(whole).__name__} makes batches of all "
                "samples together, and can change neither data nor batch size during a run: choose sampler=shuffled, "
                "growing or sequential"
            )
        return Phased(whole, orders, draws) if seamless else whole  # type: ignore[arg-type]

    @property
    def phased_order(self) -> Phased | None:
        """The order of a run with phases, before batches are skipped; None if the order has no phases."""
        order = whole_order(self.sampler)
        return order if isinstance(order, Phased) else None

    def _draws(self, whole: GlobalBatchSampler) -> tuple[list[SeamlessSampler], list[Draws]]:
        """Returns the order of each set of training samples, and for each phase how it draws from these sets."""
        draws = [Draws(part.steps, (0,), (1,), None, self._sizes(part, self.whole)) for part in self.parts]
        return [cast(SeamlessSampler, whole)], draws

    def _sizes(self, part: PhaseParts, samples: GatheredSequences) -> SeamlessSampler | None:
        """Returns a sampler of `samples` with the phase's batch sizes; None if the phase has the run's sizes."""
        if part.make_sampler is None:
            return None
        sampler = part.make_sampler(dataset=samples, num_epochs=None, num_batches=part.steps)
        return cast(SeamlessSampler, sampler)

    def epoch_at(self, step: int) -> float:
        """Returns the passes over the training set after `step` global batches, or the sum over the phases' own sets."""
        return whole_order(self.sampler).epochs_before(number_of(step, self.skipped))

    @property
    def validation_names(self) -> list[str]:  # type: ignore[override]
        """The validation sets, in the order of their loaders."""
        return list(self.validation)

    def train_dataloader(self) -> DataLoader[Share]:
        """Returns a loader that starts at the first global batch that is not yet consumed."""
        assert self.trainer is not None
        return self._loader(self.train_batches(*replica_of(self.trainer)[:2]), self.start, self.num_workers)

    def transfer_batch_to_device(self, batch: object, device: torch.device, dataloader_idx: int) -> Any:
        """Returns the batch on `device`; on a CPU it is returned as it is."""
        if device.type == "cpu":
            return batch
        return super().transfer_batch_to_device(batch, device, dataloader_idx)

    def train_batches(self, rank: int, num_ranks: int) -> GlobalBatches:
        """Returns the shares of the global batches for one of `num_ranks` ranks."""
        phases = PhaseCollators(self.parts, self.collator) if self.parts else None
        arguments = (self.collator, self.seed, MASK_STREAM, rank, num_ranks, *self.partitioning)
        return GlobalBatches(self.train, self.sampler, *arguments, self.length_warmup, phases)

    def val_dataloader(self) -> list[DataLoader[Share]]:
        """Returns one loader per validation set; all ranks together read every sample once."""
        return self.evaluation_loaders(self.validation)

    def evaluation_loaders(self, sets: Mapping[str, GatheredSequences]) -> list[DataLoader[Share]]:
        """Returns one loader per set. All replicas together read every sample once; ranks of a replica read the same."""
        assert self.trainer is not None
        place = replica_of(self.trainer)[:2]
        return [self._loader(self.evaluation_batches(sequences, *place), 0, 0) for sequences in sets.values()]

    def evaluation_batches(self, sequences: GatheredSequences, rank: int, num_ranks: int) -> GlobalBatches:
        """Returns the shares of the batches of an evaluated set, for one of `num_ranks` ranks."""
        most = min(self.evaluation_batch_size or self.sampler.global_batch_size, len(sequences))
        order = Sequential(sequences, 1, None, most, self.seed)
        arguments = (self.collator, self.seed, VALIDATION_STREAM, rank, num_ranks, *self.partitioning)
        return GlobalBatches(sequences, order, *arguments)

    def state_dict(self) -> dict[str, Any]:
        """Returns the number of consumed global batches, and the fingerprints of order and data."""
        assert self.trainer is not None
        return {
            "global_batches": self.trainer.global_step,
            "sampler": self._order_until(self.trainer.global_step),
            "data": self.fingerprint(),
        }

    def _order_until(self, step: int) -> Fingerprint:
        """Returns the sampler's fingerprint, with only those skipped global batches that lie before `step`, and only the
        phases that have begun."""
        fingerprint, pairs = self.order_fingerprint(), pairs_before(step, self.skipped)
        entries = {name: value for name, value in fingerprint.items() if name not in (SKIPPED, PHASES)}
        if (order := self.phased_order) is not None:
            entries |= order.begun(number_of(step, self.skipped))
        return {**entries, **({SKIPPED: pairs} if pairs else {})}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resumes after the global batches of a checkpoint; ValueError for another order unless changes are accepted."""
        run = {"data": self.fingerprint(), **self._order_until(state["global_batches"])}
        checkpoint = {"data": state["data"], **state["sampler"]}
        if names := [n for n in {**checkpoint, **run} if run.get(n) != checkpoint.get(n)]:
            message = f"the checkpoint belongs to another sample order: {differences(checkpoint, run)}"
            if not self.accept_changes:
                raise ValueError(f"{message}. To go on all the same, set resume_changed_data=true")
            log.warning("%s; going on all the same", message)
            self.changed = {name: checkpoint.get(name) for name in names}
        self.start = state["global_batches"]

    @property
    def partitioning(self) -> tuple[int | None, int | None, bool]:
        """`micro_batch_tokens`, `micro_batch_size` and `packed` of `GlobalBatches`."""
        size = 1 if self.layout == "single" else self.micro_batch_size
        return self.micro_batch_tokens, size, self.layout == "packed"

    def _loader(self, batches: GlobalBatches, start: int, num_workers: int) -> DataLoader[Share]:
        assert self.trainer is not None
        pin_memory = self.trainer.strategy.root_device.type == "cuda"
        steps = StepSampler(start, len(batches))
        return StepLoader(batches, num_workers, sampler=steps, pin_memory=pin_memory)
