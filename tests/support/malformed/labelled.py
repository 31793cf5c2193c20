"""Labelled rows that cannot be used: tables, CoNLL, SQuAD, spans, choices, lists, several tags, pairs, scores."""

import json

from tests.support.malformed.text import parquet

SQUAD = {"id": "1", "question": "who?", "answers": [{"text": "the heron", "answer_start": 0}]}


def squad(**changed: object) -> str:
    """SQuAD's format with one paragraph of two questions; what is `changed` in the second."""
    second = {**SQUAD, "id": "2", **changed}
    context = second.pop("context", "the heron watches")
    paragraphs = [
        {"context": "the heron watches", "qas": [{**SQUAD, "id": f"q{n}"} for n in range(3)]},
        *({"context": f"the heron {n}", "qas": [{**SQUAD, "id": f"r{n}"}]} for n in range(20)),
        {"context": context, "qas": [{k: v for k, v in second.items() if v is not ...}]},
    ]
    return json.dumps({"data": [{"title": "birds", "paragraphs": paragraphs}]})


def lines(good: dict, *bad: object) -> str:
    """Twenty good rows, each with a number in its texts, and bad ones."""
    rows = [numbered(good, n) for n in range(20)]
    return "".join(json.dumps(row) + "\n" for row in [*rows, *bad])


def numbered(row: dict, number: int) -> dict:
    texts = {
        key: f"{row[key]} {number}"
        for key in ("text", "query", "passage", "context")
        if isinstance(row.get(key), str)
    }
    more = {"words": [*row["words"][:-1], f"w{number}"]} if "words" in row else {}
    return {**row, **texts, **more}


TEXT = "Ada Lovelace's notes, from London."
SPAN = {"text": TEXT, "entities": [[0, 12, "PER"], [27, 33, "LOC"]]}
CHOICE = {"text": "it flies", "choices": ["heron", "stone"], "label": 0}
RANK = {"query": "what flies", "passage": ["heron", "stone"], "label": [1, 0]}
PAIR = {"query": "what flies", "passage": "a heron", "score": 0.5}
WORDS = {"words": ["a", "b"], "labels": ["X", "Y"]}
TAGGED = {"words": ["a", "b"], "pos": ["X", "Y"], "ner": ["O", "O"]}
LABELLED = {"text": "red", "label": "a"}

