"""Annotations: Label Studio, doccano, spaCy, Prodigy, brat, and words in columns."""

import json
from pathlib import Path
from typing import Any

from datasets import ClassLabel, Dataset, Features, Sequence, Value

from tests.data.forms.form import TEXTS, Form, jsonl
from tests.data.forms.tables import CLS, MULTI, SINGLE

TOK = "token_classification"
TEXT = "Ada met Bo"
TAGS = ["B-PER", "O", "B-PER"]
SPANS: list[Any] = [[0, 3, "PER"], [8, 10, "PER"]]
READ = {"words": TEXT.split(), "labels": TAGS}
OBJECTS = [{"start": start, "end": end, "label": label} for start, end, label in SPANS]


def studio(
    text: str, *spans: tuple[int, int, str, str], cancelled: bool = False, **more: Any
) -> dict[str, Any]:
    """A task of Label Studio's export, whose spans have their texts."""
    result = [{"id": f"r{start}", "type": "labels", "value": {"start": start, "end": end, "text": own, "labels": [label]}}
              for start, end, own, label in spans]  # fmt: skip
    made = {
        "was_cancelled": cancelled,
        "result": [*result, {"type": "relation", "from_id": "r0", "to_id": "r8"}],
    }
    return {"id": 1, "data": {"text": text}, "annotations": [made], "predictions": [], **more}


ADA, BO = (0, 3, "Ada", "PER"), (8, 10, "Bo", "PER")
CONTESTED = studio(TEXT, ADA, BO)
CONTESTED["annotations"].append(studio(TEXT, ADA)["annotations"][0])
HASHES = {"_input_hash": 1, "_task_hash": 2, "_view_id": "ner_manual"}
TOKENS = [{"text": "Ada", "start": 0, "end": 3, "id": 0, "ws": True}]
PRODIGY = [{"text": TEXT, "tokens": TOKENS, "spans": OBJECTS, "answer": "accept", **HASHES},
           {"text": "rain falls", "tokens": [], "spans": [{"start": 0, "end": 4, "label": "LOC"}],
         "answer": "reject", **HASHES},
           {"text": "snow falls", "tokens": [], "spans": [], "answer": "ignore", **HASHES}]  # fmt: skip
CHOICES = [{"text": t, "options": [{"id": "a"}, {"id": "b"}], "accept": ["ab"[i % 2]], "answer": "accept", **HASHES}
           for i, t in enumerate(TEXTS)]  # fmt: skip
STUDIO_CHOICES = [
    {"data": {"text": t}, "annotations": [{"result": [{"value": {"choices": ["a"]}}]}]} for t in TEXTS
]
STUDIO_MIN = [
    {"text": t, "sentiment": "ab"[i % 2], "id": i, "annotator": 1, "updated_at": "2024"}
    for i, t in enumerate(TEXTS)
]


def named(task: dict[str, Any], sources: list[tuple[str, str]], **data: str) -> dict[str, Any]:
    """The task with the sets and the tags of texts that its spans are of, and further texts."""
    for one, (labels, text) in zip(task["annotations"][0]["result"], sources, strict=False):
        one |= {"from_name": labels, "to_name": text}
    return task | {"data": {**data, **task["data"]}}


SETS = [named(studio(TEXT, ADA), [("ner", "text")]), named(studio(TEXT, BO), [("role", "text")])]
TITLED = [named(studio(TEXT, ADA, BO), 2 * [("ner", "text")], title="Bo met"), {**studio(TEXT), "data": {"text": TEXT,
          "title": "x"}}]  # fmt: skip
BOTH = [
    named(studio(TEXT, ADA, (0, 2, "Bo", "PER")), [("ner", "text"), ("of_title", "title")], title="Bo met")
]
UNNAMED = [{**TITLED[0], "data": {"title": "Bo met", "body": TEXT}}]
BODY = [json.loads(json.dumps(UNNAMED[0]).replace('"to_name": "text"', '"to_name": "body"'))]


WHERE = "\u6211\u7231\u5317\u4eac"
"""I love Beijing, of which the last two are its name."""
ATTRIBUTES = studio(TEXT, ADA, BO)
ATTRIBUTES["annotations"][0]["result"] += [
    {"id": "r0", "type": "choices", "value": {"start": 0, "end": 3, "text": "Ada", "choices": ["living"]}},
    {"id": "r8", "type": "textarea", "value": {"start": 8, "end": 10, "text": ["a king"]}},
]


