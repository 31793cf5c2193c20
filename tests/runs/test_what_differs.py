"""What each setting of a run changes, and what it leaves as it was: the twin of every test that equal things stay equal.

`TABLE` is the contract: a row for what is changed, a column for what is looked at. The parts are those that `assemble`
makes, batches come through the data module's own loaders, and dropout is seen at work in steps under a Trainer. The order
alone is held fixed, where a sample is followed from one step to the next.
"""

import re
from collections.abc import Callable, Mapping
from copy import copy, deepcopy
from functools import cache
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.strategies import SingleDeviceStrategy
from numpy.typing import NDArray

from tests.conftest import TINY
from tests.support.composed import composed
from tiryns.runner.loop.assembly import Parts, assemble
from tiryns.runner.loop.trainer import quiet_libraries
from tiryns.runner.models.pretraining.enhanced import visible_pairs
from tiryns.runner.objectives.rows import IGNORED
from tiryns.runner.samplers import GlobalBatchSampler

TABLE = """
changed          weights  held out  order    masks    replaced  times    strata   pairs    dropout  drawn    digest
nothing          stays    stays     stays    stays    stays     stays    stays    stays    stays    stays    stays
seed             changes  stays     changes  changes  changes   changes  changes  changes  changes  changes  changes
sampler.seed     stays    stays     changes  stays    stays     stays    stays    stays    stays    stays    stays
data.seed        stays    changes   -        -        -         -        -        -        -        stays    -
step             stays    stays     changes  stays    stays     changes  changes  stays    changes  changes  stays
epoch            stays    stays     changes  changes  changes   changes  stays    changes  changes  stays    changes
rank             stays    stays     stays    stays    stays     stays    stays    stays    stays    changes  stays
stream           stays    stays     -        changes  changes   changes  -        changes  -        -        changes
workers          stays    stays     stays    stays    stays     stays    stays    stays    stays    stays    stays
micro-batches    stays    stays     stays    stays    stays     stays    stays    stays    stays    stays    stays
"""
"""`-`: not to be compared. Another `data.seed` holds out other documents, so that the samples are others; validation has
no order of its own, no strata and no dropout.

weights   the initial weights                     strata    which equal part of all times a sample's lies in
held out  the documents of the validation set     pairs     which tokens the enhanced decoder sees
order     the samples of a step of an epoch       dropout   what a training step drops of a sample
masks     which tokens of a sample are masked     drawn     what a training step has of torch's generator, by which
replaced  what the model sees in place of them              samples without a key are dropped
times     the times of masked diffusion           digest    the hash of a step in `order.txt`
"""


class Setting(NamedTuple):
    """What is asked of a run: overrides of its config, and the place in it that is looked at."""

    overrides: tuple[str, ...] = ()
    step: int = 0
    epoch: int = 0
    rank: int = 0
    num_ranks: int = 1
    stream: str = "training"


CHANGED = {
    "nothing": Setting(("seed=42",)), "seed": Setting(("seed=43",)),
    "sampler.seed": Setting(("sampler.seed=43",)), "data.seed": Setting(("data.seed=43",)),
    "step": Setting(step=1), "epoch": Setting(epoch=1), "rank": Setting(rank=1, num_ranks=2),
    "stream": Setting(stream="validation"), "workers": Setting(("data.num_workers=1",)),
    "micro-batches": Setting(("data.micro_batch_size=2",)),
}  # fmt: skip
PROBED = 12
"""Samples that are followed: the longest, of which many tokens are masked."""
FIXED = [
    "data.layout=padded", "data.micro_batch_tokens=null", "model.dropout=0.1", "trainer.log_every=99",
    "trainer.max_steps=60",
]  # fmt: skip
"""Rows that are samples; steps for three epochs."""
DIFFUSION = ["objective.evaluation_copies=1", "objective.num_steps=1000000"]
"""A row for each sample in validation too, and times so close that a stratum can be told from them."""


class TheSame(GlobalBatchSampler):
    """The longest samples at every step, of one epoch."""

    def __init__(self, epoch: int, dataset: Any, length: int) -> None:
        super().__init__(dataset, None, length, PROBED, seed=0)
        longest = np.argsort(-dataset.lengths(np.arange(len(dataset))), kind="stable")[:PROBED]
        self.samples = np.stack([np.full(PROBED, epoch), longest], axis=1)

    def __len__(self) -> int:
        return int(self.num_batches or 0)

    def global_batch(self, step: int) -> NDArray[np.int64]:
        return self.samples


