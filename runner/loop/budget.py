"""Counts the steps of a run with a budget once, when the run begins; afterwards the budget is a number of steps.

Tokens and FLOPs are counted without training.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from omegaconf import DictConfig

from tiryns.conf.trainer import BUDGETS
from tiryns.runner.data.micro_batch import Share
from tiryns.runner.models.flops import step_flops
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.samplers.base import PROVISIONAL, SeamlessSampler
from tiryns.runner.samplers.mixed import Mixed
from tiryns.runner.samplers.phased import Phased

if TYPE_CHECKING:
    from tiryns.runner.data.module import GlobalBatchDataModule

COUNTED = 16
"""Number of first global batches to read, if lengths of samples do not determine the cost of a step."""

BLOCK = 1 << 20
"""Samples whose lengths are read at once."""

Cost = Callable[[NDArray[np.int64]], float]
"""A function from the indices of samples to their total cost."""


class Budget(NamedTuple):
    """A setting of BUDGETS and its value."""

    name: str
    amount: float

    def __str__(self) -> str:
        return f"{self.name} {self.amount:,.15g}"


def budget_of(trainer: Mapping[str, Any]) -> Budget | None:
    """Returns the budget of a trainer config; None without a budget, or once its steps are counted."""
    budgets = [Budget(name, float(trainer[name])) for name in BUDGETS if trainer.get(name) is not None]
    return budgets[0] if budgets else None


def check_warmups(config: DictConfig, why: str, **others: float | None) -> None:
    """Raises ValueError if a warm-up of batch size or sample length is a share of the steps, which are not counted yet.

    `others` maps further settings to the lengths of their warm-ups; `why` follows "is a share" in the message.
    """
    steps = {
        "data.length_warmup_steps": config.data.get("length_warmup_steps"),
        "sampler.warmup_steps": batch_warmup_steps(config.sampler),
        **others,
    }
    for name, length in steps.items():
        if length and length < 1:
            raise ValueError(f"{name}={length} is a share {why}: give a number of steps")


def batch_warmup_steps(sampler: Mapping[str, Any]) -> float | None:
    """Returns the length in steps of a sampler's batch-size warm-up; None if it has none, or has one in tokens."""
    return sampler.get("warmup_steps") if sampler.get("warmup_tokens") is None else None


def settle(trainer: DictConfig, steps: int) -> None:
    """Replaces the budget in a trainer config by its number of steps."""
    trainer.max_steps = steps
    trainer.update(dict.fromkeys(BUDGETS))


def steps_within(
    budget: Budget, data: Any, model: TaskModel | None, first: int = 0, setting: str | None = None
) -> int:
    """Returns how many global batches of connected data, from number `first` on, fit a budget of tokens or FLOPs.

    Tokens are counted from the order and the lengths of samples. FLOPs of targets and images are estimated from the
    first batches, and so is every cost of a stream. Raises ValueError, which names the `setting`, for a budget below one
    step, and for data whose batches are unknown before training.
    """
    assignment = f"{setting or f'trainer.{budget.name}'}={budget.amount:.15g}"
    if not data.tells_batches:
        raise ValueError(
            f"{assignment}: {type(data).__name__} does not tell how many steps that is; give a number of steps"
        )
    if budget.name == "max_flops" and model is None:
        raise ValueError("trainer.max_flops: its steps were not recorded, and counting them needs the model")
    counter = model if budget.name == "max_flops" else None
    if data.streamed:
        spent = list(
            accumulate(
                share["tokens"] if counter is None else step_flops(counter, counter.flop_counts(), share)
                for share in _first_batches(data)
            )
        )
        steps = bisect_right(spent, budget.amount)
        if steps == len(spent):  # they do not use up the budget: the others cost as these do on average
            steps = min(PROVISIONAL, int(budget.amount / spent[-1] * len(spent)))
    else:
        steps = _last_step(budget.amount, data, counter, first) - first
    if steps < 1:
        raise ValueError(
            f"{assignment} is less than the first global batch takes; give more, or a smaller sampler.global_batch_size"
        )
    return steps


def last_steps_within(tokens: float, data: Any, first: int, last: int) -> int:
    """Returns how many of the last global batches in [first, last) of connected data have at most `tokens` tokens in all.

    A stream is estimated from its first batches. Raises ValueError as `steps_within` does.
    """
    if not data.tells_batches or data.streamed:
        return steps_within(Budget("max_tokens", tokens), data, None)
    cost, spent = _cost_of_samples(data, None), 0.0
    for step in reversed(range(first, last)):
        spent += cost(data.sampler.global_batch(step)[:, 1], step)
        if spent > tokens and step + 1 == last:
            raise ValueError(f"{tokens:.15g} tokens are less than the last global batch takes")
        if spent > tokens:
            return last - step - 1
    return last - first


