"""Frozen features are what transformers computes for each text alone, however rows are laid out."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModel

from tests.data.labelled.tasks import prepared_data, texts
from tests.models.tiny import tiny
from tiryns.conf.data.pairs import Retrieval
from tiryns.runner.data.labelled.measured import RetrievalPairs
from tiryns.runner.data.labelled.token_classification import TokenClassificationReader
from tiryns.runner.data.read.rows import read_rows
from tiryns.runner.data.text.tokenizer import train_tokenizer
from tiryns.runner.inference.frozen.probes import probe
from tiryns.runner.inference.passes import Computation
from tiryns.runner.inference.vectors import FrozenEncoder
from tiryns.runner.models.embedding.folder import Embedding

pytestmark = pytest.mark.fp32

TEXTS = [f"heron {'river bridge ' * (number % 5)}number {number}" for number in range(23)]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return train_tokenizer(TEXTS, "wordpiece", 50, True)


def encoder(tokenizer: Any, pooling: str, layout: str, architecture: str = "bert") -> FrozenEncoder:
    model: Any = tiny(architecture).base_model
    return FrozenEncoder(
        model,
        tokenizer,
        Embedding(pooling, max_length=40),
        Computation(layout=layout, micro_batch_tokens=200),
    )


def alone(tokenizer: Any, text: str, architecture: str) -> Tensor:
    """The hidden states [T, H] of a text by transformers."""
    model = AutoModel.from_config(tiny(architecture).config)
    model.load_state_dict(tiny(architecture).base_model.state_dict(), strict=False)  # but for a pooler
    with torch.no_grad():
        found: Tensor = model.eval()(**tokenizer(text, return_tensors="pt"))[0][0]
    return found


@pytest.mark.parametrize(
    ("architecture", "layout"), [("bert", "padded"), ("bert", "packed"), ("modernbert", "packed")]
)
def test_features_pool_the_hidden_states_of_each_text_alone(
    tokenizer: Any, architecture: str, layout: str
) -> None:
    mean, first = (encoder(tokenizer, pooling, layout, architecture) for pooling in ("mean", "cls"))
    assert mean.computation.layout == layout
    made = mean.embed(TEXTS), first.embed(TEXTS)
    for number in (0, 4, 22):
        expected = alone(tokenizer, TEXTS[number], architecture)
        torch.testing.assert_close(made[0][number], expected.mean(0), atol=2e-5, rtol=1e-4)
        torch.testing.assert_close(made[1][number], expected[0], atol=2e-5, rtol=1e-4)
    assert torch.equal(made[0], mean.embed(TEXTS))


@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_features_of_words_are_those_of_their_first_pieces(tokenizer: Any, layout: str) -> None:
    reader = TokenClassificationReader("words", "labels", None, ["A", "B"])
    rows = read_rows([{"words": text.split(), "labels": ["A"] * len(text.split())} for text in TEXTS])
    examples = reader.examples(rows, labelled=True)
    reader.learn(examples, rows)
    made = encoder(tokenizer, "mean", layout).features(
        reader.tokenize(examples, tokenizer, 40, training=False)
    )
    assert len(made) == sum(len(text.split()) for text in TEXTS)
    encoded = tokenizer(TEXTS[0].split(), is_split_into_words=True)
    places = [encoded.word_ids().index(word) for word in range(len(TEXTS[0].split()))]
    expected = alone(tokenizer, TEXTS[0], "bert")[places]
    torch.testing.assert_close(made[: len(expected)], expected, atol=2e-5, rtol=1e-4)


def test_texts_longer_than_the_model_reads_are_refused(tokenizer: Any) -> None:
    model: Any = tiny().base_model
    with pytest.raises(ValueError, match=r"data\.max_length=500 is more than the 80 tokens"):
        FrozenEncoder(model, tokenizer, Embedding("mean", max_length=500), Computation())


def test_a_passage_that_occurs_twice_is_one_and_a_query_may_have_several() -> None:
    rows = [("a", "one"), ("b", "two"), ("c", "one"), ("a", "three"), ("b", "two")]
    given = [{"query": query, "passage": passage} for query, passage in rows]
    values = {name: value for name, value in vars(Retrieval(test=given)).items() if name != "_target_"}
    data = RetrievalPairs(**{**values, "tokenizer": None, "train": given, "vocab_size": 60})
    data.prepare_data()
    found = data.sets["test/test"]
    assert found.queries == ["a", "b", "c"]
    assert found.passages == ["one", "two", "three"]
    assert found.relevant == [[0, 2], [1], [0]]
    with pytest.raises(ValueError, match="names no pairs to train a tokenizer on"):
        RetrievalPairs(**{**values, "tokenizer": None}).prepare_data()


def test_probe_reads_texts_after_the_default_prompt(tokenizer: Any, tmp_path: Path) -> None:
    tokenizer.save_pretrained(tmp_path)
    model, found = tiny().base_model, []
    for prompt, written in (("river ", ""), ("", "river ")):
        rows = [{**row, "text": written + row["text"]} for row in texts(24)]
        sets = {"train": rows[:16], "validation": rows[16:]}
        data = prepared_data("classification", **sets, tokenizer=str(tmp_path), max_length=40)
        embedding = Embedding("mean", prompts={"x": prompt}, default_prompt="x", max_length=40)
        probed = probe(data, FrozenEncoder(model, tokenizer, embedding, Computation()))  # type: ignore[arg-type]
        found.append([row["probability"] for row in probed.predictions["val/validation"]])
    assert found[0] == found[1]
    with pytest.raises(ValueError, match="no example of test/test has a label: name the column"):
        probed._replace(sets={"test/test": {"metrics": {}}}).objective()
