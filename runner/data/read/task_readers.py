"""Labelled rows from files: csv, tsv, jsonl, json, parquet, CoNLL, CoNLL-U and SQuAD; each knows where it stood.

Tables keep their own columns. CoNLL and CoNLL-U give `id`, `words` and `labels`; SQuAD gives `id`, `question`,
`context` and `answers` (`text` and `answer_start`, as in the hub's data sets).
"""

import csv
import glob
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from iolaus.conf.values import NAMED, suggest
from iolaus.runner.data.read.conll import Row, read_conll, read_conllu
from iolaus.runner.data.read.formats import decode


class Rows(NamedTuple):
    """All rows of a source; in a `textual` one numbers are text; `class_names` names integers, by column."""

    rows: list[Row]
    description: str
    textual: bool = False
    class_names: Mapping[str, list[str]] = {}


def read_rows(source: Any, format: str, word_field: int | str, tag_field: int | str | None) -> Rows:
    """Everything in `source`: a file, a glob, a list of them, `name@split` of the hub, or rows made in code.

    Rows made in code are mappings in any iterable, a `datasets.Dataset`, or an object with `rows()`. `format` is that
    of the files, `auto` goes by their endings; the two fields name the columns of CoNLL files.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a format that is not known, or a line that is not of its format (file and line are named).
    """
    if isinstance(source, str | Path):
        return _read_path(str(source), format, word_field, tag_field)
    if isinstance(source, list | tuple) and source and all(isinstance(s, str | Path) for s in source):
        parts = [_read_path(str(s), format, word_field, tag_field) for s in source]
        rows = [row for part in parts for row in part.rows]
        return Rows(rows, ", ".join(map(str, source)), any(part.textual for part in parts))
    if hasattr(source, "rows"):
        return Rows(
            [Row(f"{source.describe()}, row {i}", row) for i, row in enumerate(source.rows())],
            source.describe(),
        )
    return _rows_in_code(source)


def _rows_in_code(source: Iterable[Mapping[str, Any]]) -> Rows:
    rows = []
    for i, values in enumerate(source):
        if not isinstance(values, Mapping):
            raise ValueError(f"row {i} is a {type(values).__name__}; expected a mapping of columns to values")
        rows.append(Row(f"row {i}", values))
    features = getattr(source, "features", None) or {}
    # of a list the feature of its items
    classes = {n: getattr(f, "feature", f) for n, f in features.items()}
    names = {n: list(f.names) for n, f in classes.items() if getattr(f, "names", None)}
    return Rows(rows, f"{len(rows):,} rows", False, names)


def _read_path(path: str, format: str, word_field: int | str, tag_field: int | str | None) -> Rows:
    if problem := NAMED.problem(path):
        raise ValueError(f"data: {path!r}: {problem}")
    files = sorted(glob.glob(str(Path(path).expanduser()), recursive=True))
    if not files and "@" in path:
        return _read_hub(path)
    if not files:
        raise FileNotFoundError(
            f"there is no file {path!r}; give a file, a glob, or name@split for a data set of the hub"
        )
    rows: list[Row] = []
    textual = False
    for file in files:
        if (Path(file) / "state.json").exists() or (Path(file) / "dataset_dict.json").exists():
            return _read_saved(file)
        kind = format if format != "auto" else FORMATS_BY_ENDING.get(Path(file).suffix.lower(), "")
        if kind not in READERS:
            what = f"data.format={format!r} is not known" if format != "auto" else f"{file!r}: unknown ending"
            raise ValueError(
                f"{what}; set data.format to one of {', '.join(READERS)}" + suggest(kind, READERS)
            )
        try:
            rows += READERS[kind](Path(file), word_field, tag_field)
        except UnicodeDecodeError:
            decode(Path(file).read_bytes(), Path(file), 0)  # whose error names file and byte
            raise
        textual |= kind in ("csv", "tsv", "conll", "conllu")
    return Rows(rows, path, textual)


def _read_hub(path: str) -> Rows:
    from datasets import load_dataset

    name, _, split = path.partition("@")
    name, _, config = name.partition(":")
    try:
        return _rows_in_code(load_dataset(name, config or None, split=split))._replace(description=path)
    except Exception as error:
        raise ValueError(
            f"cannot load {path!r}: there is no such file, and the hub says: {str(error).splitlines()[0]}"
        ) from error


