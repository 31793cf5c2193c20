"""Readers of the file formats: records one after the other; errors name the file and the byte, line or row."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

from tiryns.conf.values import suggest
from tiryns.runner.data.read.arrow_files import arrow_batches
from tiryns.runner.data.read.bad_rows import BadRow, MissingColumn
from tiryns.runner.data.read.blocks import conll, conllu
from tiryns.runner.data.read.content import COMPRESSED
from tiryns.runner.data.read.delimited import delimited_rows
from tiryns.runner.data.read.opened import LONGEST, File, Reading, open_text, too_long, with_encoding
from tiryns.runner.data.sequences.fasta import fasta

Records = Iterator[tuple[str, Any]]
"""Records of a file, each with its place in it, such as `line 7`."""


def read_text(file: File, unit: str) -> Iterator[str]:
    """Yields the documents of a text file: each `paragraph` (up to a blank line), each `line`, or the whole `file`."""
    with open_text(file) as text:
        if unit == "file":
            whole = text.read(LONGEST + 1)
            if len(whole) > LONGEST:
                raise too_long(file.path, "a document")
            yield from filter(None, [whole.strip()])
        elif unit == "line":
            yield from filter(None, map(str.rstrip, text))
        else:
            for has_text, lines in groupby(map(str.rstrip, text), key=bool):
                if has_text:
                    yield "\n".join(_bound_lines(lines, file.path))


def _bound_lines(lines: Iterator[str], path: Path) -> Iterator[str]:
    """Yields the lines of a document; raises ValueError if it has more than `LONGEST` characters."""
    length = 0
    for line in lines:
        length += len(line)
        if length > LONGEST:
            raise too_long(path, "a document")
        yield line


def _jsonl(file: File) -> Records:
    with open_text(file) as text:
        for number, line in enumerate(text, 1):
            if not line.strip():
                continue
            place = f"{file.path}, line {number}"
            with file.bad.row():
                try:
                    record = _json_value(line)
                except (ValueError, RecursionError) as error:
                    raise BadRow(place, f"no valid JSON: {_unreadable(error)}", "no valid JSON") from None
                if problem := file.wrong_byte(line):
                    raise BadRow(place, problem, "undecodable")
                yield f"line {number}", record


def _json(file: File) -> Records:
    """Yields the records of a json file: a list, an object with a list `data` or columns, SQuAD's articles, or jsonl."""
    by_line = False
    with open_text(file) as text, suppress(ValueError, RecursionError):  # a line may exceed `LONGEST`
        first = next(filter(str.strip, text), "")
        by_line = any(map(str.strip, text)) and isinstance(json.loads(first), dict)
    if by_line:
        yield from _jsonl(file)
        return
    content = _parse(file)
    if isinstance(content, dict):
        key = next((n for n in ("data", "annotations") if isinstance(content.get(n), list)), None)
        if key == "data" or (key and all(is_pair(one) for one in content[key])):
            content = content[key]
        elif file.lone_object:
            content = _one_record(content, file.path)
        elif content and all(isinstance(column, list) for column in content.values()):
            lengths = {name: len(column) for name, column in content.items()}
            if len({*lengths.values()}) > 1:
                raise ValueError(f"{file.path} has columns of unequal length, {lengths}: fill in null")
            content = [dict(zip(content, row, strict=True)) for row in zip(*content.values(), strict=True)]
    if not isinstance(content, list):
        advice = "expected [{...}, ...] or {'data': [...]}"
        raise ValueError(f"{file.path} holds no list of records: {advice}")
    yield from _items(content, file.path)


def _one_record(content: dict[str, Any], path: Path) -> list[object]:
    """Returns an object as the only record of its file; raises ValueError if its values are lists of records (splits)."""
    lists = [name for name, value in content.items() if isinstance(value, list)]
    tables = [name for name in lists if content[name] and all(isinstance(o, Mapping) for o in content[name])]
    if tables and len(lists) == len(content):
        raise ValueError(
            f"{path} has its records under {' and '.join(map(repr, tables))}: write each list to its own file"
        )
    return [content]


