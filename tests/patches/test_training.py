"""What is patched in libraries of training is still needed, and does what it says."""

import atexit
import copy
import inspect
import pkgutil
import subprocess
import sys
from collections import OrderedDict
from importlib.metadata import requires
from typing import Any

import pytest
import torch
import transformers
from datasets import Dataset
from datatrove.executor.base import PipelineExecutor
from megatron.energon.wrappers.packing_dataset import PackingDataset
from packaging.requirements import Requirement
from torch import nn
from torch.utils.data import DataLoader

from tests.conftest import ROOT
from tests.support.precision import pretend_units
from tiryns.runner.optim import get_optimizer
from tiryns.runner.patches import transformers as attention
from tiryns.runner.patches.datasets import fingerprint_of
from tiryns.runner.patches.optuna import id_in_storage
from tiryns.runner.patches.torch import flash, foreach, loaders, processor, trees
from tiryns.runner.patches.torch.modules import shallow_copy, share_parts
from tiryns.runner.patches.torch.optimizers import changes, unscales_itself


def public(module: Any) -> list[str]:
    return [name for name in dir(module) if not name.startswith("_")]


def test_torch_still_names_operations_on_lists_privately() -> None:
    values = [torch.tensor([3.0, 4.0]), torch.tensor([1.0])]
    foreach.mul_(values, 2.0)
    assert [float(norm) for norm in foreach.norm(values)] == [10.0, 2.0]
    foreach.lerp_(values, [torch.zeros(2), torch.zeros(1)], 0.5)
    foreach.copy_(values[1:], [torch.tensor([7.0])])
    assert [value.tolist() for value in values] == [[3.0, 4.0], [7.0]]
    needs = (Requirement(line) for line in requires("tiryns") or ())
    admitted = next(need.specifier for need in needs if need.name == "torch")
    assert "2.14" in admitted, "foreach.py: from 2.15 on `torch.foreach` is public"


def test_torch_still_has_no_public_flash_attention_with_its_sums() -> None:
    query = torch.randn(1, 2, 8, 16)
    out, sums = flash.flash(query, query, query)[:2]
    torch.testing.assert_close(out, nn.functional.scaled_dot_product_attention(query, query, query))
    assert sums.shape == (1, 2, 8)
    named = [name for name in public(nn.functional) + public(nn.attention) if "flash" in name.lower()]
    assert not [name for name in named if "forward" in name or "backward" in name], "flash.py"


