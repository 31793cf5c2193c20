"""Low-rank adapters: what they compute, what is trained, and what is exported."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from tests.models.packed.test_dropout_keys import CUT, SEED, WHOLE, assert_equal, passed
from tests.models.tiny import ARCHITECTURES, tiny
from tests.objectives.samples import collator
from tiryns.conf.config import LATER
from tiryns.runner.checkpoints.averages import read_folder
from tiryns.runner.loop.sharding import split_matrices
from tiryns.runner.models.adapters import save_model
from tiryns.runner.models.encoder import load_encoder
from tiryns.runner.models.flops import count_flops
from tiryns.runner.models.head import MASKED_LM, Head
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.optim.groups import parameter_groups

pytestmark = pytest.mark.fp32  # products of small matrices are held against their formulas
LABELS: dict[str, Any] = {
    "id2label": {0: "a", 1: "b", 2: "c"}, "label2id": {"a": 0, "b": 1, "c": 2}, "num_labels": 3,
}  # fmt: skip
HEADS = {
    "mlm": MASKED_LM,
    "classification": Head(AutoModelForSequenceClassification, LABELS),
    "token_classification": Head(AutoModelForTokenClassification, LABELS),
    "question_answering": Head(AutoModelForQuestionAnswering),
}
IDS = torch.arange(5, 23).view(2, 9)


def loaded(base: Path, head: Head = MASKED_LM, new_vocabulary: bool = False, **settings: Any) -> Any:
    """A model with a new adapter."""
    later = {name: value for name, value in LATER["model"].items() if name.startswith("adapter")}
    given = later | {"adapter": "lora"} | settings
    return load_encoder(str(base), {}, None, head, new_vocabulary=new_vocabulary, **given)


def adapted(base: Path, architecture: str = "bert", head: Head = MASKED_LM, **settings: Any) -> Any:
    """A model with an adapter as it may be after training: every trained weight has moved."""
    if not base.exists():
        tiny(architecture).save_pretrained(base)
    torch.manual_seed(1)
    model = loaded(base, head, **settings)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter += 0.1 * torch.randn_like(parameter)
    return model.eval()


@pytest.mark.parametrize("kind", ["lora", "rslora", "dora"])
def test_layer_is_that_of_the_formula(tmp_path: Path, kind: str) -> None:
    model = adapted(tmp_path / "base", adapter=kind, adapter_rank=4, adapter_alpha=12.0)
    layer = model.bert.encoder.layer[1].attention.self.value
    w, bias = layer.base_layer.weight, layer.base_layer.bias
    a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    assert (a.shape, b.shape) == ((4, 32), (32, 4))
    whole = w + (12 / 2 if kind == "rslora" else 12 / 4) * b @ a
    if kind == "dora":
        norms = whole.pow(2).sum(1, keepdim=True).sqrt()
        whole = layer.lora_magnitude_vector["default"].weight[:, None] * whole / norms
    x = torch.randn(5, 32)
    torch.testing.assert_close(layer(x), x @ whole.T + bias)
    assert not torch.allclose(layer(x), layer.base_layer(x), atol=1e-2)


@pytest.mark.parametrize("kind", ["lora", "rslora", "dora"])
def test_before_the_first_step_it_is_the_base(tmp_path: Path, kind: str) -> None:
    base = tiny()
    base.save_pretrained(tmp_path)
    model = loaded(tmp_path, adapter=kind)
    torch.testing.assert_close(model.eval()(input_ids=IDS).logits, base(input_ids=IDS).logits)


def test_the_gradient_is_that_of_peft_on_the_same_weights(tmp_path: Path) -> None:
    import peft  # here, as torch's compiler comes with it and takes seconds

    head = HEADS["classification"]
    ours = adapted(tmp_path / "base", "modernbert", head, adapter_targets=["Wqkv", "Wo"], adapter_rank=4)
    config = peft.LoraConfig(r=4, target_modules=["Wqkv", "Wo"], modules_to_save=["head", "classifier"])
    base = AutoModelForSequenceClassification.from_pretrained(tmp_path / "base", num_labels=3)
    theirs: Any = peft.get_peft_model(base, config)
    names = {
        n.removeprefix("base_model.model.").replace(".modules_to_save.default", ""): p
        for n, p in theirs.named_parameters()
        if p.requires_grad
    }
    own = {n: p for n, p in ours.named_parameters() if p.requires_grad}
    assert own.keys() == names.keys()
    with torch.no_grad():
        for name, parameter in names.items():
            parameter.copy_(own[name])
    for model in (ours, theirs.eval()):
        model(input_ids=IDS, labels=torch.tensor([0, 2])).loss.backward()
    for name, parameter in names.items():
        torch.testing.assert_close(own[name].grad, parameter.grad, msg=name)


@pytest.mark.rows(1)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("task", ["mlm", "classification"])
def test_exported_models_compute_the_same(tmp_path: Path, architecture: str, task: str) -> None:
    """Merged, they are models of transformers; separate, peft and this program put them together with the base."""
    import peft

    model = adapted(tmp_path / "base", architecture, HEADS[task], adapter_export="separate")
    expected = model(input_ids=IDS).logits
    save_model(model, tmp_path / "adapter", None)
    settings = {} if task == "mlm" else {"num_labels": 3}
    base = HEADS[task].auto.from_pretrained(tmp_path / "base", **settings).eval()
    assert not torch.allclose(base(input_ids=IDS).logits, expected, atol=1e-2)
    found: dict[str, Any] = {
        "peft": peft.PeftModel.from_pretrained(base, str(tmp_path / "adapter")),
        "ours": load_encoder(str(tmp_path / "adapter"), {}, None, HEADS[task], new_vocabulary=False),
    }
    vars(model)["adapted"] = vars(model)["adapted"]._replace(export="merged")
    save_model(model, tmp_path / "merged", None)
    found["merged"] = HEADS[task].auto.from_pretrained(tmp_path / "merged")
    for name, one in found.items():
        logits = one.eval()(input_ids=IDS).logits
        torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5, msg=name)
    assert not any("lora" in name for name in found["ours"].state_dict())
    files = {file.name for file in (tmp_path / "adapter").iterdir() if file.suffix != ".py"}
    assert files == {"adapter_config.json", "adapter_model.safetensors", "config.json"}


@pytest.mark.rows(1)
@pytest.mark.parametrize("kind", ["rslora", "dora"])
def test_other_kinds_are_merged_as_peft_merges_them(tmp_path: Path, kind: str) -> None:
    import peft

    model = adapted(
        tmp_path / "base", "modernbert", adapter=kind, adapter_alpha=3.0, adapter_export="separate"
    )
    save_model(model, tmp_path / "adapter", None)
    theirs = peft.AutoPeftModel.from_pretrained(str(tmp_path / "adapter")).merge_and_unload().eval()
    torch.testing.assert_close(
        theirs(input_ids=IDS).logits, model(input_ids=IDS).logits, atol=1e-5, rtol=1e-5
    )
    vars(model)["adapted"] = vars(model)["adapted"]._replace(export="merged")
    save_model(model, tmp_path / "merged", None)
    merged = AutoModelForMaskedLM.from_pretrained(tmp_path / "merged")
    for name, weight in theirs.state_dict().items():
        torch.testing.assert_close(merged.state_dict()[name], weight, msg=name)


@pytest.mark.parametrize("task", HEADS)
def test_adapters_and_heads_are_trained_and_nothing_else(tmp_path: Path, task: str) -> None:
    model = adapted(tmp_path / "base", "bert", HEADS[task])
    trained = {name for name, p in model.named_parameters() if p.requires_grad and ".lora_" not in name}
    heads = {
        "mlm": "cls.predictions.transform.", "classification": ("bert.pooler.dense.", "classifier."),
        "token_classification": "classifier.", "question_answering": "qa_outputs.",
    }  # fmt: skip
    assert trained == {name for name, _ in model.named_parameters() if name.startswith(heads[task])}
    layers = {name for name, module in model.named_modules() if hasattr(module, "lora_A")}
    assert layers == {
        f"bert.encoder.layer.{number}.{name}"
        for number in range(2)
        for name in [
            *(f"attention.self.{one}" for one in ("query", "key", "value")),
            *("attention.output.dense", "intermediate.dense", "output.dense"),
        ]
    }
    groups = parameter_groups(model, 0.1, 0.01, False, 1.0, [], matrices_apart=True)
    in_matrices = {n for group in groups if group["name"] == "matrices" for n in group["param_names"]}
    assert {n for n in in_matrices if ".lora_" in n} == {
        n for n, _ in model.named_parameters() if ".lora_" in n
    }


@pytest.mark.parametrize(
    ("targets", "count"), [(["Wqkv"], 2), (["attn.Wo", "Wqkv"], 4), (["*.0.mlp.*"], 2), ([], 8)]
)
def test_targets_are_names_their_ends_or_patterns(tmp_path: Path, targets: list[str], count: int) -> None:
    model = adapted(tmp_path / "base", "modernbert", adapter_targets=targets)
    assert sum(hasattr(module, "lora_A") for module in model.modules()) == count


def test_what_cannot_be_adapted_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = tmp_path / "base"
    with pytest.raises(
        ValueError, match=r"'Wqvk' matches no .*known names: Wqkv, Wo, Wi .*Did you mean 'Wqkv'\?"
    ):
        adapted(base, "modernbert", adapter_targets=["Wo", "Wqvk"])
    with pytest.raises(ValueError, match=r"separate: the adapter would need the embeddings"):
        loaded(base, new_vocabulary=True, adapter_export="separate")
    save_model(adapted(base, adapter_export="separate"), tmp_path / "adapter", None)
    with pytest.raises(ValueError, match=r"is an adapter itself"):
        adapted(tmp_path / "adapter", adapter_export="separate")
    mesh: Any = SimpleNamespace(size=lambda: 2)
    message = r"tensor_parallel_size=2: matrices with an adapter beside them are not"
    with pytest.raises(ValueError, match=message):
        split_matrices(TaskModel(adapted(base)), mesh)
    with pytest.raises(ValueError, match=r"holds an adapter alone, and the mean of products"):
        read_folder(tmp_path / "adapter")
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ValueError, match=r"needs peft: pip install 'tiryns\[peft\]'"):
        adapted(base)
    with pytest.raises(ValueError, match=r"needs peft: pip install 'tiryns\[peft\]'"):
        load_encoder(str(tmp_path / "adapter"), {}, None, new_vocabulary=False)


@pytest.mark.slow
@pytest.mark.rows(1)
@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
def test_dropout_of_adapters_depends_on_neither_cut_nor_layout(tmp_path: Path, architecture: str) -> None:
    model: Any = collator("mlm").task_model(
        adapted(tmp_path / "base", architecture, adapter_dropout=0.3, adapter_alpha=32.0).train()
    )
    one = passed(model, WHOLE, packed=False)
    assert len(one[1]) == sum(p.requires_grad for p in model.parameters())
    assert_equal(one, passed(model, CUT, packed=False))
    assert abs(passed(model, CUT, packed=False, seed=SEED + 1)[0] / one[0] - 1) > 1e-4
    model.pack_rows()
    assert model.last_layer._hooks, "the last layer is narrowed"
    assert_equal(one, passed(model, CUT, packed=True))
    model.recompute_activations()
    assert_equal(one, passed(model, CUT, packed=True))


@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
def test_frozen_matrices_count_twice(tmp_path: Path, architecture: str) -> None:
    """A forward and half a backward pass, where a trained matrix counts three times."""
    tiny(architecture, attn_implementation="eager").save_pretrained(tmp_path)
    model = loaded(tmp_path, adapter_rank=2)
    model.set_attn_implementation("eager")
    with FlopCounterMode(display=False) as counter:
        model(input_ids=IDS).logits.sum().backward()
    counts = count_flops(model)
    ours = counts.step(IDS.numel(), IDS.shape[0] * IDS.shape[1] ** 2, IDS.numel())
    assert ours == pytest.approx(counter.get_total_flops(), rel=0.12)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.requires_grad_(True)
    assert count_flops(model).per_token > 1.3 * counts.per_token
