"""Questions with answers, pairs of texts, choices, lists: SQuAD, BEIR, MTEB, MS MARCO, triplets, ARC, CrossEncoder."""

import json
from typing import Any

from tests.data.forms.form import TEXTS, Form, jsonl
from tests.data.forms.tables import MRPC, NLI, PAIR

QA, PAIRS, CHOICE, RANK = "question_answering", "pairs", "multiple_choice", "ranking"
CONTEXT = "Ada met Bo in Paris."
ANSWER: dict[str, list[Any]] = {"text": ["Bo"], "answer_start": [8]}
FOUND = {"id": "a", "answers": ["Bo"], "span": (8, 10)}


def squad(*more: dict[str, Any]) -> str:
    """SQuAD's format with an answered question, and more of them."""
    first = {"id": "a", "question": "whom?", "answers": [{"text": "Bo", "answer_start": 8}]}
    return json.dumps(
        {
            "version": "2",
            "data": [{"title": "t", "paragraphs": [{"context": CONTEXT, "qas": [first, *more]}]}],
        }
    )


def asked(*answers: Any, name: str = "answers", **more: Any) -> list[dict[str, Any]]:
    """A question for each of the answers."""
    rows = [
        {"id": "abc"[i], "question": "whom?", "context": CONTEXT, name: one} for i, one in enumerate(answers)
    ]
    return [*rows[:-1], rows[-1] | more]


IMPOSSIBLE = {"id": "b", "question": "when?", "answers": [], "is_impossible": True,
              "plausible_answers": [{"text": "Paris", "answer_start": 14}]}  # fmt: skip
SCORED = [{"sentence1": t, "sentence2": t + "!", "score": float(i % 4)} for i, t in enumerate(TEXTS)]
COSENT = ("data.label_column=score", "objective.loss=cosent")
TRIPLETS = [{"anchor": t, "positive": t + "!", "negative": t + "?"} for t in TEXTS]
TRIPLET = ("data.text_column=anchor", "data.pair_column=positive", "data.negative_columns=negative")
MARCO = [
    {"query": t, "query_id": i, "passages": {"is_selected": [1], "passage_text": [t]}}
    for i, t in enumerate(TEXTS)
]
ARC = [{"id": f"q{i}", "question": t, "choices": {"text": ["x", "y"], "label": ["A", "B"]}, "answerKey": "AB"[i % 2]}
       for i, t in enumerate(TEXTS)]  # fmt: skip
GRADED: list[dict[str, Any]] = [
    {"query": t, "passage": one, "label": i} for t in TEXTS for i, one in enumerate((t + "?", t + "!"))
]
LISTS = [{"query": t, "docs": [t + "?", t + "!"], "labels": [0, 1]} for t in TEXTS]
LISTED = {"text": TEXTS[0], "candidates": [TEXTS[0] + "?", TEXTS[0] + "!"], "label": [0.0, 1.0]}
OF_TWO = {"text": TEXTS[0], "candidates": [TEXTS[0] + "!", TEXTS[0] + "?"], "label": [1.0, 0.0]}
DOCS = ("data.choices_column=docs", "data.label_column=labels")
BGE = ("data.pair_column=pos", "data.negative_columns=neg")