def _read_saved(folder: str) -> Rows:
    from datasets import DatasetDict, load_from_disk

    found = load_from_disk(folder)
    if isinstance(found, DatasetDict):
        raise ValueError(
            f"{folder!r} holds several splits ({', '.join(map(str, found))}): name the folder of one of them"
        )
    return _rows_in_code(found)._replace(description=folder)


def _read_table(path: Path, **dialect: Any) -> Iterator[Row]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, **dialect)
        header = next(reader, None)
        if not header:
            raise ValueError(f"{str(path)!r} is empty: expected a line with the names of the columns")
        for values in reader:
            if len(values) not in (0, len(header)):
                raise ValueError(
                    f"{path}, line {reader.line_num}: {len(values)} columns where the header has {len(header)}"
                )
            if values:
                yield Row(f"{path}, line {reader.line_num}", dict(zip(header, values, strict=True)))


def _read_csv(path: Path, *_: Any) -> Iterator[Row]:
    csv.field_size_limit(2**31 - 1)
    return _read_table(path)


def _read_tsv(path: Path, *_: Any) -> Iterator[Row]:
    csv.field_size_limit(2**31 - 1)
    return _read_table(path, delimiter="\t", quoting=csv.QUOTE_NONE)


def _read_jsonl(path: Path, *_: Any) -> Iterator[Row]:
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                where = f"{path}, line {number}"
                yield Row(where, _mapping(_parsed(line, where), where))


def _read_json(path: Path, *_: Any) -> Iterator[Row]:
    """SQuAD, a list of objects, or one object per line."""
    text = path.read_text(encoding="utf-8-sig")
    try:
        content = json.loads(text)
    except ValueError:
        yield from _read_jsonl(path)
        return
    if isinstance(content, Mapping) and isinstance(content.get("data"), list):
        yield from _squad_rows(path, content["data"])
    elif isinstance(content, list):
        for i, values in enumerate(content):
            yield Row(f"{path}, item {i}", _mapping(values, f"{path}, item {i}"))
    else:
        yield from _read_jsonl(path)


def _read_squad(path: Path, *_: Any) -> Iterator[Row]:
    content = _mapping(_parsed(path.read_text(encoding="utf-8-sig"), str(path)), str(path))
    if not isinstance(content.get("data"), list):
        raise ValueError(f"{str(path)!r} is not of SQuAD's format: it has no list under 'data'")
    return _squad_rows(path, content["data"])


def _squad_rows(path: Path, articles: list[Any]) -> Iterator[Row]:
    if articles and "paragraphs" not in articles[0]:  # the same name, but a plain list of rows
        for i, values in enumerate(articles):
            yield Row(f"{path}, item {i}", _mapping(values, f"{path}, item {i}"))
        return
    for article in articles:
        for number, paragraph in enumerate(article["paragraphs"]):
            where = f"{path}, {article.get('title', 'article')}, paragraph {number}"
            try:
                for question in paragraph["qas"]:
                    answers = [] if question.get("is_impossible") else question.get("answers", [])
                    yield Row(
                        f"{path}, question {question['id']}",
                        {
                            "id": question["id"],
                            "question": question["question"],
                            "context": paragraph["context"],
                            "answers": {
                                "text": [answer["text"] for answer in answers],
                                "answer_start": [answer["answer_start"] for answer in answers],
                            },
                        },
                    )
            except KeyError as error:
                raise ValueError(f"{where}: there is no {error}, which SQuAD's format has") from None


def _read_parquet(path: Path, *_: Any) -> Iterator[Row]:
    import pyarrow.parquet

    number = 0
    for batch in pyarrow.parquet.ParquetFile(path).iter_batches():
        for values in batch.to_pylist():
            yield Row(f"{path}, row {number}", values)
            number += 1


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{where}: not json: {error}") from None


def _mapping(values: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(values, Mapping):
        raise ValueError(
            f"{where}: expected a json object with named columns, found a {type(values).__name__}"
        )
    return values


READERS: dict[str, Callable[..., Iterator[Row]]] = {
    "csv": _read_csv,
    "tsv": _read_tsv,
    "jsonl": _read_jsonl,
    "json": _read_json,
    "parquet": _read_parquet,
    "conll": read_conll,
    "conllu": read_conllu,
    "squad": _read_squad,
}
"""What reads each format."""

FORMATS_BY_ENDING = {
    ".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".parquet": "parquet",
    ".conll": "conll", ".iob": "conll", ".bio": "conll", ".iob2": "conll", ".conllu": "conllu",
}  # fmt: skip