FILES: dict[str, str | bytes] = {
    # classification
    "l/good.csv": "text,label\n" + "".join(f"a red {n},red\na blue {n},blue\n" for n in range(20)),
    "l/one_label.csv": "text,label\n" + "".join(f"a red {n},red\n" for n in range(20)),
    "l/float_label.csv": "text,label\n" + "a,0.5\nb,nan\n" * 9,
    "l/inf_label.csv": "text,label\n" + "a,0.5\nb,inf\n" * 9,
    "l/mixed_label.csv": "text,label\na,0.5\nb,red\n" * 9,
    "l/all_blank.csv": "text,label\n,\n,\n",
    "l/header_only.csv": "text,label\n",
    "l/five_text.jsonl": lines(LABELLED, {"text": 5, "label": "a"}, {"text": "b", "label": "b"}),
    "l/list_text.jsonl": lines(LABELLED, {"text": ["a"], "label": "a"}, {"text": ["b"], "label": "b"}),
    "l/object_label.jsonl": lines(LABELLED, {"text": "a", "label": {"x": 1}}, {"text": "b", "label": "b"}),
    "l/null_label.jsonl": lines(LABELLED, {"text": "a", "label": None}, {"text": "b", "label": None}),
    "l/nested_label.jsonl": lines(LABELLED, {"text": "a", "label": [["x"]]}, {"text": "b", "label": [["y"]]}),
    "l/bool_label.jsonl": lines(LABELLED, {"text": "a", "label": True}, {"text": "b", "label": "no"}),
    "l/huge_label.jsonl": lines(LABELLED, {"text": "a", "label": 10**30}, {"text": "b", "label": 5}),
    "l/negative_label.jsonl": lines(LABELLED, {"text": "a", "label": -1}, {"text": "b", "label": 5}),
    "l/rows.json": "[1, 2]",
    "l/nulls.json": "[null, null]",
    "l/columns.json": '{"text": ["a", "b"], "label": ["x"]}',
    "l/five.json": "5",
    "l/surrogate.jsonl": '{"text": "\\ud800 a", "label": "x"}\n{"text": "b", "label": "y"}\n' * 20,
    "l/label_surrogate.jsonl": '{"text": "a", "label": "\\ud800"}\n{"text": "b", "label": "y"}\n' * 20,
    "l/binary.parquet": parquet(text=[b"\xff", b"b"], label=["a", "b"]),
    "l/null.parquet": parquet(text=["a", None], label=["a", "b"]),
    "l/struct.parquet": parquet(text=[{"a": 1}], label=["a"]),
    "l/list_label.csv": "text,label\n" + "a,\"['x'\"\nb,y\n" * 9,
    # one-hot
    "l/hot.csv": "text,a,b\nx,1,0\ny,2,0\n",
    "l/hot_text.csv": "text,a,b\nx,1,0\ny,yes,no\n",
    "l/hot_blank.csv": "text,a,b\nx,1,0\ny,,\n",
    # words with tags
    "l/tags.conll": "a X\nb Y\n\n" * 20,
    "l/short.conll": "a X\nb\n\n" * 20,
    "l/one_column.conll": "a\nb\n\n" * 9,
    "l/blank.conll": "\n\n\n",
    "l/latin.conll": "caf\xe9 X\n\n".encode("latin-1"),
    "l/docstart.conll": "-DOCSTART- -X- O\n\n",
    "l/short.conllu": "1\ta\ta\tX\n\n" * 9,
    "l/spaces.conllu": "1 a a X _ _ 0 root _ _\n\n" * 9,
    "l/no_tag.conllu": "1\ta\ta\t \t_\t_\t0\troot\t_\t_\n\n" * 9,
    "l/words_text.jsonl": lines(WORDS, {"words": "a b", "labels": ["X", "Y"]}),
    "l/words_numbers.jsonl": lines(WORDS, {"words": [1, 2], "labels": ["X", "Y"]}),
    "l/words_null.jsonl": lines(WORDS, {"words": None, "labels": ["X"]}),
    "l/words_nested.jsonl": lines(WORDS, {"words": [["a"]], "labels": [["X"]]}),
    "l/words_empty.jsonl": lines(WORDS, {"words": [], "labels": []}),
    "l/words_blank.jsonl": lines(WORDS, {"words": ["a", ""], "labels": ["X", "Y"]}),
    "l/labels_null.jsonl": lines(WORDS, {"words": ["a"], "labels": [None]}),
    "l/labels_objects.jsonl": lines(WORDS, {"words": ["a"], "labels": [{"a": 1}]}),
    "l/labels_text.jsonl": lines(WORDS, {"words": ["a", "b"], "labels": "X"}),
    "l/words_list.csv": "words,labels\n\"['a'\",\"['X']\"\n" * 9,
    # spans
    "l/entities_object.jsonl": lines(SPAN, {"text": TEXT, "entities": {"start": 0}}),
    "l/entities_text.jsonl": lines(SPAN, {"text": TEXT, "entities": "PER"}),
    "l/entities_null.jsonl": lines(SPAN, {"text": TEXT, "entities": [None]}),
    "l/entities_float.jsonl": lines(SPAN, {"text": TEXT, "entities": [[0.5, 12, "PER"]]}),
    "l/entities_text_start.jsonl": lines(SPAN, {"text": TEXT, "entities": [["0", "12", "PER"]]}),
    "l/entities_negative.jsonl": lines(SPAN, {"text": TEXT, "entities": [[-5, 12, "PER"]]}),
    "l/entities_backwards.jsonl": lines(SPAN, {"text": TEXT, "entities": [[12, 0, "PER"]]}),
    "l/entities_huge.jsonl": lines(SPAN, {"text": TEXT, "entities": [[0, 10**30, "PER"]]}),
    "l/entities_label.jsonl": lines(SPAN, {"text": TEXT, "entities": [[0, 12, None]]}),
    "l/entities_list_label.jsonl": lines(SPAN, {"text": TEXT, "entities": [[0, 12, ["PER"]]]}),
    "l/entities_short.jsonl": lines(SPAN, {"text": TEXT, "entities": [[0]]}),
    "l/entities_no_text.jsonl": lines(SPAN, {"text": None, "entities": []}),
    "l/spacy.json": json.dumps(
        [[TEXT, {"entities": SPAN["entities"]}], [TEXT, {"entities": [[0, 99, "X"]]}]]
    ),
    "l/spacy_text.json": json.dumps([[TEXT, {"entities": SPAN["entities"]}], [5, {"entities": []}]]),
    "l/prodigy.jsonl": lines(
        {"text": TEXT, "spans": [{"start": 0, "end": 12, "label": "PER"}]},
        {"text": TEXT, "spans": [{"start": 0}]},
    ),
    "l/doccano.jsonl": lines(
        {"text": TEXT, "label": SPAN["entities"]}, {"text": TEXT, "label": [[0, "twelve", "PER"]]}
    ),
    "l/doccano_offset.jsonl": lines(
        {"text": TEXT, "entities": [{"label": "PER", "start_offset": 0, "end_offset": 12}]},
        {"text": TEXT, "entities": [{"label": "PER", "start_offset": 0}]},
    ),
    "l/studio.json": json.dumps([{"data": {"text": TEXT}, "annotations": 5}]),
    "l/studio_result.json": json.dumps([{"data": {"text": TEXT}, "annotations": [{"result": 5}]}]),
    "l/studio_value.json": json.dumps(
        [{"data": {"text": TEXT}, "annotations": [{"result": [{"value": 5}]}]}]
    ),
    "l/studio_null.json": json.dumps([{"data": None, "annotations": []}]),
    "l/studio_data.json": json.dumps([{"data": 5, "annotations": [{"result": []}]}]),
    "l/studio_labels.json": json.dumps(
        [
            {
                "data": {"text": TEXT},
                "annotations": [{"result": [{"value": {"start": 0, "end": 12, "labels": []}}]}],
            }
        ]
    ),
    "l/studio_image.json": json.dumps([{"data": {"image": "a.png"}, "annotations": [{"result": []}]}]),
    # questions
    "l/squad_null.json": squad(answers=None),
    "l/squad_object.json": squad(answers={"text": "the heron", "answer_start": 0}),
    "l/squad_five.json": squad(answers=5),
    "l/squad_texts.json": squad(answers=["the heron"]),
    "l/squad_no_start.json": squad(answers=[{"text": "the heron"}]),
    "l/squad_text_start.json": squad(answers=[{"text": "the heron", "answer_start": "zero"}]),
    "l/squad_null_start.json": squad(answers=[{"text": "the heron", "answer_start": None}]),
    "l/squad_far.json": squad(answers=[{"text": "the heron", "answer_start": 999}]),
    "l/squad_negative.json": squad(answers=[{"text": "the heron", "answer_start": -3}]),
    "l/squad_huge.json": squad(answers=[{"text": "the heron", "answer_start": 10**30}]),
    "l/squad_other.json": squad(answers=[{"text": "a stork", "answer_start": 0}]),
    "l/squad_number.json": squad(answers=[{"text": 5, "answer_start": 0}]),
    "l/squad_no_id.json": squad(id=...),
    "l/squad_no_question.json": squad(question=...),
    "l/squad_question.json": squad(question=5),
    "l/squad_context.json": squad(context=5),
    "l/squad_context_null.json": squad(context=None),
    "l/squad_paragraphs.json": '{"data": [{"title": "t", "paragraphs": 5}]}',
    "l/squad_paragraph.json": '{"data": [{"title": "t", "paragraphs": [5]}]}',
    "l/squad_null_paragraphs.json": '{"data": [{"title": "t", "paragraphs": null}]}',
    "l/squad_qas.json": '{"data": [{"title": "t", "paragraphs": [{"context": "a", "qas": 5}]}]}',
    "l/squad_qa.json": '{"data": [{"title": "t", "paragraphs": [{"context": "a", "qas": [5]}]}]}',
    "l/squad_article.json": '{"data": [{"title": "t", "paragraphs": []}, 5]}',
    "l/squad_later.json": '{"data": [{"title": "t", "paragraphs": []}, {"title": "u"}]}',
    "l/squad_empty.json": '{"data": []}',
    "l/squad_none.json": '{"data": 5}',
    "l/squad_rows.jsonl": lines(
        {"question": "who", "context": "a b", "answers": {"text": ["a"], "answer_start": [0]}},
        {"question": "who", "context": "a b", "answers": {"text": ["a"]}},
    ),
    "l/squad_uneven.jsonl": lines(
        {"id": 1, "question": "who", "context": "a b", "answers": {"text": ["a", "b"], "answer_start": [0]}}
    ),
    # choices
    "l/choice_far.jsonl": lines(CHOICE, {**CHOICE, "label": 7}),
    "l/choice_negative.jsonl": lines(CHOICE, {**CHOICE, "label": -3}),
    "l/choice_null.jsonl": lines(CHOICE, {**CHOICE, "label": None}),
    "l/choice_float.jsonl": lines(CHOICE, {**CHOICE, "label": 0.5}),
    "l/choice_list.jsonl": lines(CHOICE, {**CHOICE, "label": [0]}),
    "l/choice_letter.jsonl": lines(CHOICE, {**CHOICE, "label": "Z"}),
    "l/choices_one.jsonl": lines(CHOICE, {**CHOICE, "choices": ["heron"]}),
    "l/choices_none.jsonl": lines(CHOICE, {**CHOICE, "choices": []}),
    "l/choices_null.jsonl": lines(CHOICE, {**CHOICE, "choices": None}),
    "l/choices_five.jsonl": lines(CHOICE, {**CHOICE, "choices": 5}),
    "l/choices_numbers.jsonl": lines(CHOICE, {**CHOICE, "choices": [1, None]}),
    "l/choices_text.jsonl": lines(CHOICE, {**CHOICE, "choices": "heron"}),
    "l/choices_nested.jsonl": lines(CHOICE, {**CHOICE, "choices": [["a"], ["b"]]}),
    "l/choices_object.jsonl": lines(CHOICE, {**CHOICE, "choices": {"text": "a"}}),
    "l/choices_gone.jsonl": lines(LABELLED, {"text": "a", "label": 0}),
    # ranking
    "l/rank_short.jsonl": lines(RANK, {**RANK, "label": [1]}),
    "l/rank_negative.jsonl": lines(RANK, {**RANK, "label": [1, -2]}),
    "l/rank_word.jsonl": lines(RANK, {**RANK, "label": ["good", 0]}),
    "l/rank_null.jsonl": lines(RANK, {**RANK, "label": None}),
    "l/rank_object.jsonl": lines(RANK, {**RANK, "label": {"a": 1}}),
    "l/rank_irrelevant.jsonl": lines(RANK, {**RANK, "label": [0, 0]}),
    "l/rank_one.jsonl": lines(RANK, {**RANK, "passage": ["heron"], "label": [1]}),
    "l/rank_blank.jsonl": lines(RANK, {**RANK, "passage": ["heron", None]}),
    "l/rank_number.jsonl": lines(RANK, {**RANK, "passage": 5}),
    "l/rank_query.jsonl": lines(RANK, {**RANK, "query": ""}),
    "l/rank_gone.jsonl": lines({"query": "a", "label": [1, 0]}),
    "l/rank_ungraded.jsonl": lines({"query": "a", "passage": ["b", "c"]}),
    # joint tagging
    "l/joint.jsonl": lines(TAGGED),
    "l/joint_short.jsonl": lines(TAGGED, {**TAGGED, "ner": ["O"]}),
    "l/joint_gone.jsonl": lines(TAGGED, {"words": ["a"], "pos": ["X"]}),
    "l/joint_null.jsonl": lines(TAGGED, {**TAGGED, "ner": None}),
    "l/joint_objects.jsonl": lines(TAGGED, {**TAGGED, "ner": [{}, {}]}),
    # pairs
    "l/pair_gone.jsonl": lines(PAIR, {"query": "a"}),
    "l/pair_null.jsonl": lines(PAIR, {**PAIR, "passage": None}),
    "l/pair_blank.jsonl": lines(PAIR, {**PAIR, "passage": " "}),
    "l/pair_number.jsonl": lines(PAIR, {**PAIR, "passage": 5}),
    "l/pair_list.jsonl": lines(PAIR, {**PAIR, "query": ["a"]}),
    "l/pair_negative.jsonl": lines({**PAIR, "negative": "b"}, {**PAIR, "negative": 5}),
    "l/pair_negatives.jsonl": lines({**PAIR, "negative": ["b"]}, {**PAIR, "negative": [None]}),
    "l/score_text.jsonl": lines(PAIR, {**PAIR, "score": "high"}),
    "l/score_null.jsonl": lines(PAIR, {**PAIR, "score": None}),
    "l/score_nan.jsonl": lines(PAIR, {**PAIR, "score": float("nan")}),
    "l/score_inf.jsonl": lines(PAIR, {**PAIR, "score": float("inf")}),
    "l/score_list.jsonl": lines(PAIR, {**PAIR, "score": [1]}),
    "l/pair.jsonl": lines(PAIR),
}