def ner(path: Path) -> None:
    names = ["O", "B-PER", "I-PER"]
    features = Features(
        {
            "id": Value("string"),
            "tokens": Sequence(Value("string")),
            "ner_tags": Sequence(ClassLabel(names=names)),
        }
    )
    rows = {"id": ["7"], "tokens": [TEXT.split()], "ner_tags": [[1, 0, 1]]}
    Dataset.from_dict(rows, features=features).to_parquet(str(path))


def brat(path: Path) -> None:
    path.mkdir()
    (path / "a.txt").write_text(TEXT)
    (path / "a.ann").write_text("T1\tPER 0 3;8 10\tAda Bo\n")


WORDS = ["Ada", "met", "Bo", "and", "Paris"]
HUB = ("data.text_column=tokens", "data.label_column=ner_tags")
CONLL_2003 = "-DOCSTART- -X- -X- O\n\nAda NNP B-NP B-PER\nmet VBD B-VP O\nBo NNP B-NP B-PER\n"
CONLLU = "# sent_id = 1\n1-2\tI'm\t_\t_\t_\t_\t_\t_\t_\t_\n" + "".join(
    f"{i}\t{word}\t_\t{tag}\t_\t_\t0\troot\t_\t_\n" for i, (word, tag) in enumerate((("I", "PRON"), ("'m", "AUX")), 1)
)  # fmt: skip

