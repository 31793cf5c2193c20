"""A config that no model can be built of is told with its field or its file, not as a missing tokenizer."""

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import BertConfig, BertForMaskedLM

from tests.models.tiny import tiny
from tiryns.conf.model import Encoder
from tiryns.runner.data.text.tokenizer import load_tokenizer
from tiryns.runner.models.encoder import build_encoder, load_encoder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny().save_pretrained(tmp_path)
    return tmp_path


def change(folder: Path, **fields: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **fields}))


BUILT: dict[str, tuple[dict[str, Any], str]] = {
    "activation": ({"hidden_act": "nope"}, r"no bert of this config: model\.config\.hidden_act='nope' is not known"),
    "dropout": ({"hidden_dropout_prob": "much"}, "no bert of this config: "),
    "positions": ({"type_vocab_size": "two"}, "no bert of this config: .*'type_vocab_size'"),
}  # fmt: skip


@pytest.mark.parametrize("case", BUILT)
def test_value_that_no_model_can_be_built_of_is_named(case: str) -> None:
    fields, message = BUILT[case]
    settings: dict[str, Any] = {
        name: getattr(Encoder, name) for name in Encoder.__dataclass_fields__ if hasattr(Encoder, name)
    }
    settings |= {"architecture": "bert", "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1}
    settings |= {"intermediate_size": 16, "config": {"vocab_size": 20, **fields}}
    settings.pop("_target_", None)
    with pytest.raises(ValueError, match=message) as error:
        build_encoder(**settings, tokenizer=None)
    assert "\n" not in str(error.value)


LOADED: dict[str, tuple[dict[str, Any], str]] = {
    "activation": ({"hidden_act": "nope"}, "its config.json has hidden_act='nope', which transformers does not know"),
    "quantized": ({"quantization_config": {"quant_method": "bitsandbytes"}}, "is quantized .*bitsandbytes.*name the"),
    "quantized otherwise": ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "is quantized .*gptq"),
    "unknown kind": ({"model_type": "nope"}, "cannot load the model"),
}  # fmt: skip


@pytest.mark.parametrize("case", LOADED)
def test_config_file_of_a_model_is_named(folder: Path, case: str) -> None:
    fields, message = LOADED[case]
    change(folder, **fields)
    with pytest.raises(ValueError, match=message) as error:
        load_encoder(str(folder), {}, None, new_vocabulary=False)
    assert str(folder) in str(error.value)


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"model_type": "nope"}', '{"hidden_size": "big", "model_type": "bert"}']
)
def test_damaged_config_is_no_missing_tokenizer(folder: Path, content: str) -> None:
    (folder / "config.json").write_text(content)
    with pytest.raises((ValueError, FileNotFoundError)) as error:
        load_tokenizer(str(folder))
    assert f"cannot load the model {str(folder)!r}: " in str(error.value)


def test_folder_with_a_model_alone_still_lacks_a_tokenizer(folder: Path) -> None:
    assert isinstance(BertForMaskedLM.from_pretrained(folder).config, BertConfig)
    with pytest.raises(FileNotFoundError, match="tokenizer"):
        load_tokenizer(str(folder))
