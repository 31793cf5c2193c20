"""Objectives that mask nothing take tokenizers without a mask, as those of decoders are; the others refuse them."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from tests.conftest import TINY, train_as
from tests.data.labelled.tasks import choices, data_module, questions, sentences, texts
from tests.data.pairs.rows import pairs, write
from tests.runs.test_train import losses
from tests.support.composed import composed
from tests.support.precision import rounding
from tiryns.runner.data.text.tokenizer import load_tokenizer, train_tokenizer
from tiryns.runner.loop.assembly import make_data
from tiryns.runner.models.encoder import load_encoder
from tiryns.runner.models.head import LANGUAGE_MODEL

TEXT = "\n\n".join(f"line {i}: the river runs under the old bridge while {i} herons watch" for i in range(60))


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A text, and a tokenizer like that of GPT: byte-level, with padding, without a mask."""
    folder = tmp_path_factory.mktemp("maskless")
    (folder / "text.txt").write_text(TEXT)
    tokenizer: Any = train_tokenizer([TEXT], "bpe", 300, lowercase=False)
    tokenizer.mask_token = None
    tokenizer.save_pretrained(folder / "tokenizer")
    return folder / "text.txt", folder / "tokenizer"


def test_a_causal_run_needs_no_mask(places: tuple[Path, Path], tmp_path: Path) -> None:
    words = [
        *TINY, "objective=clm", f"data.source={places[0]}", f"data.tokenizer={places[1]}",
        "trainer.max_steps=2",
    ]  # fmt: skip
    run = train_as(tmp_path / "run", words)
    assert run.status["state"] == "done"
    assert (run.path / "model" / "config.json").is_file()


def data_of(objective: str, words: list[str]) -> Any:
    return make_data(composed([*TINY, f"objective={objective}", *words]))


FILES = ["data.source={0}", "data.tokenizer={1}", "data.cache_dir={2}"]
FORMS = {
    "files": FILES,
    "streaming": [*FILES, "data.streaming=true", "data.validation_documents=0"],
    "mixture": ["data=mixture", "data.mixture={{a: {{source: {0}, weight: 1}}}}", *FILES[1:]],
}


@pytest.mark.rows(2)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("objective", ["clm", "mlm", "hybrid", "diffusion", "rtd", "enhanced_mlm"])
def test_objectives_that_mask_refuse_before_the_text_is_read(
    places: tuple[Path, Path], tmp_path: Path, objective: str, form: str
) -> None:
    words = [word.format(*places, tmp_path) for word in FORMS[form]]
    data = data_of(objective, words)
    if objective == "clm":
        data.prepare_data()
        assert data.collator_arguments()["mask_token_id"] == data.tokenizer.pad_token_id
        return
    with pytest.raises(ValueError, match="has no mask token; its special tokens are"):
        assert data.prepare_data() or data.tokenizer
    assert not [path for path in tmp_path.rglob("*") if path.suffix == ".bin"]


@pytest.mark.parametrize(
    ("option", "rows"),
    [
        ("classification", texts(20)),
        ("token_classification", sentences(20)),
        ("multiple_choice", choices(20)),
        ("question_answering", questions(20)),
    ],
)
def test_labelled_data_needs_no_mask(places: tuple[Path, Path], option: str, rows: Any) -> None:
    data = data_module(option, train=rows, tokenizer=str(places[1]), doc_stride=8)
    data.prepare_data()
    assert len(data.train) > 0
    assert data.tokenizer.mask_token_id is None


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def decoder(
    request: pytest.FixtureRequest, places: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A decoder with a tokenizer that has a token that ends texts, and none for padding."""
    folder = tmp_path_factory.mktemp(request.param)
    tokenizer: Any = AutoTokenizer.from_pretrained(places[1])
    tokenizer.pad_token, tokenizer.eos_token = None, "[SEP]"
    tokenizer.save_pretrained(folder)
    assert AutoTokenizer.from_pretrained(folder).pad_token is None
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    known = {"vocab_size": len(tokenizer), "pad_token_id": None, "max_position_embeddings": 64}
    config = AutoConfig.for_model(
        request.param, **sizes, **known, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0
    )
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder


NO_PADDING: dict[str, tuple[list[str], Callable[[], list[dict[str, Any]]]]] = {
    "clm": (["data=files", "objective=clm"], list),
    "classification": (["data=classification", "objective=classification", "module=finetuning"], lambda: texts(40)),
    "token_classification": (
        ["data=token_classification", "objective=token_classification", "module=finetuning"], lambda: sentences(40),
    ),
    "contrastive": (["data=pairs", "objective=contrastive", "module=finetuning"], lambda: pairs(40)),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.rows(1)
@pytest.mark.parametrize("kind", NO_PADDING)
def test_the_end_of_texts_fills_rows_where_there_is_no_padding(
    places: tuple[Path, Path], decoder: Path, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows filled up train as one row for each text, and the embedding of the token is trained where a text has it."""
    option, rows = NO_PADDING[kind]
    write(tmp_path / "rows.jsonl", rows())
    words = [
        *(word for word in TINY if not word.startswith(("data", "model"))), *option, "data.max_length=48",
        f"data.source={places[0]}" if kind == "clm" else f"data.train={tmp_path / 'rows.jsonl'}",
        "data.validation_documents=0", f"data.tokenizer={decoder}", "model=pretrained", "model.adapter=null",
        f"model.name_or_path={decoder}", "trainer.max_steps=3", "trainer.validate_every=0", "data.layout=padded",
    ]  # fmt: skip
    with caplog.at_level(logging.INFO):
        whole = train_as(tmp_path / "whole", [*words, "data.micro_batch_tokens=null"])
    assert "the tokenizer has no padding: rows are filled with [SEP]" in caplog.text
    single = train_as(tmp_path / "single", [*words, "data.micro_batch_tokens=60"])
    assert losses(whole) == pytest.approx(losses(single), rel=rounding(1e-5, 1e-2))
    exported = AutoTokenizer.from_pretrained(whole.path / "model")
    assert exported.pad_token == exported.eos_token == "[SEP]"


def test_the_borrowed_padding_is_trained_also_where_an_export_is_trained_again(
    decoder: Path, tmp_path: Path
) -> None:
    folder = decoder
    for again in ("first", "second", "third"):
        tokenizer = load_tokenizer(str(folder), ("pad",))
        loaded = load_encoder(str(folder), {}, tokenizer, LANGUAGE_MODEL, new_vocabulary=False)
        embedding: Any = loaded.get_input_embeddings()
        end = tokenizer.eos_token_id
        embedding(torch.tensor([end])).sum().backward()
        assert embedding.weight.grad[end].all()
        folder = tmp_path / again
        loaded.config.pad_token_id = end
        for part in (loaded, tokenizer):
            part.save_pretrained(folder)
