"""What `auto` of precision, micro-batches and compilation comes to, and that a trial leaves no trace in the run."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._inductor.runtime.runtime_utils import cache_dir

from tests.conftest import TINY
from tests.runs.test_train import assert_bitwise
from tiryns import assemble, compose
from tiryns.runner.data.module import TOKENS_OF_CPUS
from tiryns.runner.loop import resolved as resolving
from tiryns.runner.loop.resolved import Record, resolve
from tiryns.runner.loop.trials import LARGEST, SMALLEST, fitting_tokens

AUTO = "data.micro_batch_tokens=auto"


@pytest.fixture
def parts(text_file: Any) -> Callable[..., Any]:
    """The parts of a run with some settings, and its config."""

    def made(*words: str) -> Any:
        config = compose(*TINY, f"data.source={text_file}", *words)
        return assemble(config), config

    return made


def test_micro_batches_stay_as_the_run_began(parts: Callable[..., Any]) -> None:
    made, config = parts(AUTO, "module.compile_model=auto")
    before = {"micro_batch_tokens": 700, "compile": True, "precision": "32-true"}
    values = resolve(config, config, before, made.data, made.module)
    assert (made.data.micro_batch_tokens, made.module.compile_model) == (700, True)
    assert (values["micro_batch_tokens"], values["compile"]) == (700, True)
    given, config = parts("data.micro_batch_tokens=90", "module.compile_model=false")
    values = resolve(config, config, before, given.data, given.module)
    assert (values["micro_batch_tokens"], values["compile"]) == (90, False)


@pytest.mark.parametrize("room", [LARGEST, 1100, 20])
def test_trial_halves_until_it_fits_and_leaves_no_trace(
    parts: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    made, _ = parts(AUTO, "model.dropout=0.1", "sampler.global_batch_size=80")
    model, seen = made.module.model, []
    forward = model.forward

    def short_of_memory(micro_batch: Any) -> Any:
        seen.append(micro_batch["input_ids"].numel())
        if seen[-1] > room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(micro_batch)

    monkeypatch.setattr(model, "forward", short_of_memory)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    torch.manual_seed(1)
    state = torch.get_rng_state()
    tokens = fitting_tokens(made.module, made.data, torch.device("cpu"), "bf16-mixed", ranks=1)
    assert torch.equal(state, torch.get_rng_state())
    assert_bitwise(before, model.state_dict())
    assert all(p.grad is None for p in model.parameters())
    assert made.data.micro_batch_tokens == TOKENS_OF_CPUS
    whole = 1 << (made.data.train_batches(0, 1)[0]["padded_tokens"] - 1).bit_length()
    fitting = [size for size in seen if size <= room]
    assert all(size > room for size in seen[:-1])
    assert tokens == (whole >> len(seen) - 1 if fitting else SMALLEST)
    assert len(seen) == {LARGEST: 1, 1100: 2, 20: 3}[room]


def test_ranks_take_the_smallest_micro_batch(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    alike = {"precision": "32-true", "micro_batch_tokens": 8192}
    monkeypatch.setattr(torch.distributed, "all_gather_object", lambda found, mine: found.__setitem__(
        slice(None), [dict(mine), {**mine, "micro_batch_tokens": 2048}]
    ))  # fmt: skip
    noted: list[Any] = []
    monkeypatch.setattr(resolving, "note", lambda folder, values: noted.append(values))
    data = SimpleNamespace(fitted=True, micro_batch_tokens=8192)
    trainer: Any = SimpleNamespace(world_size=2, datamodule=data, default_root_dir=tmp_path)
    record = Record(dict(alike))
    record.on_fit_start(trainer, Any)  # type: ignore[arg-type]
    assert (
        data.micro_batch_tokens
        == noted[0]["micro_batch_tokens"]
        == record.resolved["micro_batch_tokens"]
        == 2048
    )
    data.fitted = False
    with pytest.raises(
        ValueError, match=r"micro_batch_tokens 8192, rank 1 with 2048: .* set data\.micro_batch"
    ):
        Record(dict(alike)).on_fit_start(trainer, Any)  # type: ignore[arg-type]


@pytest.mark.slow
def test_models_of_long_runs_on_a_gpu_are_compiled(parts: Callable[..., Any]) -> None:
    long = f"trainer.max_steps={resolving.COMPILED_STEPS}"
    cases: list[tuple[list[str], str, bool]] = [
        ([long], "gpu", True),
        ([long, "model.architecture=electra"], "gpu", True),  # whose config has a rate of another head
        ([long], "cpu", False),
        ([long, "model.dropout=0.1"], "gpu", False),
        (["trainer.max_steps=12"], "gpu", False),
    ]
    for words, accelerator, expected in cases:
        made, config = parts("module.compile_model=auto", "data.micro_batch_tokens=90", *words)
        assert made.module.compile_model is False, "nobody has chosen yet"
        config.trainer.accelerator = accelerator
        assert resolve(config, config, {}, made.data, made.module)["compile"] is expected
        assert made.module.compile_model is expected


def test_compiled_code_is_kept_for_the_next_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    resolving.keep_compiled(str(tmp_path))
    assert cache_dir() == str(tmp_path / "compiled")
    resolving.keep_compiled(str(tmp_path / "other"))
    assert cache_dir() == str(tmp_path / "compiled"), "what the user has set stays"
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")


@pytest.mark.slow
def test_trainer_of_a_gpu_is_one_option() -> None:
    gpu = compose("trainer=gpu")
    chosen = gpu.data.micro_batch_tokens, gpu.data.num_workers, gpu.module.compile_model
    assert chosen == ("auto", 4, "auto")
    assert (gpu.trainer.precision, gpu.trainer.matmul_precision) == ("auto", "high")
    given = compose("trainer=gpu", "data.num_workers=2", "module.compile_model=false")
    assert (given.data.num_workers, given.module.compile_model) == (2, False)
    task = compose("trainer=gpu", "experiment=classification")
    assert (task.data.micro_batch_tokens, task.data.num_workers) == ("auto", 4)
    plain = compose()
    assert (plain.data.num_workers, plain.module.compile_model) == (1, False)
    assert plain.trainer.matmul_precision == "highest"
