"""What a seed gives, pinned as numbers: no upgrade may change an order, a mask or the format of `order.txt` unseen.

Keyed numbers and permutations are pinned in tests/order/test_keyed.py and tests/loaders/test_multi_epoch.py.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.conftest import few_of
from tests.golden import (
    PRETRAINING,
    RECIPES,
    ROUNDING,
    STEPS,
    golden_file,
    golden_losses,
    golden_run,
    made_by,
    read_golden,
    rounding,
)
from tests.objectives.samples import END, START, collator, flat
from tests.samplers.sequences import Sequences
from tests.support.processes import warm_process
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.packed.dropout_keys import DropoutKeys, number_modules
from tiryns.runner.modules.base import step_seed
from tiryns.runner.order.partition import partition
from tiryns.runner.run.environment import machine
from tiryns.runner.samplers import GlobalBatchSampler, LengthGrouped, Shuffled, SplitModality

ORDER = """\
1 8d855e9699fd
2 9d80cdfbd4f2
3 471482b42d7a
4 874d6eec9b8b
"""
GOLDEN_TOKENS = [314584089397695746, -2171436173760735421, -6003899057851831767, 1417192746121779585]
LENGTHS = np.arange(100) * 37 % 91 + 1


INSTRUCTIONS = {
    "ONEDNN_MAX_CPU_ISA=AVX2": ("avx2", "AVX2"),
    "ONEDNN_MAX_CPU_ISA=AVX512_CORE": ("avx512f", "AVX-512 with AVX512BW"),
    "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16": (
        "avx512_bf16",
        "AVX-512 with Intel DL Boost and bfloat16 support$",
    ),
    "ONEDNN_MAX_CPU_ISA=AVX512_CORE_AMX": ("amx_bf16", "AMX"),
    "ATEN_CPU_CAPABILITY=avx2": ("avx2", ""),
    "ATEN_CPU_CAPABILITY=avx512": ("avx512f", ""),
    "MKL_ENABLE_INSTRUCTIONS=AVX2": ("avx2", ""),
}
"""Limits on kernels: what the processor needs for each, and what oneDNN then calls its instructions."""


@pytest.mark.parametrize("recipe", RECIPES)
def test_order_and_losses_never_change(recipe: str, tmp_path: Path, text_file: Path) -> None:
    """To the bit on a processor that losses were written on, and everywhere to rounding those in fp64."""
    run = golden_run(recipe, tmp_path, text_file)
    if recipe == "mlm":
        assert (run.path / "order.txt").read_text().startswith(ORDER)
    losses = golden_losses(run)
    assert len(set(losses)) == STEPS
    assert losses == pytest.approx(in_fp64(recipe), rel=ROUNDING["32-true"])
    maker, expected = read_golden(golden_file(recipe))
    assert maker != made_by() or losses == expected


def in_fp64(recipe: str) -> list[float]:
    return read_golden(golden_file(recipe, "64-true"))[1]


@pytest.mark.rows(1)
@pytest.mark.parametrize("precision", ["64-true", "bf16-mixed"])
@pytest.mark.parametrize("recipe", few_of(RECIPES, ["multiple_choice"]))
def test_losses_in_fp64_and_bf16_never_change(
    recipe: str, precision: str, tmp_path: Path, text_file: Path
) -> None:
    run = golden_run(recipe, tmp_path, text_file, f"trainer.precision={precision}")
    assert golden_losses(run) == pytest.approx(in_fp64(recipe), rel=rounding(precision))


@pytest.mark.slow
@pytest.mark.parametrize("recipe", few_of(RECIPES, ["multiple_choice"]))
def test_golden_runs_do_not_amplify_rounding(recipe: str, tmp_path: Path, text_file: Path) -> None:
    """Initial weights that are larger by .0001 change losses, and none by as much."""
    larger = ("trainer.precision=64-true", "model.config={initializer_range:0.020002}")
    losses = golden_losses(golden_run(recipe, tmp_path, text_file, *larger))
    changes = [abs(loss / golden - 1) for loss, golden in zip(losses, in_fp64(recipe), strict=True)]
    assert 1e-8 < max(changes) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("recipe", few_of(RECIPES, ["multiple_choice"]))
def test_golden_losses_tell_a_rate_that_is_a_hundredth_higher(
    recipe: str, tmp_path: Path, text_file: Path
) -> None:
    rate = 0.00303 if recipe in PRETRAINING else 0.00101
    losses = golden_losses(golden_run(recipe, tmp_path, text_file, f"optimizer.lr={rate}"))
    assert losses != pytest.approx(in_fp64(recipe), rel=ROUNDING["32-true"])


def test_losses_hold_with_instructions_of_older_processors(tmp_path: Path) -> None:
    """Those of the class avx2, as far from AMX as a processor of today may be."""
    fp32 = "test_order_and_losses_never_change[token_classification]"
    fp64 = "test_losses_in_fp64_and_bf16_never_change[token_classification-64-true]"
    isa = golden_tests_pass(tmp_path, [fp32, fp64], ONEDNN_MAX_CPU_ISA="AVX2", ATEN_CPU_CAPABILITY="avx2")
    assert "AVX-512" not in isa
    assert "AMX" not in isa


@pytest.mark.slow
@pytest.mark.parametrize("limit", INSTRUCTIONS)
def test_losses_hold_with_each_set_of_instructions(limit: str, tmp_path: Path) -> None:
    needed, isa = INSTRUCTIONS[limit]
    if needed not in machine()["features"]:
        pytest.skip(f"the processor has no {needed}")
    name, _, value = limit.partition("=")
    tests = ["test_order_and_losses_never_change", "test_losses_in_fp64_and_bf16_never_change"]
    assert re.search(isa, golden_tests_pass(tmp_path, tests, **{name: value}))


def golden_tests_pass(folder: Path, tests: list[str], **limits: str) -> str:
    """Runs tests of this file in a process with limits on kernels, and returns what oneDNN calls its instructions."""
    options = ["-s", "-q", "-m", "", "-p", "no:cacheprovider", f"--basetemp={folder / 'runs'}"]
    names = [f"{__file__}::{test}" for test in tests]
    words = ("-m", "pytest", *options, *names)
    limits |= {"ONEDNN_VERBOSE": "profile_create", "HYPOTHESIS_PROFILE": "repeatable"}
    done = warm_process(*words, cwd=folder, **limits)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    found = re.search(r"onednn_verbose\S*,cpu,isa:(.*)", done.stdout)
    return found[1] if found else ""


@pytest.mark.parametrize(
    ("make", "further", "first", "later"),
    [
        (Shuffled, {}, [41, 23, 15, 71, 79, 93], [1, 60, 87, 20, 27, 63]),
        (LengthGrouped, {"pool_batches": 3}, [45, 77, 82, 58, 4, 73], [14, 51, 29, 93, 81, 22]),
        (
            SplitModality,
            {"image_patches": 10, "drop_last": False},
            [9, 54, 24, 27, 45, 66],
            [21, 84, 99, 54, 96, 24],
        ),
    ],
)
def test_orders_of_the_samplers_never_change(
    make: type[GlobalBatchSampler], further: dict[str, Any], first: list[int], later: list[int]
) -> None:
    sampler = make(Sequences(LENGTHS, np.arange(100) % 3 == 0), 2, None, 6, 7, **further)
    assert [sampler.global_batch(step)[:, 1].tolist() for step in (0, 20)] == [first, later]


@pytest.mark.parametrize(
    ("objective", "hashes"),
    [
        ("mlm", (29494912, 40469641)),
        ("enhanced_mlm", (16584313, 28237189)),
        ("diffusion", (42783561, 40864664)),
    ],
)
def test_hashes_of_known_samples_never_change(objective: str, hashes: tuple[int, int]) -> None:
    texts = [np.array([START, *range(5 + 20 * i, 15 + 21 * i), END]) for i in range(4)]
    batch = collator(objective)(flat(texts, batch_size=4, batch_key=11, batch_places=np.arange(4)))
    assert (batch["hash_low"], batch["hash_high"]) == hashes


@pytest.mark.parametrize(
    ("packed", "expected"),
    [
        (False, [[[7], [2], [9, 4]], [[11, 6], [1, 8, 3], [10, 5, 0]]]),
        (True, [[[7, 4], [11, 8, 3, 0]], [[2, 9], [6, 1, 10, 5]]]),
    ],
)
def test_cuts_of_a_global_batch_never_change(packed: bool, expected: list[list[list[int]]]) -> None:
    shares = partition(LENGTHS[:12], 2, 150, 4, packed)
    assert [[rows.tolist() for rows in rank] for rank in shares] == expected


def test_seeds_of_dropout_never_change() -> None:
    assert [step_seed(42, step, rank) for step, rank in ((0, 0), (1, 0), (0, 1), (10**6, 7))] == [
        4724518948847375502, 9143889921795064059, 3420961620015455101, 8234502724331592564,
    ]  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
def test_keys_of_dropout_never_change(packed: bool) -> None:
    texts = [np.array([START, 9, 10, END]), np.array([START, END])]
    keys = DropoutKeys(collator("mlm")(flat(texts, packed=packed)), seed=step_seed(42, 3, 0))
    assert keys.tokens[:4].tolist() == GOLDEN_TOKENS
    assert keys.samples.tolist() == [GOLDEN_TOKENS[0], 2743109689809433271]
    module = torch.nn.Dropout()
    number_modules(torch.nn.Sequential(module))
    calls = [keys.of_elements(module, torch.Size([len(keys.tokens), 2])) for _ in range(2)]
    assert [bits[0].tolist() for bits in calls if bits is not None] == [[-9729, 8252], [-10063, 3866]]


def test_bits_of_dropout_never_change() -> None:
    micro_batch: MicroBatch = {"sample_keys": torch.tensor([11, -12]), "input_ids": torch.zeros(2, 3)}
    keys, module = DropoutKeys(micro_batch, step_seed(42, 1, 0)), torch.nn.Dropout()
    module.dropout_salt = 5  # type: ignore[assignment]
    elements = keys.of_elements(module, torch.Size((2, 3, 8)))
    assert elements is not None
    assert elements[:, 2].tolist() == [
        [-4244, 13111, -16267, -5263, -9336, -31466, -23591, -5493],
        [-16333, 21951, -3510, -11866, 21578, 2320, 8885, 12699],
    ]
    weights = keys.of_weights(keys.of_queries(module).view(2, 3), 2, 3)
    assert weights[1].tolist() == [
        [[-11630, 28245, -28741], [7019, -10036, -11888], [5354, -25736, -15831]],
        [[-119, 2580, 20552], [30863, 7621, 27606], [-5908, -165, -9509]],
    ]
