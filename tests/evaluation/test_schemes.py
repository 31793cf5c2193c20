"""Tags of every scheme, from a file to the figures: recognised, predicted together, and measured by entities."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.data.labelled.tasks import data_module, prepared_data
from tiryns.runner.data.labelled.words.tags import tagging_of
from tiryns.runner.evaluation.joined import measured_rows
from tiryns.runner.evaluation.kinds.words import JointPredictions, TokenPredictions

WORDS = "Ada King Lovelace lived in London and New York|Bo saw Rio Grande"
TAGS = {
    "IOB2": "B-PER I-PER I-PER O O B-LOC O B-LOC I-LOC|B-PER O B-LOC I-LOC",
    "IOB1": "I-PER I-PER I-PER O O I-LOC O I-LOC I-LOC|I-PER O I-LOC I-LOC",
    "IOE2": "I-PER I-PER E-PER O O E-LOC O I-LOC E-LOC|E-PER O I-LOC E-LOC",
    "IOBES": "B-PER I-PER E-PER O O S-LOC O B-LOC E-LOC|S-PER O B-LOC E-LOC",
    "BILOU": "B-PER I-PER L-PER O O U-LOC O B-LOC L-LOC|U-PER O B-LOC L-LOC",
    "BMES": "B-PER M-PER E-PER O O S-LOC O B-LOC E-LOC|S-PER O B-LOC E-LOC",
    "BMEWO": "B-PER M-PER E-PER O O W-LOC O B-LOC E-LOC|W-PER O B-LOC E-LOC",
}
SUFFIX = {
    f"{scheme} behind": " ".join(
        "-".join(reversed(tag.split("-"))) for tag in tags.replace("|", " | ").split()
    )
    for scheme, tags in TAGS.items()
}
FORMS = {**TAGS, **SUFFIX}


def conll(path: Path, form: str) -> str:
    """A file in one of the forms."""
    sentences = zip(WORDS.split("|"), FORMS[form].split("|"), strict=True)
    path.write_text(
        "\n\n".join("\n".join(map(" ".join, zip(w.split(), t.split(), strict=True))) for w, t in sentences)
        + "\n"
    )
    return str(path)


def predictions(data: Any, logits: torch.Tensor, constrained: bool = True) -> TokenPredictions:
    found = TokenPredictions(data.train_set, constrained)
    found.add({"words": torch.arange(len(logits))}, {"logits": logits})
    found.join(lambda mine: [mine])
    return found


@pytest.mark.rows(5)
@pytest.mark.parametrize("form", FORMS)
def test_entities_are_measured_and_predicted_in_every_scheme(tmp_path: Path, form: str) -> None:
    data = data_module(
        "token_classification", train=conll(tmp_path / "a.conll", form), validation_documents=0
    )
    data.prepare_data()
    scheme = form.split()[0]
    assert data.facts()["tags"] == scheme
    words, names = data.train_set.word_labels, data.train_set.names
    gold = torch.nn.functional.one_hot(torch.from_numpy(words), len(names)).float()
    right = predictions(data, 4 * gold)
    assert right.monitor == "entity_f1"
    assert right.metrics()["entity_f1"] == 1.0
    table = {row["label"]: row["support"] for row in right.tables()["entities"]}
    assert table == {"LOC": 3, "PER": 2}
    rows = list(right.rows())
    assert [row["predicted"] for row in rows] == [tags.split() for tags in FORMS[form].split("|")]
    assert measured_rows("token_classification", rows)["entity_f1"] == 1.0

    noise = torch.from_numpy(np.random.default_rng(0).normal(size=gold.shape)).float() * 2 + gold
    tagging = tagging_of(names)
    assert tagging is not None
    together, alone = predictions(data, noise), predictions(data, noise, constrained=False)
    assert not any(tagging.breaks(scheme, row["predicted"]) for row in together.rows())
    assert any(tagging.breaks(scheme, row["predicted"]) for row in alone.rows()) or scheme == "IOB1"
    assert 0 <= alone.metrics()["entity_f1"] < 1


@pytest.mark.parametrize("form", ["BILOU", "IOBES behind"])
def test_entities_of_a_text_are_found_by_their_characters(tmp_path: Path, form: str) -> None:
    text = tmp_path / "text.jsonl"
    text.write_text('{"text": "Ada King Lovelace met Bo"}\n')
    data = data_module(
        "token_classification", train=conll(tmp_path / "a.conll", form), test=str(text),
        validation_documents=0,
    )  # fmt: skip
    data.prepare_data()
    asked = data.test["test"]
    wanted = {"Ada": "B", "King": "I", "Lovelace": "L", "Bo": "U"} if form == "BILOU" else {}
    wanted = wanted or {"Ada": "B", "King": "I", "Lovelace": "E", "Bo": "S"}
    tag = (lambda letter: f"{letter}-PER") if form == "BILOU" else (lambda letter: f"PER-{letter}")
    tags = [tag(wanted[word]) if word in wanted else "O" for word in asked.examples[0].words]
    logits = torch.zeros(len(tags), len(asked.names))
    logits[range(len(tags)), [asked.names.index(one) for one in tags]] = 9.0
    found = TokenPredictions(asked, constrained=True)
    found.add({"words": torch.arange(len(tags))}, {"logits": logits})
    found.join(lambda mine: [mine])
    (row,) = found.rows()
    assert [one["text"] for one in row["predicted_entities"]] == ["Ada King Lovelace", "Bo"]


def test_several_columns_may_be_of_different_schemes() -> None:
    rows = [
        {
            "words": ["Ada", "King", "ran"],
            "ner": ["B-PER", "L-PER", "O"],
            "pos": ["N", "N", "V"],
            "np": ["I-X", "I-X", "O"],
        }
    ]
    data = prepared_data("joint_tagging", train=rows, tag_columns=["ner", "pos", "np"])
    schemes = {name: one.scheme for name, one in data.train_set.columns.items()}
    assert schemes == {"ner": "BILOU", "pos": None, "np": "IOB1"}
    assert data.facts()["tags of ner"] == "BILOU"
    assert data.facts()["tags of pos"] == "none of entities"
    measured = JointPredictions(data.train_set, True, dict.fromkeys(schemes, 1.0)).measured_names()
    assert [name for name in measured if name.startswith("entity_f1")] == ["entity_f1_ner", "entity_f1_np"]
