"""Tables of texts with labels: of the hub, of spreadsheets, of pandas, R and Java, compressed and as JSON."""

import json
import re
from pathlib import Path
from typing import Any

from datasets import ClassLabel, Dataset, DatasetDict, Features, Sequence, Value

from tests.data.forms.form import TEXTS, Form, archive, jsonl, table, texts

CLS = "classification"
SINGLE, MULTI, NUMBER = "single_label_classification", "multi_label_classification", "regression"
NAMES = ["neg", "pos"]


def dataset(labels: Any = (0, 1), kind: Any = None) -> Dataset:
    features = Features({"text": Value("string"), "label": kind or ClassLabel(names=NAMES)})
    given = [labels[i % len(labels)] for i in range(len(TEXTS))]
    return Dataset.from_dict({"text": TEXTS, "label": given}, features=features)


def hub_parquet(path: Path) -> None:
    dataset().to_parquet(str(path))


def saved(path: Path) -> None:
    DatasetDict(train=dataset(), test=dataset().select([0])).save_to_disk(str(path))


def shards(path: Path) -> None:
    (path / "data").mkdir(parents=True)
    for split, rows in (("train", range(6)), ("test", range(2))):
        dataset().select(rows).to_parquet(str(path / f"data/{split}-00000-of-00001.parquet"))


CARD = "---\nconfigs:\n" + "".join(
    f"- config_name: {name}\n  data_files:\n  - split: train\n    path: {name}/train.csv\n" for name in ("en", "de")
) + "dataset_info:\n" + "".join(
    f"- config_name: {name}\n  features:\n  - name: text\n    dtype: string\n  - name: label\n    dtype:\n"
    "      class_label:\n        names:\n          '0': neg\n          '1': pos\n" for name in ("en", "de")
) + "---\n# Birds\n"  # fmt: skip


def cloned(path: Path) -> None:
    folder = Path(str(path).partition(":")[0])
    for name in ("en", "de"):
        (folder / name).mkdir(parents=True)
        (folder / name / "train.csv").write_text(table([0, 1]).replace("heron", name))
    (folder / "README.md").write_text(CARD)


PANDAS_LISTS = "text,label\n" + "".join(f"{t},\"['a', 'b']\"\n{t}!,['a']\n" for t in TEXTS)
MRPC = [{"sentence1": t, "sentence2": t + "!", "label": i % 2, "idx": i} for i, t in enumerate(TEXTS)]
NLI = [{"premise": t, "hypothesis": t + "!", "label": i % 3} for i, t in enumerate(TEXTS)]
PAIR = ("data.text_column=sentence1", "data.pair_column=sentence2")

