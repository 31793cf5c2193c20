"""Joint tagging as a user runs it: cuts, ranks, kills, exports, predictions, evaluation and wrong input."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoModelForTokenClassification, AutoTokenizer

from tests.data.labelled.tasks import data_module, prepared_data, tags
from tests.data.pairs.rows import write
from tests.modules.conftest import Finetune
from tests.modules.test_finetuning import predictions
from tests.support.precision import rounding
from tiryns.runner.inference.evaluated import evaluate
from tiryns.runner.inference.predictor import Predictor
from tiryns.runner.report.evaluation import write_page


@pytest.mark.slow
@pytest.mark.rows(1)
@pytest.mark.parametrize("architecture", ["bert", "crammed_bert"])
def test_export_predicts_and_evaluates_as_the_run(
    finetune: Finetune, architecture: str, tmp_path: Path
) -> None:
    short = ["trainer.max_steps=3", "trainer.validate_every=3"]
    run = finetune("joint_tagging", f"model.architecture={architecture}", *short)
    trust: dict[str, Any] = {} if architecture == "bert" else {"trust_remote_code": True}
    theirs = AutoModelForTokenClassification.from_pretrained(run.path / "model", **trust).eval()
    labels = [theirs.config.id2label[i] for i in range(theirs.config.num_labels)]
    assert labels[:2] == ["kind=O", "kind=B-ANIMAL"]
    assert labels[-3:] == ["part=adjective", "part=noun", "part=verb"]
    encoder = AutoModel.from_pretrained(run.path / "model", **trust)
    state, whole = encoder.state_dict(), theirs.base_model.state_dict()
    assert all(torch.equal(state[name], value) for name, value in whole.items())
    tokenizer = AutoTokenizer.from_pretrained(run.path / "model")
    found = [line for line in predictions(run) if line["set"] == "test/test"]
    predictor = Predictor(run.path, {})
    again = predictor.predict([{"words": line["words"]} for line in found])
    for line, ours in zip(found, again, strict=True):
        given = tokenizer(line["words"], is_split_into_words=True, return_tensors="pt")
        words = given.word_ids()
        first = [words.index(word) for word in range(len(line["words"]))]
        logits = theirs(input_ids=given["input_ids"]).logits[0, first].float()
        part = logits[:, labels.index("part=adjective") :].softmax(-1)
        assert [labels[-3:][i].removeprefix("part=") for i in part.argmax(-1)] == line["predicted"]["part"]
        assert part.max(-1).values.tolist() == pytest.approx(
            line["probability"]["part"], abs=rounding(1e-4, 2e-2)
        )
        assert ours["predicted"] == line["predicted"]
    text = predictor.predict(["old bridge herons"])[0]
    assert [len(text["predicted"][name]) for name in ("kind", "part")] == [3, 3]
    metrics = json.loads((run.path / "evaluation.json").read_text())["sets"]["test/test"]["metrics"]
    right = [
        p == g for line in found for p, g in zip(line["predicted"]["part"], line["gold"]["part"], strict=True)
    ]
    assert metrics["accuracy_part"] == pytest.approx(np.mean(right))
    assert metrics["mean_score"] == pytest.approx((metrics["entity_f1_kind"] + metrics["accuracy_part"]) / 2)
    assert metrics["loss"] == pytest.approx(metrics["loss_kind"] + metrics["loss_part"])
    rows = write(tmp_path / "later.jsonl", tags(17, 2))
    later = evaluate(str(run.path), {"later": str(rows)})
    assert later.content["sets"]["later"]["metrics"] == pytest.approx(metrics, abs=rounding(1e-5, 1e-2))
    measured, ends = (later.content["sets"]["later"][key] for key in ("metrics", "intervals"))
    assert ends.keys() == measured.keys()
    for name, (low, high) in ends.items():
        assert low - 1e-9 <= measured[name] <= high + 1e-9, name
        assert low < high or not name.startswith("loss"), name
    later.write(tmp_path / "evaluated")
    page = write_page(tmp_path / "evaluated").read_text()
    assert "Entities of kind" in page
    assert "Classes of part" in page


CONLLU = """# text = Herons watch
1\tHerons\theron\tNOUN\t_\tNumber=Plur\t2\tnsubj\t_\t_
2\twatch\twatch\tVERB\t_\tMood=Ind|Tense=Pres\t0\troot\t_\tSpaceAfter=No

1\tThe\tthe\tDET\t_\tDefinite=Def\t2\tdet\t_\t_
2\triver\triver\tNOUN\t_\tNumber=Sing\t0\troot\t_\t_

"""


def test_files_of_a_word_a_line_have_columns_by_number_name_and_feature(tmp_path: Path) -> None:
    path = tmp_path / "train.conllu"
    path.write_text(CONLLU)
    columns = {"pos": "upos", "number": "feats.Number", "relation": 7}
    data: Any = prepared_data("joint_tagging", train=str(path), tag_columns=columns)
    assert [example.labels for example in data.train.examples] == [
        {"pos": ["NOUN", "VERB"], "number": ["Plur", "_"], "relation": ["nsubj", "root"]},
        {"pos": ["DET", "NOUN"], "number": ["_", "Sing"], "relation": ["det", "root"]},
    ]
    (tmp_path / "train.conll").write_text("Ada N B-PER\nsleeps V O\n\nBo N B-PER\nruns V O\n")
    rows = [{"words": ["Ada", "sleeps"], "labels": ["N", "V"], "ner": ["B-PER", "O"]}]
    for train, names in ((str(tmp_path / "train.conll"), [1, 2]), (rows, ["labels", "ner"])):
        data = data_module("joint_tagging", train=train, validation_documents=0, tag_columns=names)
        data.prepare_data()
        assert data.train.examples[0].labels == {str(names[0]): ["N", "V"], str(names[1]): ["B-PER", "O"]}


GOOD: dict[str, Any] = {"words": ["a", "b"], "pos": ["X", "Y"], "ner": ["O", "B-Z"]}


@pytest.mark.parametrize(
    ("rows", "fields", "problem"),
    [
        ([GOOD], {}, r"data.tag_columns=None: expected different columns of labels"),
        ([GOOD], {"tag_columns": "pos,pos"}, r"expected different columns"),
        ([GOOD], {"tag_columns": {"a=b": "pos"}}, r"'a=b' has signs other than letters"),
        (
            [GOOD],
            {"tag_columns": ["pos", "nerr"]},
            r"no row .* column 'nerr'; the first row has: words, pos, ner",
        ),
        (
            [GOOD, {"words": ["a"]}],
            {"tag_columns": ["pos", "ner"]},
            r"has none of the columns pos, ner; it has: words",
        ),
        (
            [{"tokens": ["a"], "pos": ["X"], "ner": ["O"]}],
            {"tag_columns": ["pos", "ner"]},
            r"has no column 'words'; it has: tokens, pos, ner. Set data.text_column",
        ),
        ([GOOD, {**GOOD, "ner": ["O"]}], {"tag_columns": ["pos", "ner"]}, r"2 words, but 1 labels"),
        (
            [{**GOOD, "ner": ["O", "O"]}],
            {"tag_columns": ["pos", "ner"]},
            r"column 'ner': .* one label only, O",
        ),
        ([GOOD], {"tag_columns": ["pos", "ner"], "labels": {"x": ["A"]}}, r"data.labels names 'x'"),
    ],
)
def test_wrong_rows_and_columns_are_named(rows: Any, fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as raised:
        data_module("joint_tagging", train=rows, validation_documents=0, **fields).prepare_data()
    assert "\n" not in str(raised.value)