def _last_step(amount: float, data: "GlobalBatchDataModule", model: TaskModel | None, begun: int) -> int:
    """Returns the first step beyond a budget that begins at step `begun`, or beyond the run; for numbered samples.

    The last batches are added up in their order, earlier ones by whole epochs.
    """
    cost, first, spent = _cost_of_samples(data, model), begun, 0.0
    if isinstance(data.sampler, SeamlessSampler | Mixed | Phased) and not data.length_warmup:
        first, spent = _nearly(amount, data, data.sampler, cost, begun)
    for step in range(first, len(data.sampler)):
        spent += cost(data.sampler.global_batch(step)[:, 1], step)
        if spent > amount:
            return step
    return len(data.sampler)


def _cost_of_samples(data: "GlobalBatchDataModule", model: TaskModel | None) -> Callable[..., float]:
    """Returns a function from sample indices and a step to the samples' cost; without a step it takes full lengths.

    The cost is in tokens. With a `model` it is in FLOPs; each token then includes an average share of targets and images.
    """
    per_token, per_pair = 1.0, 0.0
    if model is not None:
        counts, first = model.flop_counts(), list(_first_batches(data))
        tokens, pairs = (sum(share[name] for share in first) for name in ("tokens", "token_pairs"))
        others = sum(step_flops(model, counts, share) for share in first) - counts.step(tokens, pairs, 0)
        per_token, per_pair = counts.per_token + others / tokens, counts.per_pair

    def cost(indices: NDArray[np.int64], step: int | None = None) -> float:
        warmup = data.length_warmup
        sequences = warmup.at(step, data.train) if warmup and step is not None else data.train
        lengths = sequences.lengths(indices).astype(np.int64)
        return per_token * int(lengths.sum()) + per_pair * int((lengths**2).sum())

    return cost


def _nearly(
    amount: float,
    data: "GlobalBatchDataModule",
    order: SeamlessSampler | Mixed | Phased,
    cost: Cost,
    begun: int,
) -> tuple[int, float]:
    """Returns a step just within the budget, and the cost up to this step; an order of one set is a mixture of it."""
    if isinstance(order, SeamlessSampler):
        starts, orders, parts = np.zeros(1, int), [order], np.ones(1, int)
    else:
        starts, orders, parts = order.starts, order.orders, order.parts_at(begun)
    sizes = np.diff([*starts, len(data.train)])
    epochs = [
        _in_blocks(np.arange, start, start + size, cost) for start, size in zip(starts, sizes, strict=True)
    ]

    def until(step: int) -> float:
        total = 0.0
        counts = [order.samples_before(step)] if isinstance(order, SeamlessSampler) else order.counts(step)
        for one, start, size, epoch, count in zip(orders, starts, sizes, epochs, counts, strict=True):
            whole, rest = divmod(int(count), int(size))
            total += whole * epoch + _in_blocks(partial(_indices, one, whole * size, start), 0, rest, cost)
        return total

    before = until(begun) if begun else 0.0
    a_draw = sum(np.array(epochs) / sizes * parts) / sum(parts)
    step = order.steps_within(order.samples_before(begun) + int(0.999 * amount / a_draw))
    step = min(begun + PROVISIONAL, step)
    while (taken := until(step) - before) > amount:
        step = begun + max(0, int(0.99 * (step - begun)) - 1)
    return step, taken


def _indices(order: SeamlessSampler, first: int, shift: int, start: int, stop: int) -> NDArray[np.int64]:
    """Returns samples [start, stop) of a source, counted from `first`, as indices into the samples of all sources."""
    indices: NDArray[np.int64] = order.samples(first + start, first + stop)[:, 1] + shift
    return indices


def _in_blocks(indices: Callable[[int, int], NDArray[np.int64]], start: int, stop: int, cost: Cost) -> float:
    """Returns the cost of the samples that `indices` gives for [start, stop), a block at a time."""
    blocks = (indices(first, min(first + BLOCK, stop)) for first in range(start, stop, BLOCK))
    return sum(map(cost, blocks))


def _first_batches(data: "GlobalBatchDataModule") -> Iterator[Share]:
    batches = data.train_batches(0, 1)
    shares: Iterator[Share] = iter(batches) if data.streamed else (batches[step] for step in range(COUNTED))
    return islice(shares, COUNTED)
