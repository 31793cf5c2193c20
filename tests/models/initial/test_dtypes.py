"""Weights have the type that the precision of the run says, whatever their files have, wherever they are loaded."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    LlamaConfig,
)

import tiryns
from tests.conftest import train_here
from tests.models.test_adapters import loaded as with_adapter
from tests.models.tiny import tiny
from tests.models.vision.test_backbones import TEXT, built
from tests.support.composed import composed
from tests.support.processes import ROOT
from tiryns.runner.inference.kinds import option_defaults
from tiryns.runner.models.adapters import save_model
from tiryns.runner.models.distillation.teacher import load_teacher
from tiryns.runner.models.encoder import build_encoder, load_encoder
from tiryns.runner.models.head import Head
from tiryns.runner.models.initial.dtypes import load_model, saved_dtypes, weights_of
from tiryns.runner.models.weights import load_trained

pytestmark = pytest.mark.fp32
HALF, LABELS = torch.bfloat16, {"num_labels": 3}


def save_as(folder: Path, dtype: torch.dtype, target: Path) -> Path:
    """Saves a model and its tokenizer in another type."""
    AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32).to(dtype).save_pretrained(target)
    for file in folder.glob("tok*"):
        (target / file.name).write_bytes(file.read_bytes())
    return target


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Path:
    """The export of a short run, of numbers that bf16 and fp16 both have: a copy in any type holds the same."""
    folder = tmp_path_factory.mktemp("model")
    run = train_here(folder / "run", text_file, "trainer.max_steps=2", "trainer.validate_every=0")
    file = run.path / "model" / "model.safetensors"
    plain = {n: t.masked_fill(t.abs() < 1e-3, 0).bfloat16().float() for n, t in load_file(file).items()}
    save_file(plain, file, metadata={"format": "pt"})
    return run.path / "model"


def begun_from(source: Path, precision: str) -> list[str]:
    """Words of a run that starts from a model and its tokenizer."""
    named = ["model=pretrained", f"model.name_or_path={source}", f"data.tokenizer={source}"]
    return [*named, f"trainer.precision={precision}"]


@pytest.mark.slow
def test_plan_and_summary_tell_what_the_file_has_where_it_differs(
    model: Path, text_file: Path, tmp_path: Path
) -> None:
    source = save_as(model, HALF, tmp_path / "source")
    words = ["data=files", f"data.source={text_file}", "trainer.max_steps=2", "trainer=cpu"]

    def told(folder: Path, precision: str) -> dict[str, str]:
        return tiryns.assemble(composed([*words, *begun_from(folder, precision)])).weights

    assert told(source, "32-true") == {"weights": f"bfloat16 in {source}, held in float32"}
    assert told(source, "auto") == told(source, "bf16-mixed") == told(source, "32-true")
    assert told(source, "bf16-true") == told(model, "32-true") == {}


def _classifier(folder: Path) -> Any:
    return load_encoder(
        str(folder), {}, None, Head(AutoModelForSequenceClassification, LABELS), new_vocabulary=False
    )


def _fresh_head(folder: Path) -> Any:
    head = Head(AutoModelForSequenceClassification, LABELS, fresh=True)
    return load_encoder(str(folder), {}, None, head, new_vocabulary=False)


def _merged(folder: Path) -> Any:
    save_model(with_adapter(folder, adapter_export="separate"), folder / "adapter", None)
    return load_encoder(str(folder / "adapter"), {}, None, new_vocabulary=False)


def _tiled(folder: Path) -> Any:
    config = AutoModelForMaskedLM.from_pretrained(folder).config
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 96, "num_hidden_layers": 3}
    given = {
        **option_defaults("model", "bert_tiny"), **sizes, "max_position_embeddings": 80,
        "tiled_from": str(folder),
    }  # fmt: skip
    fields = {"vocab_size": config.vocab_size, "pad_token_id": config.pad_token_id}
    return build_encoder(**{**given, "config": fields}, tokenizer=None)


def _tower(folder: Path) -> Any:
    AutoModelForCausalLM.from_config(LlamaConfig(vocab_size=50, **TEXT)).to(HALF).save_pretrained(
        folder / "text"
    )
    return built(text_from=str(folder / "text"))


LOADED: dict[str, Callable[[Path], Any]] = {
    "encoder": lambda folder: load_encoder(str(folder), {}, None, new_vocabulary=False), "head": _classifier,
    "fresh head": _fresh_head,
    "teacher": lambda folder: load_teacher(str(folder), "AutoModelForMaskedLM", None),
    "embeddings": lambda folder: load_teacher(str(folder), "AutoModel", None),
    "evaluated": lambda folder: load_trained(AutoModelForMaskedLM, str(folder)), "adapter": with_adapter,
    "merged adapter": _merged, "tiled": _tiled, "tower": _tower,
}  # fmt: skip


@pytest.mark.rows(7)
@pytest.mark.parametrize("way", LOADED)
@pytest.mark.parametrize(
    ("saved", "precision", "held"),
    [
        (torch.bfloat16, "32-true", torch.float32),
        (torch.float16, "bf16-mixed", torch.float32),
        (torch.float64, "32-true", torch.float32),
        (torch.bfloat16, "64-true", torch.float64),
        (torch.bfloat16, None, torch.float32),
    ],
)
def test_every_way_to_load_holds_the_type_of_the_run(
    way: str, saved: torch.dtype, precision: str | None, held: torch.dtype, tmp_path: Path
) -> None:
    model: Any = tiny()
    model.to(saved).save_pretrained(tmp_path)
    if precision is None:  # outside of a run
        found, lines = LOADED[way](tmp_path), []
    else:
        with weights_of(precision) as lines:
            found = LOADED[way](tmp_path)
        assert lines
    types = {p.dtype for p in found.parameters() if p.is_floating_point()}
    assert types == {held}


def sharded(folder: Path) -> None:
    AutoModel.from_pretrained(folder, dtype=HALF).save_pretrained(folder, max_shard_size="20KB")
    (folder / "model.safetensors").unlink()


def pickled(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def unnamed(folder: Path) -> None:
    file = folder / "config.json"
    file.write_text(re.sub(r'"dtype": "bfloat16",\n', "", file.read_text()))


def old_name(folder: Path) -> None:
    file = folder / "config.json"
    file.write_text(file.read_text().replace('"dtype"', '"torch_dtype"'))


def norms_in_fp32(folder: Path) -> None:
    file = folder / "model.safetensors"
    mixed = {n: t.float() if "LayerNorm" in n else t for n, t in load_file(file).items()}
    save_file(mixed, file, metadata={"format": "pt"})


@pytest.mark.parametrize("form", [sharded, pickled, unnamed, old_name, norms_in_fp32])
def test_type_is_read_from_every_form_of_files(form: Callable[[Path], None], tmp_path: Path) -> None:
    tiny().bfloat16().save_pretrained(tmp_path)
    form(tmp_path)
    assert saved_dtypes(str(tmp_path)) == ({HALF, torch.float32} if form is norms_in_fp32 else {HALF})
    with weights_of("32-true") as lines:
        found = load_model(AutoModel, str(tmp_path))
    assert {p.dtype for p in found.parameters()} == {torch.float32}
    assert len(lines) == 1


@pytest.mark.parametrize("name", ["dtype", "torch_dtype"])
def test_type_cannot_be_set_behind_the_precision(name: str, tmp_path: Path) -> None:
    tiny().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=rf"model\.config\.{name}: .*trainer\.precision"):
        load_encoder(str(tmp_path), {name: "bfloat16"}, None, new_vocabulary=False)


def test_fp64_outside_of_a_run_stays_fp64(tmp_path: Path) -> None:
    tiny().double().save_pretrained(tmp_path)
    assert load_model(AutoModel, str(tmp_path)).dtype == torch.float64


def test_models_are_loaded_by_one_function_alone() -> None:
    """Configs, tokenizers and processors have no weights."""
    harmless = r"Auto(Config|Tokenizer|Processor|ImageProcessor)\b|PeftConfig|_image_only"
    own = ("models/initial/dtypes.py", "tasks/multiple_choice/model.py", "config/loading.py")
    others = []
    for file in (ROOT / "runner").rglob("*.py"):
        if str(file.relative_to(ROOT / "runner")) in own:
            continue
        code = re.sub(r'""".*?"""|f?"[^"\n]*"', "", file.read_text(), flags=re.DOTALL)
        calls = re.findall(r"\b[\w.]*from_pretrained\([^\n]*", code)
        others += [f"{file}: {call}" for call in calls if not re.search(harmless, call)]
    assert [re.search(r"peft\.PeftModel", one) is not None for one in others] == [True], others
