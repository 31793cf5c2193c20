"""Multiple choice as a user runs it: models that transformers loads."""

import json

import numpy as np
import pytest
from transformers import AutoModelForMultipleChoice, AutoModelForSequenceClassification, AutoTokenizer

from tests.modules.conftest import Finetune
from tests.modules.test_finetuning import predictions
from tests.support.precision import rounding


@pytest.mark.rows(1)
@pytest.mark.parametrize("architecture", ["bert", "crammed_bert"])
def test_export_is_loaded_by_transformers_and_says_the_same(finetune: Finetune, architecture: str) -> None:
    run = finetune("multiple_choice", f"model.architecture={architecture}")
    auto = AutoModelForMultipleChoice if architecture == "bert" else AutoModelForSequenceClassification
    trust = {} if architecture == "bert" else {"trust_remote_code": True}
    model = auto.from_pretrained(run.path / "model", **trust).eval()
    tokenizer = AutoTokenizer.from_pretrained(run.path / "model")
    for line in predictions(run)[:8]:
        texts = [line["text"]] * len(line["choices"])
        given = tokenizer(texts, line["choices"], padding=True, return_tensors="pt")
        if architecture == "bert":
            given = {name: value[None] for name, value in given.items()}
        else:
            given.pop("token_type_ids", None)
        probabilities = model(**given).logits.flatten().softmax(0)
        close = rounding(1e-4, 1e-2)
        of_predicted = float(probabilities[line["choices"].index(line["predicted"])])
        assert of_predicted == pytest.approx(line["probability"], abs=close)
        assert of_predicted >= float(probabilities.max()) - close
    tested = [line for line in predictions(run) if line["set"] == "test/test"]
    right = np.mean([line["predicted"] == line["gold"] for line in tested])
    found = json.loads((run.path / "evaluation.json").read_text())["sets"]["test/test"]
    assert found["metrics"]["accuracy"] == pytest.approx(right)
    assert sum(row["examples"] for row in found["numbers_of_choices"]) == 17
