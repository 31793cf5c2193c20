"""`trainer.precision=auto` on a CPU: what a step takes in each precision, timed once for a machine and a model."""

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import TINY
from tests.runs.test_train import assert_bitwise
from tiryns import assemble, compose
from tiryns.runner.data.text.pretraining import PretrainingData
from tiryns.runner.loop import trials as timed
from tiryns.runner.loop.resolved import choose_hardware, resolve
from tiryns.runner.models import SparseMaskedLM
from tiryns.runner.models.autocast import NARROW, is_slower
from tiryns.runner.patches.torch import processor

AUTO = "trainer.precision=auto"
BF16, FP32 = "bf16-mixed", "32-true"


@pytest.fixture(autouse=True)
def units(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A CPU with units for bf16 and no AMX, and a cache of its own."""
    monkeypatch.setenv("TIRYNS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(processor, "has_avx512_bf16", lambda: True)
    monkeypatch.setattr(processor, "has_amx", lambda: False)


@pytest.fixture
def timings(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The seconds that a trial finds, which a test may change, and under `trials` how many there were."""
    found = {BF16: 1.0, FP32: 1.0, "trials": 0.0}

    def told(precisions: Any, *_: Any) -> dict[str, float]:
        time.sleep(0.05)
        found["trials"] += 1
        return {name: found[name] for name in precisions}

    monkeypatch.setattr(timed, "_seconds", told)
    return found


@pytest.fixture
def chosen(text_file: Path) -> Callable[..., str]:
    """The precision that a run with these words comes to."""

    def come_to(*words: str) -> str:
        asked = compose(*TINY, f"data.source={text_file}", AUTO, *words)
        config, made = choose_hardware(asked, {}), assemble(asked)
        return str(resolve(asked, config, {}, made.data, made.module)["precision"])

    return come_to


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    ("has_amx", "bf16", "fp32", "expected"),
    [
        (False, 1, 0.95, BF16),
        (False, 1, 0.85, FP32),
        (False, 1, 3, BF16),
        (True, 0.95, 1, FP32),
        (True, 0.85, 1, BF16),
    ],
)
def test_other_precision_is_taken_where_it_is_clearly_faster(
    timings: dict[str, float], chosen: Callable[..., str], monkeypatch: pytest.MonkeyPatch,
    has_amx: bool, bf16: float, fp32: float, expected: str,
) -> None:  # fmt: skip
    """By the rule this narrow model is fp32 on a CPU with AMX, else bf16."""
    monkeypatch.setattr(processor, "has_amx", lambda: has_amx)
    assert [is_slower(width) for width in (NARROW - 64, NARROW, None)] == [has_amx, False, False]
    timings |= {BF16: bf16, FP32: fp32}
    assert chosen() == expected


@pytest.mark.slow
def test_verdict_is_kept_for_the_model_and_the_threads(
    timings: dict[str, float], chosen: Callable[..., str], tmp_path: Path
) -> None:
    timings[FP32] = 0.5
    assert chosen() == FP32
    timings[FP32] = 2.0
    assert chosen("optimizer.lr=0.1", "model.dropout=0.1") == FP32, "the jobs of a sweep take it over"
    assert timings["trials"] == 1
    assert chosen("model.hidden_size=48") == BF16
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        assert chosen() == BF16
    finally:
        torch.set_num_threads(threads)
    assert timings["trials"] == 3
    assert chosen() == FP32
    for file in (tmp_path / "cache" / "precision").glob("*.json"):
        assert json.loads(file.read_text())["seconds"][BF16] == 1.0
        file.write_text("{")
    assert chosen() == BF16, "a file that cannot be read is made again"


@pytest.mark.slow
def test_processes_that_ask_at_once_have_one_answer(timings: dict[str, float], text_file: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        runs = [assemble(compose(*TINY, AUTO, f"data.source={text_file}")) for _ in range(3)]
        jobs = [pool.submit(timed._best_precision, [BF16, FP32], r.data, r.module, 1, None) for r in runs]
        assert [r.result() for r in jobs] == [BF16] * 3
    assert timings["trials"] == 1


@pytest.mark.slow
def test_rule_holds_where_a_step_cannot_be_timed(
    timings: dict[str, float], chosen: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    timings[FP32] = 0.1
    for part, name in ((PretrainingData, "streamed"), (SparseMaskedLM, "couples_batch")):
        with monkeypatch.context() as patched:
            patched.setattr(part, name, True, raising=False)
            assert chosen() == BF16
    with monkeypatch.context() as patched:
        patched.setattr(timed, "num_nodes", lambda trainer: 2)
        assert chosen() == BF16, "the caches of nodes may say different things"
    assert timings["trials"] == 0
    (tmp_path / "cache").mkdir(exist_ok=True)
    (tmp_path / "cache" / "precision").write_text("no folder")
    assert chosen() == BF16
    (tmp_path / "cache" / "precision").unlink()
    assert chosen() == FP32


@pytest.mark.slow
def test_neither_gpus_nor_processors_without_units_are_timed(
    timings: dict[str, float], chosen: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "has_bf16", lambda: False)
    assert chosen() == FP32
    assert chosen("trainer.precision=bf16-mixed") == BF16
    assert timings["trials"] == 0


@pytest.mark.rows(1)
@pytest.mark.parametrize("precision", [BF16, FP32])
def test_trial_times_both_passes_of_fewer_tokens_of_a_large_model(
    text_file: Path, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    made = assemble(compose(*TINY, f"data.source={text_file}", AUTO, "data.micro_batch_tokens=4096"))
    before = {name: value.clone() for name, value in made.module.state_dict().items()}
    modes = [part.training for part in made.module.modules()]
    tokens, largest = list[int](), timed.largest_micro_batch

    def noted(*given: Any) -> Any:
        found = largest(*given)
        tokens.append(found["input_ids"].numel())
        return found

    monkeypatch.setattr(timed, "largest_micro_batch", noted)
    assert timed._seconds([precision], made.data, made.module, 1)[precision] > 0
    assert_bitwise(before, made.module.state_dict())
    assert all(p.grad is None for p in made.module.parameters())
    assert [part.training for part in made.module.modules()] == modes
    monkeypatch.setattr(timed, "FLOPS", 0.0)
    monkeypatch.setattr(timed, "SMALLEST", 60)
    timed._seconds([precision], made.data, made.module, 1)
    assert tokens[1] <= 60 < tokens[0]
    assert made.data.micro_batch_tokens == 4096