class OneOfSeveral(SingleDeviceStrategy):
    """Runs alone, and takes itself for the given rank."""

    def __init__(self, rank: int) -> None:
        super().__init__("cpu")
        self.rank = rank

    @property
    def global_rank(self) -> int:
        return self.rank

    @global_rank.setter
    def global_rank(self, rank: int) -> None: ...


@pytest.fixture(scope="module")
def assembled(text_file: Path) -> Callable[..., Parts]:
    """The parts of a tiny run with further overrides."""

    def build(objective: str, *overrides: str) -> Parts:
        own = DIFFUSION if objective == "diffusion" else []
        words = [*TINY, *FIXED, *own, f"data.source={text_file}", f"objective={objective}", *overrides]
        return assemble(composed(words))

    return build


def loader_of(parts: Parts, at: Setting, rank: int) -> Any:
    """The loader of a rank, with the same samples at every step."""
    data = copy(parts.data)
    same = TheSame(at.epoch, data.train, length=at.step + 1)
    strategy = SimpleNamespace(root_device=torch.device("cpu"))
    data.trainer = SimpleNamespace(global_rank=rank, world_size=at.num_ranks, strategy=strategy)
    if at.stream == "validation":
        loader = data.val_dataloader()[0]
        loader.dataset.sampler, loader.dataset.sequences = same, data.train
        return loader
    data.sampler = same
    return data.train_dataloader()


def batch_of(parts: Parts, at: Setting, rank: int) -> dict[str, Any]:
    """The share that a rank is given of a step."""
    return next(islice(loader_of(parts, at, rank), at.step, None))


def by_sample(batch: dict[str, Any], read: Callable[[dict[str, Any], int], Any]) -> dict[str, Any]:
    """What `read` finds in the row of each sample, by the sample's index."""
    rows = [(micro, row) for micro in batch["micro_batches"] for row in range(len(micro["input_ids"]))]
    indices = batch["sample_ids"][:, 1].tolist()
    return {str(index): read(*row) for index, row in zip(indices, rows, strict=True)}


def masked_places(micro: dict[str, Any], row: int) -> list[int]:
    return (micro["labels"][row] != IGNORED).nonzero().flatten().tolist()


def replaced(micro: dict[str, Any], row: int) -> list[int]:
    return micro["input_ids"][row, masked_places(micro, row)].tolist()


def time_of(micro: dict[str, Any], row: int) -> float:
    """Each masked token weighs 1/t, in validation ordinary tokens / masked ones."""
    first = int((micro["labels"][:row] != IGNORED).sum())
    return round(1 / float(micro["target_weights"][first]), 6)


def stratum(micro: dict[str, Any], row: int) -> int:
    """Which of `PROBED` parts of the times from the first, 0.1, to 1."""
    return int((time_of(micro, row) - 0.1) / 0.9 * PROBED)


def visible(micro: dict[str, Any], row: int) -> bytes:
    length = int(micro["attention_mask"][row].sum())
    return visible_pairs(micro["row_seeds"][row : row + 1, :length], 0.5).numpy().tobytes()


def drawn_tensors(state: Mapping[str, torch.Tensor]) -> dict[str, bytes]:
    """The tensors that are drawn; those of ones and zeros are the same in every run."""
    return {name: t.numpy().tobytes() for name, t in state.items() if len(t.unique()) > 2}


def held_out(parts: Parts, at: Setting) -> bytes:
    sequences = parts.data.validation["held_out"]
    return sequences.gather(np.arange(len(sequences)))[0].tobytes()


def order(parts: Parts, at: Setting) -> list[int]:
    """The samples of a step, counted from the beginning of its epoch."""
    sampler = parts.data.sampler
    stream = np.concatenate([sampler.global_batch(step) for step in range(len(sampler))])
    size = sampler.global_batch_size
    return stream[stream[:, 0] == at.epoch, 1][at.step * size : (at.step + 1) * size].tolist()


def digest(parts: Parts, at: Setting) -> list[int]:
    """Its two halves, each added up over the ranks."""
    shares = [batch_of(parts, at, rank) for rank in range(at.num_ranks)]
    return [sum(share[half] for share in shares) for half in ("hash_low", "hash_high")]