def _items(content: list[object], path: Path) -> Records:
    """Returns the records of a list; if they are SQuAD's articles, their questions."""
    if content and isinstance(content[0], dict) and "paragraphs" in content[0]:
        return questions(content, path)
    return ((f"item {number}", record) for number, record in enumerate(content))


def is_pair(record: object) -> bool:
    """Whether a record is a list of a text and a mapping, as in spaCy's training data."""
    if not isinstance(record, list) or len(record) != 2:
        return False
    return isinstance(record[0], str) and isinstance(record[1], Mapping)


def _parse(file: File) -> Any:
    with open_text(file) as text:
        content = text.read()
        try:
            return _json_value(content)
        except json.JSONDecodeError as error:
            place = f"line {error.lineno}, column {error.colno}"
            raise ValueError(f"{file.path} is no valid JSON: {place}: {error.msg}") from None
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{file.path} is no valid JSON: {_unreadable(error)}") from None


_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""Half of a surrogate pair, the escape of a character beyond 16 bits; a text that was cut may have one half alone."""


def _json_value(text: str) -> Any:
    """Returns the value of a JSON text; raises ValueError also for half a character, which no tokenizer takes."""
    value = json.loads(text)
    if _HALF.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _unreadable(error: Exception) -> str:
    """Returns what is wrong with a text of JSON, from the error that parsing has raised."""
    if isinstance(error, UnicodeEncodeError):
        return f"{error.object[error.start]!r} is half of a character"
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at column {error.colno}"
    return "it is nested too deeply" if isinstance(error, RecursionError) else "a number has too many digits"


def _squad(file: File) -> Records:
    content = _parse(file)
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        raise ValueError(f"{str(file.path)!r} is not of SQuAD's format: it has no list under 'data'")
    return _items(content["data"], file.path)


def questions(articles: list[object], path: Path) -> Records:
    """Yields the questions of SQuAD's articles: `id`, `question`, `context`, `answers`, as in the hub's data sets.

    Raises:
        ValueError: a part is missing or of another type; the message names article and paragraph.
    """
    for number, article in enumerate(articles):
        title = article.get("title", f"article {number}") if isinstance(article, Mapping) else number
        for count, paragraph in enumerate(_list_part(article, "paragraphs", f"{path}, article {number}")):
            place = f"{path}, {title}, paragraph {count}"
            for question in _list_part(paragraph, "qas", place):
                record = {
                    "id": _part(question, "id", place),
                    "question": _part(question, "question", place),
                    "context": _part(paragraph, "context", place),
                }
                where = f"{place}, question {record['id']}"
                none = question.get("is_impossible") or "answers" not in question
                answers = [] if none else _list_part(question, "answers", where)
                parts = ("text", "answer_start")
                record["answers"] = {name: [_part(one, name, where) for one in answers] for name in parts}
                yield f"question {record['id']}", record


def _list_part(holder: object, name: str, place: str) -> list[Any]:
    """Returns the list under a name in a part of the file; raises ValueError if it is missing or no list."""
    if not isinstance(value := _part(holder, name, place), list):
        raise ValueError(f"{place}: {name!r} is no list but {value!r:.60}; SQuAD's format has a list there")
    return value


def _part(holder: object, name: str, place: str) -> Any:
    """Returns the value under a name in a part of the file; raises ValueError if it is missing."""
    if not isinstance(holder, Mapping):
        problem = f"{place}: expected a mapping with {name!r}, as in SQuAD's format, found {holder!r:.60}"
        raise ValueError(problem)
    if name not in holder:
        raise ValueError(f"{place}: there is no {name!r}, which SQuAD's format has")
    return holder[name]


def _arrow(file: File) -> Records:
    rows = (row for batch in arrow_batches(file) for row in batch.to_pylist())
    return ((f"row {number}", row) for number, row in enumerate(rows))


def columns_of(file: File) -> list[str] | None:
    """Returns column names, from the schema or first record; None for texts, lists of strings and empty files."""
    if file.format in TEXTS:
        return None
    if file.format in ARROW:
        return list(next(arrow_batches(file)).schema.names)
    _, first = next(FORMATS[file.format](file), ("", None))
    if first is None or isinstance(first, str):
        return None
    if not isinstance(first, Mapping):
        start = str(first)[:60]
        raise ValueError(f"{file.path} holds no records: expected objects with named columns, found {start}")
    return list(first)


FORMATS: dict[str, Callable[[File], Records]] = {
    "csv": delimited_rows, "tsv": delimited_rows, "jsonl": _jsonl, "json": _json, "parquet": _arrow, "arrow": _arrow,
    "conll": conll, "conllu": conllu, "squad": _squad, "fasta": fasta,
}  # fmt: skip
"""Readers of files with columns, by format."""

ROWS = tuple(FORMATS)
"""Formats that rows are read from."""

ARROW = ("parquet", "arrow")
"""Formats with a schema, whose columns can be read one by one."""

TEXTS = ("txt", "md")
"""Formats without columns, which `read_text` reads."""

TEXT_UNITS = ("paragraph", "line", "file")
"""Units of text in txt and md files that can be a document."""

DOCUMENTS = (*TEXTS, "json", "jsonl", "csv", "tsv", "parquet", "arrow", "fasta")
"""Formats that documents are read from."""

_OTHER_ENDINGS = {
    ".ndjson": "jsonl", ".iob": "conll", ".iob2": "conll", ".bio": "conll",
    ".fa": "fasta", ".faa": "fasta", ".fna": "fasta",
}  # fmt: skip


def endings_of(formats: Iterable[str]) -> list[str]:
    """Returns the endings of files in these formats.

    Example:
        >>> endings_of(["jsonl", "parquet"])
        ['.jsonl', '.parquet', '.ndjson']
    """
    formats = list(formats)
    return [*(f".{name}" for name in formats), *(e for e, name in _OTHER_ENDINGS.items() if name in formats)]


def ending_format(path: Path) -> str:
    """Returns the format that a file's ending names, after a compression's ending is removed; it may be unknown."""
    is_compressed = path.suffix.lower() in COMPRESSED
    ending = (path.with_suffix("") if is_compressed else path).suffix.lower()
    name = _OTHER_ENDINGS.get(ending, ending[1:])
    return "" if is_compressed and name in ARROW else name


def files_of(paths: list[Path], reading: Reading, formats: Iterable[str], lone_object: bool) -> list[File]:
    """Returns the files with the format of `reading`. For `auto` and for arrow files, the ending gives the format."""
    choice = {"text": "txt"}.get(reading.format, reading.format.lower().lstrip("."))
    endings = list(map(ending_format, paths))
    names = [ending if ending == "arrow" or choice == "auto" else choice for ending in endings]
    if choice != "auto" and choice in names and choice not in formats:
        options = ", ".join(formats) + suggest(reading.format, formats)
        raise ValueError(f"data.format={reading.format!r} is not known; there are: {options}")
    files = (File(path, name, reading, lone_object) for path, name in zip(paths, names, strict=True))
    return [file if file.format in ARROW else with_encoding(file) for file in files]


def empty_texts(sizes: Mapping[str, int]) -> list[str]:
    """Returns the empty txt and md files beside files with content; raises ValueError for any other empty file."""
    empty = [name for name, size in sizes.items() if not size]
    for name in empty:
        if len(empty) == len(sizes) or ending_format(Path(name)) not in TEXTS:
            raise ValueError(f"{name} is empty: remove it, or fill it")
    return empty


def no_column(where: str, name: object, columns: Iterable[object], setting: str) -> MissingColumn:
    """Returns the error for a missing column."""
    names = list(map(str, columns))
    advice = f"Set {setting}{suggest(str(name), names)}"
    return MissingColumn(where, f"has no column {name!r}; it has: {', '.join(names) or 'none'}. {advice}")