@pytest.mark.parametrize("name", ["muon", "normuon"])
def test_products_of_muon_are_in_fp32_where_the_cpu_has_no_units_for_bf16(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def moved(bf16: bool) -> torch.Tensor:
        pretend_units(monkeypatch, bf16)
        torch.manual_seed(0)
        weight = nn.Parameter(torch.randn(16, 24))
        optimizer = get_optimizer(name, [("layer.0.weight", weight)], {"lr": 1.0, "weight_decay": 0.0})
        (weight * torch.randn(16, 24)).sum().backward()
        with torch.no_grad():
            weight.zero_()
        optimizer.step()
        return weight.detach()

    rounded, exact = moved(bf16=True), moved(bf16=False)
    assert 1e-4 < float((rounded - exact).norm() / exact.norm()) < 0.03
    if name == "muon":
        assert not torch.equal(exact, exact.bfloat16().float())
        assert torch.equal(rounded, rounded.bfloat16().float())


def test_units_for_bf16_are_the_same_by_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    known = processor.has_amx(), processor.has_avx512_bf16()
    with monkeypatch.context() as without:
        without.setattr(processor, "_capabilities", lambda: None)
        assert (processor.has_amx(), processor.has_avx512_bf16()) == known
    for unit, has in (("amx_tile", processor.has_amx), ("avx512_bf16", processor.has_avx512_bf16)):
        for value in (True, False):
            monkeypatch.setattr(torch.cpu, "get_capabilities", {unit: value}.copy, raising=False)
            assert has() is value
    assert "torch>=2.10," in (ROOT / "pyproject.toml").read_text(), (
        "processor.py: does the oldest torch tell?"
    )


def test_torch_still_has_no_public_leaves_of_trees() -> None:
    assert trees.tree_leaves({"a": [1, (2, {"b": 3})]}) == [1, 2, 3]
    assert not any(module.name == "pytree" for module in pkgutil.iter_modules(torch.utils.__path__)), (
        "trees.py"
    )


def test_versions_of_parts_are_lost_unless_they_are_kept() -> None:
    state = nn.BatchNorm1d(2).state_dict()
    kept: OrderedDict[str, Any] = OrderedDict(state)
    assert not hasattr(kept, "_metadata"), "keep_versions"
    trees.keep_versions(kept, state)
    assert kept._metadata == state._metadata  # type: ignore[attr-defined]
    trees.keep_versions({}, {})


def test_copy_of_a_module_still_shares_its_parts() -> None:
    module = nn.Sequential(nn.Identity())
    copy.copy(module)[0] = nn.Tanh()
    assert isinstance(module[0], nn.Tanh), "copied"
    other = shallow_copy(module)
    other[0] = nn.ReLU()
    assert [type(module[0]), type(other[0])] == [nn.Tanh, nn.ReLU]
    empty = nn.Sequential()
    share_parts(empty, module)
    assert empty[0] is module[0]


def test_torch_still_counts_changes_of_a_tensor_privately() -> None:
    tensor = torch.zeros(2)
    foreach.mul_([tensor], 2.0)
    assert changes(tensor) == 1
    assert not [name for name in public(torch.Tensor) if "version" in name], "optimizers.py"


def test_fused_optimizers_unscale_themselves() -> None:
    weight = nn.Parameter(torch.ones(1))
    fused, plain = (torch.optim.AdamW([weight], fused=fused) for fused in (True, False))
    assert (unscales_itself(fused), unscales_itself(plain)) == (True, False)
    assert not hasattr(fused, "step_supports_amp_scaling"), "optimizers.py"


@pytest.mark.slow
def test_processes_of_a_loader_are_listed_and_end() -> None:
    numbers: Any = list(range(8))
    loader: Any = DataLoader(numbers, num_workers=2, persistent_workers=True)
    assert loaders.running(loader) is None
    iterator = iter(loader)
    next(iterator)
    processes = loaders.processes_of(loaders.running(loader))
    assert [process.is_alive() for process in processes] == [True, True]
    assert not any("worker" in name or "close" in name for name in public(iterator)), "loaders.py"
    loaders.close(loader)
    assert not any(process.is_alive() for process in processes)
    iterator = iter(loader)
    processes = loaders.processes_of(iterator)
    loaders.kill(iterator)
    loaders.forget(loader)
    assert not any(process.is_alive() for process in processes)
    assert len(list(loader)) == 8


def test_transformers_still_tells_the_attention_privately() -> None:
    config = transformers.BertConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    model = transformers.BertModel(config)
    model.set_attn_implementation("sdpa")
    assert attention.attention_of(model.config) == "sdpa"
    assert attention.takes_attention(model)
    model.set_attn_implementation("eager")
    assert attention.attention_of(model.config) == "eager"
    assert attention.auto_class_of(model) is None
    assert not [n for n in public(model.config) if n == "attn_implementation"], "transformers.py"


EXITS = """
import atexit
from tiryns.runner.patches.exits import run_exit_functions
atexit.register(print, "registered")
run_exit_functions()
print("ended")
"""


def test_python_still_runs_its_exit_functions_privately() -> None:
    assert not [name for name in public(atexit) if "run" in name], "exits.py"
    done = subprocess.run([sys.executable, "-c", EXITS], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["registered", "ended"]


def test_datasets_still_keeps_its_fingerprint_private() -> None:
    first, second = (Dataset.from_dict({"text": [text]}) for text in ("a", "b"))
    assert fingerprint_of(first) == fingerprint_of(first) != fingerprint_of(second)
    assert "fingerprint" not in public(first), "datasets.py"


def test_datatrove_still_runs_all_tasks_or_none() -> None:
    runs = [name for name in public(PipelineExecutor) if "run" in name]
    assert runs == ["run"], "datatrove.py"
    assert {"rank", "local_rank"} <= {*inspect.signature(PipelineExecutor._run_for_rank).parameters}


def test_energon_still_shows_progress_without_a_setting() -> None:
    settings = inspect.signature(PackingDataset).parameters
    assert not [name for name in settings if "progress" in name], "energon.py"
    assert "log_progress" in inspect.signature(PackingDataset._fill_reading_buffer).parameters


def test_optuna_still_keeps_the_id_of_a_trial_private() -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = optuna.storages.InMemoryStorage()
    optuna.create_study(storage=storage, study_name="other").ask()
    study = optuna.create_study(storage=storage, study_name="ours")
    trial = study.ask()
    assert (trial.number, id_in_storage(trial)) == (0, 1)
    assert optuna.trial.Trial(study, id_in_storage(trial)).number == 0
    assert not [name for name in public(trial) if name.endswith("id")], "optuna.py"