FORMS = [
    Form("SQuAD 1.1", QA, "a.json", squad(), rows=1, first=FOUND),
    Form("SQuAD 2.0", QA, "a.json", squad(IMPOSSIBLE), rows=2, first=FOUND),
    Form("SQuAD 2.0, flat", QA, "a.jsonl", jsonl(asked(ANSWER, ANSWER, is_impossible=True)[::-1]), rows=2,
         first={"id": "b", "answers": [], "span": None}),
    Form("no answer as an empty text", QA, "a.jsonl", jsonl(asked({"text": [""], "answer_start": [-1]}, ANSWER)),
         rows=2,
         first={"answers": [], "span": None}),
    Form("an answer without its place", QA, "a.jsonl", jsonl(asked("Bo", name="answer")),
         error="Did you mean 'answer'"),
    *(Form(f"SQuAD 2.0, table with {yes}", QA, "a.csv", "id,question,context,answers,is_impossible\n" + "".join(
           f'{i},whom?,{CONTEXT},"{json.dumps(ANSWER).replace(chr(34), 2 * chr(34))}",{one}\n'
           for i, one in enumerate((yes, no))), rows=2, first={"answers": [], "span": None})
      for yes, no in (("TRUE", "FALSE"), ("1", "0"), ("True", ""))),
    Form("SQuAD 2.0, table in German", QA, "a.csv", "id,question,context,answers,is_impossible\na,whom?,Bo,[],WAHR\n",
         error="column 'is_impossible' holds 'WAHR', expected true or false"),
    Form("MRQA", QA, "a.jsonl", jsonl([{"header": {"dataset": "x"}}, {"context": CONTEXT, "qas": []}]),
         error="has no column 'question'; it has: header"),
    Form("BEIR, corpus", PAIRS, "corpus.jsonl", jsonl([{"_id": "d", "title": "", "text": t} for t in TEXTS]),
         error="BEIR has"),
    Form("BEIR, qrels", PAIRS, "a.tsv", "query-id\tcorpus-id\tscore\nq\td\t1\n",
         error="BEIR has queries, passages and their pairs"),
    Form("MTEB, STS", PAIRS, "a.jsonl", jsonl(SCORED), error=rf"set {' '.join((*PAIR, *COSENT))}$"),
    Form("MTEB, STS, named", PAIRS, "a.jsonl", jsonl(SCORED), (*PAIR, *COSENT), rows=6,
         first={"score": 0.0, "text": TEXTS[0]}),
    Form("MTEB, STS, scores unread", PAIRS, "a.jsonl", jsonl(SCORED), PAIR, rows=6,
         said="'score' is not read: data.label_column=score objective.loss=cosent reads it; without it the texts"),
    Form("GLUE as pairs", PAIRS, "a.jsonl", jsonl(MRPC), PAIR, rows=6, said="the column 'label' is not read"),
    Form("NLI as pairs", PAIRS, "a.jsonl", jsonl(NLI),
         ("data.text_column=premise", "data.pair_column=hypothesis"), rows=6,
         said="the column 'label' is not read"),
    *(Form(f"pairs of which some match, {name}", PAIRS, "a.jsonl", jsonl([{"text1": t, "text2": t + "!", name: i % 2}
           for i, t in enumerate(TEXTS)]), ("data.text_column=text1", "data.pair_column=text2"), rows=6,
           said=f"the column '{name}' is not read: data.label_column={name}") for name in ("is_match", "target", "y")),
    Form("pairs that all match", PAIRS, "a.jsonl", jsonl([{"text1": t, "text2": t + "!", "is_match": 1} for t in TEXTS]),
         ("data.text_column=text1", "data.pair_column=text2"), rows=6),
    Form("BGE", PAIRS, "a.jsonl", jsonl([{"query": t, "pos": [t + "!"], "neg": [t + "?"]} for t in TEXTS]),
         ("data.pair_column=pos", "data.negative_columns=neg"), error="column 'pos' holds a list, expected text"),
    Form("sentence-transformers, lists", PAIRS, "a.jsonl", jsonl([[t, t + "!"] for t in TEXTS]),
         error="expected a json object with named columns, found a list"),
    Form("triplets", PAIRS, "a.jsonl", jsonl(TRIPLETS), error=rf"set {' '.join(TRIPLET)}$"),
    Form("triplets, named", PAIRS, "a.jsonl", jsonl(TRIPLETS), TRIPLET, rows=6, first={"negatives": [TEXTS[0] + "?"]}),
    Form("triplets, negatives unread", PAIRS, "a.jsonl", jsonl(TRIPLETS), TRIPLET[:2], rows=6,
         said="'negative' is not read: data.negative_columns reads it"),
    Form("MS MARCO, hub", PAIRS, "a.jsonl", jsonl(MARCO), error="has no column 'passage'.*Did you mean 'passages'"),
    Form("MS MARCO, triples", PAIRS, "a.tsv", "".join(f"{t}\t{t}!\t{t}?\n" for t in TEXTS),
         ("data.header=[query,passage,negative]", "data.negative_columns=negative"), rows=6,
         first={"negatives": [TEXTS[0] + "?"]}),
    Form("ARC", CHOICE, "a.jsonl", jsonl(ARC), error=r"set data\.text_column=question data\.label_column=answerKey$"),
    Form("ARC, named", CHOICE, "a.jsonl", jsonl(ARC),
         ("data.text_column=question", "data.label_column=answerKey"), rows=6,
         first={"candidates": ["x", "y"], "label": "A"}),
    Form("CrossEncoder, pairs", RANK, "a.jsonl", jsonl(GRADED), rows=6, first=LISTED),
    Form("CrossEncoder, pairs as a table", RANK, "a.csv", "query,passage,label\n" + "".join(
         f"{row['query']},{row['passage']},{row['label']}\n" for row in GRADED), rows=6, first=LISTED),
    Form("TREC, by the query's id", RANK, "a.jsonl", jsonl([{**row, "qid": TEXTS.index(row["query"])} for row in GRADED]),
         ("data.id_column=qid",), rows=6, first={**LISTED, "id": "0"}),
    Form("CrossEncoder, lists", RANK, "a.jsonl", jsonl(LISTS), DOCS, rows=6, first=LISTED),
    Form("CrossEncoder, lists as a table", RANK, "a.tsv", "query\tdocs\tlabels\n" + "".join(
         f"{t}\t{json.dumps([t + '?', t + '!'])}\t[0, 1]\n" for t in TEXTS), (*DOCS, "data.quoting=false"), rows=6,
         first=LISTED),
    Form("CrossEncoder, lists unnamed", RANK, "a.jsonl", jsonl(LISTS),
         error="has no column 'passage'; it has: query, docs"),
    Form("lists without labels", RANK, "a.jsonl", jsonl([{"query": t, "passage": [t, t + "!"]} for t in TEXTS]),
         error="has no column 'label'"),
    Form("triplets to rank", RANK, "a.jsonl", jsonl(TRIPLETS), error=rf"set {' '.join(TRIPLET)}$"),
    Form("triplets to rank, named", RANK, "a.jsonl", jsonl(TRIPLETS), TRIPLET, rows=6, first=OF_TWO),
    Form("answers to rank", RANK, "a.jsonl", jsonl([{"question": r["query"], "answer": r["passage"], "label": r["label"]}
         for r in GRADED]), error="set data.text_column=question data.label_column=label data.choices_column=answer$"),
    Form("BGE to rank", RANK, "a.jsonl", jsonl([{"query": t, "pos": [t + "!"], "neg": [t + "?", t]} for t in TEXTS]), BGE,
         rows=6, first={"candidates": [TEXTS[0] + "!", TEXTS[0] + "?", TEXTS[0]], "label": [1.0, 0.0, 0.0]}),
    Form("BGE to rank, a number", RANK, "a.jsonl", jsonl([{"query": t, "pos": [5], "neg": [t]} for t in TEXTS]), BGE,
         error="column 'pos' holds 5, expected a text or a list of texts"),
]  # fmt: skip
