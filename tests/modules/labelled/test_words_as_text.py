"""A tagger whose tokenizer takes spaces from the text: the run, its export, and pipelines read the same tokens."""

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForTokenClassification, AutoTokenizer, pipeline

from tests.data.labelled.words.word_tokenizers import word_tokenizer
from tests.data.pairs.rows import write
from tests.modules.conftest import Finetune
from tests.modules.test_finetuning import predictions
from tests.support.precision import rounding
from tiryns.runner.inference.evaluated import evaluate
from tiryns.runner.inference.predictor import Predictor

SHORT = ["trainer.max_steps=3", "trainer.validate_every=0"]


@pytest.mark.slow
@pytest.mark.rows(1)
@pytest.mark.parametrize("form", ["Llama 3", "Gemma"])
def test_an_exported_tagger_reads_words_as_the_run_did(finetune: Finetune, form: str, tmp_path: Path) -> None:
    word_tokenizer(form).save_pretrained(tmp_path / "tokenizer")
    run = finetune("token_classification", f"data.tokenizer={tmp_path / 'tokenizer'}", *SHORT)
    found = [line for line in predictions(run) if line["set"] == "test/test"]
    again = Predictor(run.path, {}).predict([{"words": line["words"]} for line in found])
    assert [one["predicted"] for one in again] == [line["predicted"] for line in found]
    sets = json.loads((run.path / "evaluation.json").read_text())["sets"]
    rows = [{"words": line["words"], "labels": line["gold"]} for line in found]
    test = write(tmp_path / "again.jsonl", rows)
    later = evaluate(str(run.path), {"again": str(test)}).content["sets"]["again"]["metrics"]
    assert later == pytest.approx(sets["test/test"]["metrics"], abs=rounding(1e-5, 1e-2))

    folder = str(run.path / "model")
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    theirs = AutoModelForTokenClassification.from_pretrained(folder).eval()
    tagger: Any = pipeline("token-classification", model=folder, ignore_labels=[])
    for line in found:
        given = tokenizer(line["words"], is_split_into_words=True, return_tensors="pt")
        assert given["input_ids"].tolist()[0] == tokenizer(" ".join(line["words"]))["input_ids"]
        words = given.word_ids()
        first = [words.index(word) for word in range(len(line["words"]))]
        best = theirs(input_ids=given["input_ids"]).logits[0, first].float().softmax(-1).max(-1).values
        assert best.tolist() == pytest.approx(line["probability"], abs=rounding(1e-4, 2e-2))
        (of_words,), of_text = (
            tagger(line["words"], is_split_into_words=True),
            tagger(" ".join(line["words"])),
        )
        tagged = [[(one["entity"], one["word"]) for one in every] for every in (of_words, of_text)]
        assert tagged[0] == tagged[1]
