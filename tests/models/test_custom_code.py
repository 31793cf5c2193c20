"""Code that a model's author has put beside it runs where `trust_remote_code` allows it, and nobody is asked."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import transformers.dynamic_module_utils

from tests.conftest import ROOT
from tests.models.tiny import tiny
from tests.support.in_process import refused
from tiryns.runner.config.loading import allow_custom_code
from tiryns.runner.data.text.tokenizer import load_tokenizer
from tiryns.runner.data.vision.processors import load_processor
from tiryns.runner.inference.answering import Answers
from tiryns.runner.inference.language.infill import open_model
from tiryns.runner.models.encoder import load_encoder

CONFIG = """
from pathlib import Path

from transformers import BertConfig, BertForMaskedLM

Path(__file__).parent.joinpath("pwned").touch()


class MineConfig(BertConfig):
    model_type = "mine"


class MineForMaskedLM(BertForMaskedLM):
    config_class = MineConfig
"""


@pytest.fixture(autouse=True)
def _nobody_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    def ask(*_: Any) -> str:
        raise AssertionError("somebody is asked")

    monkeypatch.setattr("builtins.input", ask)
    monkeypatch.setattr(transformers.dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    yield
    allow_custom_code(False)


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """The folder of a model with weights, whose config, tokenizer and processor are classes in the folder itself."""
    folder = tmp_path / "theirs"
    tiny().save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    maps = {"AutoConfig": "code.MineConfig", "AutoModelForMaskedLM": "code.MineForMaskedLM"}
    config |= {"model_type": "mine", "architectures": ["MineForMaskedLM"], "auto_map": maps}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "code.py").write_text(CONFIG)
    own = {"tokenizer_class": "MineTokenizer", "auto_map": {"AutoTokenizer": ["code.Mine", "code.Mine"]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(own))
    processor = {"processor_class": "MineProcessor", "auto_map": {"AutoProcessor": "code.MineProcessor"}}
    (folder / "processor_config.json").write_text(json.dumps(processor))
    return folder


@pytest.mark.parametrize(
    "load",
    [
        lambda folder: load_encoder(folder, {}, Tokenizer(), new_vocabulary=False),
        load_tokenizer,
        load_processor,
        open_model,
        lambda folder: Answers(folder, {}),
    ],
)
def test_model_that_needs_its_own_code_is_refused(
    theirs: Path, tmp_path: Path, load: Callable[[str], Any]
) -> None:
    with pytest.raises(
        ValueError, match=re.escape("brings code of its own (auto_map), which is not run")
    ) as caught:
        load(str(theirs))
    assert "\n" not in str(caught.value)
    assert "trust_remote_code=true" in str(caught.value)
    assert not list(tmp_path.rglob("pwned"))


class Tokenizer:
    """As much of one as a model is loaded for."""

    def __len__(self) -> int:
        return 4


def test_model_runs_its_own_code_where_that_is_allowed(theirs: Path, tmp_path: Path) -> None:
    allow_custom_code(True)
    model = load_encoder(str(theirs), {}, Tokenizer(), new_vocabulary=False)
    assert type(model).__name__ == "MineForMaskedLM"
    assert list(tmp_path.rglob("pwned"))


def test_model_that_transformers_has_as_well_is_loaded_without_its_code(theirs: Path, tmp_path: Path) -> None:
    config = json.loads((theirs / "config.json").read_text())
    (theirs / "config.json").write_text(json.dumps(config | {"model_type": "bert"}))
    model = load_encoder(str(theirs), {}, Tokenizer(), new_vocabulary=False)
    assert type(model).__name__ == "BertForMaskedLM"
    assert not list(tmp_path.rglob("pwned"))


def test_command_says_so_in_one_line(theirs: Path, tmp_path: Path, text_file: Path) -> None:
    words = [
        "data=files", f"data.source={text_file}", "data.tokenizer=null", "model=pretrained",
        f"model.name_or_path={theirs}",
    ]  # fmt: skip
    error = refused(tmp_path, *words, "trainer=cpu", "trainer.max_steps=1", "data.vocab_size=300")
    (line,) = error.strip().splitlines()[-1:]
    assert line.startswith("error: cannot load the model")
    assert "trust_remote_code=true on the command line" in line
    assert not list(tmp_path.rglob("pwned"))


def test_nothing_is_loaded_past_the_question() -> None:
    """`from_pretrained` of a library asks by itself; what is written into model cards is no call."""
    exempt = (
        "loading.py",
        "card.py",
        "adapters.py",
    )  # peft's config is json, and its model is loaded already
    sources = [path for path in (ROOT / "runner").rglob("*.py") if path.name not in exempt]
    assert len(sources) > 100
    asking = [str(path) for path in sources if re.search(r"\w\.from_pretrained\(", path.read_text())]
    assert not asking, "use runner.config.loading.from_pretrained"