FORMS = [
    Form("hub, tokens and ner_tags", TOK, "a.parquet", ner, error=f"By what they hold, set {' '.join(HUB)}$"),
    Form("hub, named", TOK, "a.parquet", ner, HUB, rows=1, first={**READ, "id": "7"},
         labels=["O", "B-PER", "I-PER"], kind="IOB2"),
    Form("Label Studio, JSON", TOK, "a.json", json.dumps([studio(TEXT, ADA, BO)]), rows=1, first=READ, kind="IOB2"),
    Form("Label Studio, emoji", TOK, "a.json",
         json.dumps([studio("😀 " + TEXT, (3, 6, "Ada", "PER"), (11, 13, "Bo", "PER"))]),
         rows=1, first={"words": ["😀", *TEXT.split()], "labels": ["O", *TAGS]}, said="count UTF-16 units"),
    Form("Label Studio, skipped task", TOK, "a.json", json.dumps([studio(TEXT, ADA, BO),
         studio("rain", cancelled=True)]),
         rows=1, first=READ, said="1 rejected or skipped by the annotator"),
    Form("Label Studio, annotators who differ", TOK, "a.json", json.dumps([CONTESTED]), rows=1, first=READ,
         said="1 of 1 texts have annotations that differ, of which the first counts"),
    *(Form(f"Label Studio, a result that is {result!r}", TOK, "a.json",
           json.dumps([{"text": TEXT, "entities": SPANS, "annotations": [{"result": result}, {"result": ["x"]}]}]),
           rows=1, first=READ, said="annotations that differ") for result in ("ok", 5)),
    Form("Label Studio, attributes of entities", TOK, "a.json", json.dumps([ATTRIBUTES]), rows=1, first=READ,
         labels=["O", "B-PER"]),
    Form("Label Studio, two sets of labels", TOK, "a.json", json.dumps(SETS),
         error=r"several sets of labels, ner, role: set data\.label_column to the one that counts$"),
    Form("Label Studio, two sets of labels, named", TOK, "a.json", json.dumps(SETS), ("data.label_column=role",), rows=2,
         first={"labels": ["O", "O", "O"]}, labels=["O", "B-PER"], said=r"ner, role: data\.label_column=role counts"),
    Form("words beside data of several texts", TOK, "a.json", json.dumps([{**READ, "data": {"a": "x", "b": "y"}}]),
         rows=1, first=READ),
    Form("Label Studio, a task without the text", TOK, "a.json", json.dumps([*BODY, studio("rain")]),
         error=r"the task has no text 'body' in its data; data\.on_bad_row"),
    Form("Label Studio, two texts", TOK, "a.json", json.dumps(TITLED), rows=2, first=READ),
    Form("Label Studio, the second text", TOK, "a.json", json.dumps(BODY), rows=1, first=READ),
    Form("Label Studio, two texts with entities", TOK, "a.json", json.dumps(BOTH),
         error=r"several texts, text, title: set data\.text_column to the one that counts$"),
    Form("Label Studio, two texts with entities, named", TOK, "a.json", json.dumps(BOTH), ("data.text_column=title",),
         rows=1, first={"words": ["Bo", "met"], "labels": ["B-PER", "O"]},
         said=r"text, title: data\.text_column=title counts"),
    Form("Label Studio, two texts and the name of a tag", TOK, "a.json", json.dumps(UNNAMED),
         error=r"several texts, body, title: set data\.text_column to the one that counts$"),
    Form("Label Studio, dialogue", TOK, "a.json", json.dumps([{"data": {"dialogue": [{"author": "a", "text": TEXT}]},
         "annotations": [{"result": [{"type": "paragraphlabels", "value": {"start": "0"}}]}]}]),
         error="has no column 'words'; it has: data, annotations. Expected a list of words"),
    Form("Label Studio, JSON-MIN", TOK, "a.json", json.dumps([{"id": 1, "text": TEXT, "annotator": 1, "label": [
         {"start": s, "end": e, "text": TEXT[s:e], "labels": [n]} for s, e, n in SPANS]}]), rows=1, first=READ),
    Form("Label Studio, CONLL", TOK, "a.conll", "-DOCSTART- -X- O\n😀 -X- _ O\nAda -X- _ B-PER\n\nBo -X- _ B-PER\n",
         rows=2,
         first={"words": ["😀", "Ada"], "labels": ["O", "B-PER"]}),
    Form("Label Studio, choices", CLS, "a.json", json.dumps(STUDIO_CHOICES),
         error="Export JSON-MIN or CSV from Label Studio"),
    Form("Label Studio, choices as JSON-MIN", CLS, "a.json", json.dumps(STUDIO_MIN),
         error=r"set data\.label_column=sentiment$"),
    Form("doccano, entities and relations", TOK, "a.jsonl", jsonl([{"id": 1, "text": TEXT, "entities": [
         {"id": n, "label": "PER", "start_offset": s, "end_offset": e} for n, (s, e, _) in enumerate(SPANS)],
         "relations": [{"id": 0, "from_id": 0, "to_id": 1, "type": "met"}], "Comments": []}]), rows=1, first=READ),
    Form("doccano, spans", TOK, "a.jsonl", jsonl([{"id": 1, "text": TEXT, "label": SPANS}]), rows=1, first=READ),
    Form("doccano, classes", CLS, "a.jsonl",
         jsonl([{"text": t, "label": ["ab"[i % 2]]} for i, t in enumerate(TEXTS)]), rows=6,
         labels=["a", "b"], kind=MULTI, said=r"every list has one; data\.problem_type=single_label"),
    Form("doccano, classes, one each", CLS, "a.jsonl",
         jsonl([{"text": t, "label": ["ab"[i % 2]]} for i, t in enumerate(TEXTS)]),
         ("data.problem_type=single_label",), rows=6, labels=["a", "b"], kind=SINGLE),
    Form("spaCy, training pairs", TOK, "a.json", json.dumps([[TEXT, {"entities": SPANS}]]), rows=1, first=READ),
    Form("spaCy, Doc.to_json", TOK, "a.jsonl", jsonl([{"text": TEXT, "ents": OBJECTS, "tokens": []}]), rows=1,
         first=READ),
    Form("spaCy, DocBin", TOK, "a.spacy", b"\x78\x9c\x00", error="Convert spaCy's DocBin to json"),
    Form("Prodigy, spans", TOK, "a.jsonl", jsonl(PRODIGY), rows=1, first=READ, labels=["O", "B-PER"],
         said="2 rejected or skipped by the annotator"),
    Form("Prodigy, classes", CLS, "a.jsonl", jsonl([{"text": t, "label": "ab"[i % 2],
         "answer": "accept" if i < 4 else "reject",
         **HASHES} for i, t in enumerate(TEXTS)]), rows=4, labels=["a", "b"],
         said="2 rejected or skipped by the annotator"),
    Form("Prodigy, choices", CLS, "a.jsonl", jsonl(CHOICES), error=r"set data\.label_column=accept$"),
    *(Form(f"ends that are counted in, {name}", TOK, "a.jsonl", jsonl([{"text": WHERE, "entities": [entity]}]),
           error=f"annotated as '{WHERE[2:]}', but the text has '{WHERE[2]}' there: .* add 1 to the ends")
      for name, entity in (("pipeline", {"start": 2, "end": 3, "label": "LOC", "word": WHERE[2:]}),
                           ("CMeEE", {"start": 2, "end": 3, "label": "LOC", "entity": WHERE[2:]}),
                           ("lists", [2, 3, "LOC", WHERE[2:]]))),
    Form("normalised values", TOK, "a.jsonl", jsonl([{"text": TEXT, "entities": [
         {"start": 0, "end": 3, "label": "PER", "value": "Countess of Lovelace"}, [8, 10, "PER", "T2"]]}]), rows=1,
         first=READ),
    Form("GLiNER", TOK, "a.json", json.dumps([{"tokenized_text": TEXT.split(), "ner": [[0, 0, "PER"]]}]),
         error="has no column 'words'; it has: tokenized_text, ner. Expected a list of words"),
    Form("GLiNER, as words", TOK, "a.json", json.dumps([{"tokenized_text": TEXT.split(), "ner": [[0, 0, "PER"]]}]),
         ("data.text_column=tokenized_text", "data.label_column=ner"), error="3 words, but 1 labels"),
    Form("SpERT", TOK, "a.json", json.dumps([{"tokens": TEXT.split(), "entities": 3 * [{"start": 0, "type": "PER"}]}]),
         error="has no column 'words'; it has: tokens, entities. Expected a list of words"),
    Form("CLUENER", TOK, "a.json", jsonl([{"text": WHERE, "label": {"address": {WHERE[2:]: [[2, 3]]}}}]),
         error=r"a text without its entities; expected a list of \[start, end, label\]"),
    Form("LightTag", TOK, "a.json", json.dumps([{"content": TEXT, "annotations": [{"start": 0, "end": 3, "tag": "X"}]}]),
         ("data.text_column=content", "data.label_column=annotations"), error="is no entity: expected"),
    Form("brat, folder", TOK, "brat", brat,
         error="Convert brat's annotations to jsonl.*several parts has no such form"),
    Form("CoNLL-2003", TOK, "a.conll", CONLL_2003, rows=1, first=READ, kind="IOB2"),
    Form("CoNLL-2003 called txt", TOK, "a.txt", CONLL_2003, error=r"Set data\.format to what it holds, such as conll"),
    Form("CoNLL-2003 called txt, named", TOK, "a.txt", CONLL_2003, ("data.format=conll",), rows=1, first=READ),
    Form("MultiCoNER", TOK, "a.conll", "# id 5239\tdomain=en\nAda _ _ B-PER\nmet _ _ O\nBo _ _ B-PER\n", rows=1,
         first=READ),
    Form("WNUT, words that begin like comments", TOK, "a.conll", "#\tO\nAda\tB-PER\n# x\tO\n", rows=1,
         first={"words": ["#", "Ada", "# x"], "labels": ["O", "B-PER", "O"]}),
    Form("CoNLL, IOB1", TOK, "a.conll", "Ada I-PER\nBo B-PER\nruns O\n\nParis I-LOC\n", rows=2, kind="IOB1",
         labels=["O", "B-PER", "I-LOC", "I-PER"]),
    Form("CoNLL-U", TOK, "a.conllu", CONLLU, rows=1, first={"words": ["I", "'m"], "labels": ["PRON", "AUX"]}),
    Form("CoNLL-X", TOK, "a.conll", CONLLU.split("\n", 2)[2] + "\n1\tgo\tgo\tVERB\t_\t_\t0\troot\t_\tx\n",
         error=r"column 0 counts the words of a sentence: set data\.word_field"),
    Form("GermEval, named", TOK, "a.conll", "1\tAda\tB-PER\tO\n2\tmet\tO\tO\n3\tBo\tB-PER\tO\n",
         ("data.word_field=1", "data.tag_field=2"), rows=1, first=READ),
    Form("OntoNotes", TOK, "a.conll", "".join(f"bc/x 0 {i} {w} *\n" for i, w in enumerate(WORDS)),
         error=r"column 0 is 'bc/x' for all words: set data\.word_field"),
    Form("MIT, tags before words", TOK, "a.bio",
         "O\twhat\nO\tmovies\nB-ACTOR\tada\nI-ACTOR\tking\n\nO\tshow\nB-GENRE\tcomedy\n",
         error=r"the words are tags .* data\.word_field=-1 data\.tag_field=0"),
    Form("MIT, named", TOK, "a.bio", "O\twhat\nO\tmovies\nB-ACTOR\tada\nI-ACTOR\tking\n",
         ("data.word_field=-1", "data.tag_field=0"), rows=1, first={"labels": ["O", "O", "B-ACTOR", "I-ACTOR"]}),
    Form("Kaggle, a word in a row", TOK, "a.csv", "Sentence #,Word,POS,Tag\nSentence: 1,Ada,NNP,B-per\n,met,VBD,O\n",
         error="has no column 'words'.*Expected a list of words"),
    Form("pandas, lists of words in cells", TOK, "a.csv", "tokens,ner_tags\n\"['Ada', 'met']\",\"[1, 0]\"\n", HUB,
         error="a text without its entities; expected a list"),
]  # fmt: skip