FORMS = [
    Form("hub, parquet with ClassLabel", CLS, "train-00000-of-00001.parquet", hub_parquet, rows=6, labels=NAMES,
         first={"text": TEXTS[0], "label": "neg"}, kind=SINGLE),
    Form("hub, folder of shards", CLS, "hub", shards, rows=6, labels=NAMES, kind=SINGLE),
    Form("hub, clone with a card", CLS, "clone:de", cloned, rows=6, labels=NAMES, first={"label": "neg", "text":
         TEXTS[0].replace("heron", "de")}),
    Form("hub, clone with a card, no configuration", CLS, "clone", cloned,
         error=r"has several configurations: en, de\. Write .*clone:en$"),
    Form("datasets, saved splits", CLS, "saved", saved, rows=6, labels=NAMES),
    Form("hub, several classes", CLS, "a.parquet", lambda path: dataset(([0], [0, 1]), Sequence(ClassLabel(names=NAMES)))
         .to_parquet(str(path)), rows=6, labels=NAMES, kind=MULTI, first={"label": ["neg"]}),
    Form("GLUE, pair", CLS, "a.jsonl", jsonl(MRPC), error=rf"By what they hold, set {' '.join(PAIR)}$"),
    Form("GLUE, pair, named", CLS, "a.jsonl", jsonl(MRPC), PAIR, rows=6, first={"pair": TEXTS[0] + "!", "label": 0}),
    Form("GLUE, first text alone", CLS, "a.jsonl", jsonl(MRPC), PAIR[:1], rows=6,
         said=r"the column 'sentence2' is not read: data\.pair_column=sentence2 reads it"),
    Form("NLI", CLS, "a.jsonl", jsonl(NLI), error="set data.text_column=premise data.pair_column=hypothesis$"),
    Form("STS, numbers", CLS, "a.jsonl", jsonl([{**row, "label": i / 2} for i, row in enumerate(MRPC)]), PAIR, rows=6,
         labels=[], kind=NUMBER, first={"label": 0.0}),
    Form("Excel, UTF-8 with mark", CLS, "a.csv", b"\xef\xbb\xbf" + table(["gut", "schlecht"], ";", end="\r\n").encode(),
         rows=6, labels=["gut", "schlecht"], said="semicolon, utf-8, header", first={"text": TEXTS[0]}),
    Form("Excel, cp1252", CLS, "a.csv", table(["müde", "größer"], ";", end="\r\n").encode("cp1252"),
         error=r"is not UTF-8 \(byte 0xfc at offset 40\): set data\.encoding=cp1252 or data\.encoding="),
    Form("Excel, cp1252, named", CLS, "a.csv", table(["müde", "größer"], ";", end="\r\n").encode("cp1252"),
         ("data.encoding=cp1252",), rows=6, labels=["größer", "müde"], said="semicolon, cp1252"),
    Form("Excel, Unicode text", CLS, "a.csv", table(["a", "b"], "\t", end="\r\n").encode("utf-16"), rows=6,
         labels=["a", "b"], said="tab, utf-16"),
    Form("Excel, exponents", CLS, "a.csv", table(["1,5E+03", "2,5E-01"], ";"), error=r"'1,5E\+03'. Write 1\.5E\+03"),
    Form("Excel, line with the delimiter", CLS, "a.csv", "sep=;\r\n" + table(["a", "b"], ";", end="\r\n"), rows=6,
         labels=["a", "b"], first={"text": TEXTS[0]}),
    Form("Excel, sheet", CLS, "a.xlsx", archive("xl/workbook.xml", "<x/>"),
         error="unknown format.*Save the sheet as csv"),
    Form("Excel, sheet called csv", CLS, "a.csv", archive("xl/workbook.xml", "<x/>"),
         error="no text, but a zip archive"),
    Form("zip", CLS, "a.csv.zip", archive("a.csv", table([0, 1])), error="Unpack it"),
    Form("pandas, index", CLS, "a.csv", ",text,label\n" + "".join(f"{i},{t},{i % 2}\n" for i, t in enumerate(TEXTS)),
         rows=6, labels=["0", "1"], first={"text": TEXTS[0], "label": "0"}),
    Form("pandas, lists in cells", CLS, "a.csv", PANDAS_LISTS,
         error=r"reads as several labels: write lists, as in jsonl"),
    Form("several labels in a cell", CLS, "a.csv", table(["a", "b", '"a,b"']),
         error=r"'a,b' reads as several labels: set data\.label_separator=\"','\""),
    Form("doccano, table", CLS, "a.csv", table(["a", "b", "a#b"]),
         error=r"'a#b' reads as several labels: set data\.label_separator=\"'#'\""),
    Form("doccano, table, named", CLS, "a.csv", table(["a", "b", "a#b"]), ("data.label_separator='#'",), rows=6,
         labels=["a", "b"], kind=MULTI),
    Form("Label Studio, table with several choices", CLS, "a.csv", table(["a", "b", '"{""choices"":[""a"",""b""]}"']),
         error=r"line 4: the label '\{.choices.*reads as several labels: write lists"),
    Form("several labels as JSON text", CLS, "a.jsonl", jsonl(texts(["a", "b", "b;a"])),
         error="'b;a' reads as several"),
    Form("R, NA", CLS, "a.csv", table(["pos", "neg", "NA"]), rows=6, labels=["NA", "neg", "pos"],
         said="'NA' is a class, as it is written"),
    *(Form(f"Excel, {error}", CLS, "a.csv", table(["a", "b", error]), rows=6, labels=[error, "a", "b"],
           said=f"'{re.escape(error)}' is a class, as it is written")
      for error in ("#DIV/0!", "#WERT!", "#NAME?", "#NV")),
    Form("Excel, truth values", CLS, "a.csv", table(["WAHR", "FALSCH"], ";", end="\r\n"), rows=6,
         labels=["FALSCH", "WAHR"]),
    Form("Excel, one-hot", CLS, "a.csv", "text;a;b\r\n" + "".join(f"{t};TRUE;{('TRUE', 'FALSE')[i % 2]}\r\n"
         for i, t in enumerate(TEXTS)), ("data.label_columns=[a,b]",), rows=6, labels=["a", "b"], kind=MULTI,
         first={"label": ["a", "b"]}),
    Form("Excel, one-hot in German", CLS, "a.csv", "text;a;b\r\n" + "".join(f"{t};WAHR;FALSCH\r\n" for t in TEXTS),
         ("data.label_columns=[a,b]",), error="column 'a' holds 'WAHR', expected 0 or 1"),
    Form("Excel of a Mac, ends of lines", CLS, "a.csv", table(["gut", "schlecht"], ";", end="\r"), rows=6,
         labels=["gut", "schlecht"], first={"text": TEXTS[0]}),
    Form("macOS, names of files as labels", CLS, "a.csv", table(["m\u00fcde", "mu\u0308de"]), rows=6,
         labels=["mu\u0308de", "m\u00fcde"], said=r"one spelling: 'mu.u0308de' and 'm\u00fcde'"),
    Form("SetFit, names beside numbers", CLS, "a.jsonl", jsonl([{**one, "label_text": NAMES[one["label"]]} for one in
         texts([0, 1])]), rows=6, labels=["0", "1"]),
    Form("AG News", CLS, "a.csv", "".join(f'"{1 + i % 2}","{t}","{t}"\n' for i, t in enumerate(TEXTS * 2)),
         ("data.header=[label,text,more]",), rows=12, labels=["1", "2"], first={"text": TEXTS[0], "label": "1"}),
    Form("Java, numbers", CLS, "a.csv", table(["1.5E8", "2.25E7"]), rows=6, labels=[], kind=NUMBER),
    *(Form(f"tables one behind the other, {file}", CLS, file, 2 * (mark + table(["a", "b"], sep)), rows=12,
           labels=["a", "b"], first={"text": TEXTS[0]}, said=r"1 header within the table \(.*line 8\)")
      for file, sep, mark in (("a.csv", ",", ""), ("a.tsv", "\t", "\ufeff"))),
    Form("header of a table, named", CLS, "a.csv", table(["a", "b"]), ("data.header=[text,label]",), rows=6,
         labels=["a", "b"], said=r"1 header within the table \(.*line 1\)"),
    *(Form(f"vectors of labels, {kind.__name__}", CLS, "a.jsonl", jsonl(texts([list(map(kind, one)) for one in
           ([0, 1, 0], [1, 0, 1])])), error=r"line 1: .* reads as 3 labels with a 1 for each .*data\.label_columns")
      for kind in (int, bool)),
    Form("vectors of labels with names", CLS, "a.jsonl", jsonl(texts([[0, 1], [1, 0]])),
         ("data.labels=[a,b]", "data.problem_type=multi_label"), error="reads as 2 labels with a 1 for each"),
    Form("vectors of labels, fractions", CLS, "a.jsonl", jsonl(texts([[0.0, 1.0], [1.0, 0.0]])),
         error="Expected text, integers, numbers or lists of text or integers"),
    *(Form(f"vectors of labels as text, {one}", CLS, "a.csv", table([f'"{one}"', f'"{one.replace("1", "0", 1)}"']),
           error=r"line 2: .* reads as 3 labels with a 1 for each .*data\.label_columns=.*problem_type=single_label$")
      for one in ("1 0 1", "[1, 0, 1]", "[1.0 0.0 1.0]", "1,0,1", "1|0|1")),
    Form("vectors of labels as text, cut", CLS, "a.csv", table(["1|0|1", "0|0|1"]), ("data.label_separator='|'",),
         error="reads as 3 labels with a 1 for each"),
    Form("vectors of labels as text, classes", CLS, "a.csv", table(["1 0 1", "0 0 1"]),
         ("data.problem_type=single_label",), rows=6, labels=["0 0 1", "1 0 1"], kind=SINGLE),
    Form("vectors of two as text", CLS, "a.csv", table(["1-0", "0-1"]), rows=6, labels=["0-1", "1-0"]),
    *(Form(f"several labels that never stand alone, {sign}", CLS, "a.csv", table(
           [f'"{sign.join(one)}"' for one in ("a", "bc", "bd")]), rows=6, kind=SINGLE,
           said=rf"labels: .*as they are written, though most hold '{re.escape(sign.strip())}'; "
           rf"data\.label_separator=\"'{re.escape(sign.strip())}'\" makes several labels of each")
      for sign in (", ", ";", "|")),
    Form("names with commas", CLS, "a.csv", table(['"a, b"', "c", "d"]), rows=6, labels=["a, b", "c", "d"]),
    Form("several labels that never stand alone, as classes", CLS, "a.csv", table(["a;b", "b;c"]),
         ("data.problem_type=single_label",), rows=6, labels=["a;b", "b;c"]),
    Form("lists of class numbers", CLS, "a.jsonl", jsonl(texts([[0, 1], [1], []])), rows=6, labels=["0", "1"],
         kind=MULTI),
    Form("JSON of splits", CLS, "a.json", json.dumps({"train": texts([0, 1]), "test": texts([0])}),
         error="has its records under 'train' and 'test'"),
    Form("pandas, columns as JSON", CLS, "a.json", json.dumps({"text": dict(enumerate(TEXTS)), "label": {}}),
         error="column 'text' holds a dict, expected text"),
    Form("fastText", CLS, "a.txt", "".join(f"__label__a {t}\n" for t in TEXTS),
         error=r"Set data\.format to what it holds"),
]  # fmt: skip
