"""Folders of tokenizers and models that are damaged, foreign or unsafe."""

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.support.foreign_checkpoints import save_foreign_bert

Damage = Callable[[Path], None]


class Evil:
    """What runs when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return open, ("pwned", "w")


def text(name: str, content: str | bytes) -> Damage:
    """Another content for a file."""
    return lambda folder: void(
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    )


def gone(*names: str) -> Damage:
    """Files that are removed."""

    def remove(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return remove


def cut(name: str, size: int) -> Damage:
    """A file of its first bytes alone."""
    return lambda folder: void((folder / name).write_bytes((folder / name).read_bytes()[:size]))


def changed(name: str, **values: object) -> Damage:
    """Other values in a file of JSON."""

    def change(folder: Path) -> None:
        content = {**json.loads((folder / name).read_text()), **values}
        (folder / name).write_text(json.dumps({k: v for k, v in content.items() if v is not ...}))

    return change


def void(_: object) -> None:
    """Nothing."""


def both(*damages: Damage) -> Damage:
    """Several, one after the other."""
    return lambda folder: void([damage(folder) for damage in damages])


def resaved(change: Callable[[dict], dict]) -> Damage:
    """Other tensors."""

    def save(folder: Path) -> None:
        from safetensors.torch import load_file, save_file

        file = folder / "model.safetensors"
        save_file(change(load_file(file)), file, metadata={"format": "pt"})

    return save


def ids_beyond(folder: Path) -> None:
    """A token whose number is beyond the model's vocabulary."""
    content = json.loads((folder / "tokenizer.json").read_text())
    content["model"]["vocab"]["river"] = 10**6
    (folder / "tokenizer.json").write_text(json.dumps(content))


def no_mask(folder: Path) -> None:
    """A tokenizer without a mask token."""
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        if (folder / name).exists():
            (folder / name).write_text((folder / name).read_text().replace("[MASK]", "[OTHER]"))
    changed("tokenizer_config.json", mask_token=...)(folder)


TOKENIZERS: dict[str, Damage] = {
    "tok_none": gone("tokenizer.json", "tokenizer_config.json"), "tok_empty": text("tokenizer.json", ""),
    "tok_cut": cut("tokenizer.json", 500), "tok_list": text("tokenizer.json", "[]"),
    "tok_object": text("tokenizer.json", "{}"),
    "tok_kind": changed("tokenizer.json", model={"type": "Nothing"}),
    "tok_binary": text("tokenizer.json", b"\xff\xfe\x00"),
    "tok_config_cut": text("tokenizer_config.json", "{"),
    "tok_config_list": text("tokenizer_config.json", "[1]"),
    "tok_config_class": changed("tokenizer_config.json", tokenizer_class="NoSuchTokenizer"),
    "tok_config_code": changed("tokenizer_config.json", auto_map={"AutoTokenizer": ["code.Own", None]}),
    "tok_config_length": changed("tokenizer_config.json", model_max_length="long"), "tok_no_mask": no_mask,
    "tok_beyond": ids_beyond, "tok_file": text("file", "x"),
}  # fmt: skip