def trained(parts: Parts, at: Setting) -> tuple[dict[str, bytes], list[float]]:
    """What the first dropout of a training step drops of each sample of a rank's share, and what torch draws there."""
    module, batch = deepcopy(parts.module), batch_of(parts, at, at.rank)
    outputs, draws = list[torch.Tensor](), list[list[float]]()

    def note(_: torch.nn.Module, __: Any, out: torch.Tensor) -> None:
        outputs.append(out == 0)
        draws.append(torch.rand(4).tolist())

    next(m for m in module.modules() if isinstance(m, torch.nn.Dropout)).register_forward_hook(note)
    quiet_libraries()
    trainer = Trainer(
        max_steps=at.step + 1, strategy=OneOfSeveral(at.rank), logger=False, limit_val_batches=0,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(module, loader_of(parts, at, at.rank))
    count = len(batch["micro_batches"])
    for micro, zeros in zip(batch["micro_batches"], outputs[-count:], strict=True):
        micro["dropped"] = zeros
    return by_sample(batch, dropped), draws[-count]


def dropped(micro: dict[str, Any], row: int) -> bytes:
    length = int(micro["attention_mask"][row].sum())
    return micro["dropped"][row, :length].numpy().tobytes()


WHOLE: dict[str, Callable[[Parts, Setting], Any]] = {
    "held out": held_out, "order": order, "drawn": lambda parts, at: trained(parts, at)[1], "digest": digest
}  # fmt: skip
OF_SAMPLES = {
    "masks": masked_places, "replaced": replaced, "times": time_of, "strata": stratum, "pairs": visible
}  # fmt: skip
OBJECTIVES = {"weights": "enhanced_mlm", "times": "diffusion", "strata": "diffusion", "pairs": "enhanced_mlm"}


@pytest.fixture(scope="module")
def look(assembled: Callable[..., Parts]) -> Callable[[str, Setting], dict[str, Any]]:
    """What a column of the table shows of a setting, by sample or by tensor where there are several."""
    kept = cache(assembled)

    def seen(column: str, at: Setting) -> dict[str, Any]:
        parts = kept(OBJECTIVES.get(column, "mlm"), *at.overrides)
        if column == "weights":
            return drawn_tensors(parts.module.state_dict())
        if column == "dropout":
            return trained(parts, at)[0]
        if column in WHOLE:
            return {column: WHOLE[column](parts, at)}
        return by_sample(batch_of(parts, at, at.rank), OF_SAMPLES[column])

    return cache(seen)


def cells() -> list[tuple[str, str, str]]:
    """(what is changed, what is looked at, stays or changes) of every cell but those not to be compared."""
    head, *lines = [re.split(r"  +", line) for line in TABLE.strip().splitlines()]
    return [
        (row, column, expected)
        for row, *found in lines
        for column, expected in zip(head[1:], found, strict=True)
        if expected != "-"
    ]


@pytest.mark.filterwarnings("ignore:You defined a `validation_step`")
@pytest.mark.parametrize(("row", "column", "expected"), cells())
def test_a_change_shows_where_the_table_says_and_nowhere_else(
    look: Callable[[str, Setting], dict[str, Any]], row: str, column: str, expected: str
) -> None:
    base, other = look(column, Setting()), look(column, CHANGED[row])
    common = base.keys() & other.keys()
    assert common
    different = sorted(name for name in common if base[name] != other[name])
    if expected == "stays":
        assert not different
    else:
        assert len(different) > len(common) / 2, f"{len(different)} of {len(common)} changed: {different}"


def test_validation_alone_is_an_evaluation(assembled: Callable[..., Parts]) -> None:
    """Masked diffusion trains on a sample at one time of its grid, and evaluates it at several, without noise."""
    parts = assembled("diffusion", "objective.evaluation_copies=3", "objective.num_steps=2")
    training, validation = (
        batch_of(parts, Setting(stream=stream), 0)["micro_batches"][0]
        for stream in ("training", "validation")
    )
    assert (len(training["input_ids"]), len(validation["input_ids"])) == (PROBED, 3 * PROBED)
    assert training["target_weights"].unique().tolist() == pytest.approx([1, 10])
    assert len(validation["target_weights"].unique()) > 2
