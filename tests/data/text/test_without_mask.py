"""Objectives that mask nothing take tokenizers without a mask, as those of decoders are; the others refuse them."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TINY, train_as
from tests.data.labelled.tasks import choices, data_module, questions, sentences, texts
from tiryns import compose
from tiryns.runner.data.text.tokenizer import train_tokenizer
from tiryns.runner.loop.assembly import make_data

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
        *TINY,
        "objective=clm",
        f"data.source={places[0]}",
        f"data.tokenizer={places[1]}",
        "trainer.max_steps=2",
    ]
    run = train_as(tmp_path / "run", words)
    assert run.status()["state"] == "done"
    assert (run.path / "model" / "config.json").is_file()


def data_of(objective: str, words: list[str]) -> Any:
    return make_data(compose(*TINY, f"objective={objective}", *words))


FORMS = {
    "files": ["data.source={0}", "data.tokenizer={1}", "data.cache_dir={2}"],
    "streaming": [
        "data.source={0}",
        "data.tokenizer={1}",
        "data.cache_dir={2}",
        "data.streaming=true",
        "data.validation_documents=0",
    ],
    "mixture": [
        "data=mixture",
        "data.mixture={{a: {{source: {0}, weight: 1}}}}",
        "data.tokenizer={1}",
        "data.cache_dir={2}",
    ],
}


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