MODELS: dict[str, Damage] = {
    "m_no_config": gone("config.json"),
    "m_no_weights": gone("model.safetensors"),
    "m_config_empty": text("config.json", ""),
    "m_config_cut": text("config.json", '{"model_type": "be'),
    "m_config_list": text("config.json", "[1, 2]"),
    "m_config_binary": text("config.json", b"\xff\xfe"),
    "m_type_unknown": changed("config.json", model_type="brt"),
    "m_type_none": changed("config.json", model_type=..., architectures=...),
    "m_type_number": changed("config.json", model_type=5),
    "m_hidden_text": changed("config.json", hidden_size="wide"),
    "m_hidden_float": changed("config.json", hidden_size=32.5),
    "m_hidden_null": changed("config.json", hidden_size=None),
    "m_hidden_negative": changed("config.json", hidden_size=-32),
    "m_hidden_zero": changed("config.json", hidden_size=0),
    "m_hidden_other": changed("config.json", hidden_size=64),
    "m_hidden_huge": changed("config.json", hidden_size=2**40),
    "m_heads": changed("config.json", num_attention_heads=5),
    "m_layers_text": changed("config.json", num_hidden_layers="two"),
    "m_layers_negative": changed("config.json", num_hidden_layers=-1),
    "m_layers_many": changed("config.json", num_hidden_layers=3),
    "m_layers_list": changed("config.json", num_hidden_layers=[1]),
    "m_vocab_small": changed("config.json", vocab_size=10),
    "m_vocab_text": changed("config.json", vocab_size="many"),
    "m_vocab_huge": changed("config.json", vocab_size=10**13),
    "m_act": changed("config.json", hidden_act="nope"),
    "m_act_number": changed("config.json", hidden_act=5),
    "m_dropout": changed("config.json", hidden_dropout_prob=5),
    "m_dropout_text": changed("config.json", hidden_dropout_prob="much"),
    "m_dtype": changed("config.json", dtype="float7"),
    "m_code": changed(
        "config.json",
        model_type="own",
        auto_map={"AutoConfig": "code.Own", "AutoModelForMaskedLM": "code.Own"},
    ),
    "m_quantized": changed("config.json", quantization_config={"quant_method": "nope"}),
    "m_quantized_list": changed("config.json", quantization_config=[1]),
    "m_weights_empty": text("model.safetensors", ""),
    "m_weights_cut": cut("model.safetensors", 5000),
    "m_weights_header": cut("model.safetensors", 100),
    "m_weights_text": text("model.safetensors", "these are no weights"),
    "m_weights_huge_header": text("model.safetensors", b"\xff" * 8 + b"{}"),
    "m_weights_lfs": text(
        "model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
    ),
    "m_weights_shape": resaved(lambda t: {k: v[:5].clone() if v.ndim == 2 else v for k, v in t.items()}),
    "m_weights_none": resaved(lambda t: {}),
    "m_weights_names": resaved(lambda t: {f"other.{k}": v for k, v in t.items()}),
    "m_weights_part": resaved(lambda t: dict(list(t.items())[:5])),
    "m_weights_nan": resaved(lambda t: {k: v * float("nan") for k, v in t.items()}),
    "m_weights_int": resaved(lambda t: {k: v.int() for k, v in t.items()}),
    "m_pickle": both(gone("model.safetensors"), text("pytorch_model.bin", pickle.dumps(Evil()))),
    "m_bin_text": both(gone("model.safetensors"), text("pytorch_model.bin", "no pickle")),
    "m_bin_empty": both(gone("model.safetensors"), text("pytorch_model.bin", "")),
    "m_index_cut": both(gone("model.safetensors"), text("model.safetensors.index.json", "{")),
    "m_index_list": both(gone("model.safetensors"), text("model.safetensors.index.json", "[]")),
    "m_index_gone": both(
        gone("model.safetensors"),
        text(
            "model.safetensors.index.json", '{"metadata": {}, "weight_map": {"a": "model-00001.safetensors"}}'
        ),
    ),
    "m_index_out": both(
        gone("model.safetensors"),
        text(
            "model.safetensors.index.json",
            '{"metadata": {}, "weight_map": {"a": "../../bert/model.safetensors"}}',
        ),
    ),
    "m_directory": both(gone("model.safetensors"), lambda folder: (folder / "model.safetensors").mkdir()),
    "m_lightning": changed("config.json", architectures=5),
    # adapters
    "a_gone": both(
        gone("model.safetensors", "config.json"),
        text("adapter_config.json", '{"peft_type": "LORA", "base_model_name_or_path": "no/such/base"}'),
    ),
    "a_cut": both(gone("model.safetensors", "config.json"), text("adapter_config.json", "{")),
    "a_list": both(gone("model.safetensors", "config.json"), text("adapter_config.json", "[]")),
    "a_no_base": both(
        gone("model.safetensors", "config.json"), text("adapter_config.json", '{"peft_type": "LORA"}')
    ),
    # sentence-transformers
    "s_cut": text("modules.json", "["),
    "s_object": text("modules.json", '{"a": 1}'),
    "s_five": text("modules.json", "5"),
    "s_strings": text("modules.json", '["a"]'),
    "s_no_type": text("modules.json", '[{"idx": 0, "path": ""}]'),
    "s_foreign": text("modules.json", '[{"idx": 0, "name": "0", "path": "", "type": "os.system"}]'),
    "s_no_pooling": text(
        "modules.json",
        '[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},'
        ' {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]',
    ),
    "s_out": text(
        "modules.json",
        '[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},'
        ' {"idx": 1, "name": "1", "path": "../../elsewhere", "type": "sentence_transformers.models.Pooling"}]',
    ),
    "s_prompts": both(
        text(
            "modules.json",
            '[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]',
        ),
        text("config_sentence_transformers.json", '{"prompts": 5}'),
    ),
}


def write(folder: Path) -> None:
    """A model with its tokenizer, and a damaged copy for each case."""
    good = save_foreign_bert(folder / "bert")
    for name, damage in (TOKENIZERS | MODELS).items():
        shutil.copytree(good, folder / name)
        damage(folder / name)
