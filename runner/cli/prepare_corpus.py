"""Tokenises a large corpus into a sharded store, which `data=files data.source=store:FOLDER` trains on.

SOURCE is a file, folder or glob, FOLDER the folder to write; both may be URLs of fsspec such as s3://bucket/books. If
the command was stopped, the same command resumes. It needs datatrove: pip install 'tiryns[corpus]'.
"""

import json
from argparse import ArgumentParser, Namespace
from typing import Any

from tiryns.runner.run.command.json_output import print_json
from tiryns.runner.run.environment import num_processes

SETTINGS = ("NAME", "SETTING=VALUE")

_COUNTS = {"documents": "documents", "num_sequences": "sequences", "num_tokens": "tokens"}


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.usage = "%(prog)s SOURCE FOLDER --tokenizer NAME [options]"
    parser.add_argument("source", metavar="SOURCE", help="files of text, by path or URL")
    parser.add_argument("folder", metavar="FOLDER", help="the folder of the store, by path or URL")
    about = "name or folder of a tokenizer, such as the model/ of a run on a part of the text"
    parser.add_argument("--tokenizer", required=True, metavar="NAME", help=about)
    about = "tasks, each of which reads some of the files and writes a shard (default: %(default)s)"
    parser.add_argument("--tasks", type=int, default=1, help=about)
    about = "tasks at a time; 0 is one per core, or on a cluster all (default: %(default)s)"
    parser.add_argument("--workers", type=int, default=0, help=about)
    about = (
        "local, slurm or ray, with settings of datatrove's executor, such as time=24:00:00 (default: local)"
    )
    parser.add_argument("--executor", nargs="+", default=["local"], metavar=SETTINGS, help=about)
    about = "a filter of datatrove with its settings, such as GopherQualityFilter min_doc_words=20; may be repeated"
    parser.add_argument("--filter", nargs="+", action="append", default=[], metavar=SETTINGS, help=about)
    about = "keep one of repeated documents: exact or minhash, with settings"
    parser.add_argument("--deduplicate", nargs="+", metavar=SETTINGS, help=about)
    about = "share of the documents to hold out, by a hash of their text (default: %(default)s)"
    parser.add_argument("--validation", type=float, default=0.005, help=about)
    parser.add_argument("--seed", type=int, default=0, help="seed of that hash (default: %(default)s)")
    about = "longest sequence in tokens (default: 128); each further length makes a store FOLDER@LENGTH"
    parser.add_argument("--max-length", type=int, nargs="+", default=[128], metavar="TOKENS", help=about)
    about = "longer documents: truncate, sentences or tokens (default: %(default)s)"
    parser.add_argument("--long-documents", default="sentences", help=about)
    parser.add_argument("--text-column", default="text", help="column of the text (default: %(default)s)")
    about = "a document of txt and md files: paragraph, line or file (default: %(default)s)"
    parser.add_argument("--text-unit", default="paragraph", help=about)
    about = "format of files whose names do not tell it (default: %(default)s)"
    parser.add_argument("--format", default="auto", help=about)


def main(arguments: Namespace) -> None:
    """Prepares the corpus, and prints what the store holds; raises ValueError for wrong arguments."""
    try:
        from tiryns.runner.data.corpus.plan import Step
        from tiryns.runner.data.corpus.prepare import prepare_corpus
        from tiryns.runner.data.store.sharded import place_at_length
    except ModuleNotFoundError as error:
        name = str(error.name).partition(".")[0]
        raise ImportError(f"{name} is missing: pip install 'tiryns[corpus]'") from error
    settings = dict(vars(arguments))
    executor = Step(*_parse_step("--executor", settings["executor"]))
    dedup = Step(*_parse_step("--deduplicate", settings["deduplicate"])) if settings["deduplicate"] else None
    filters = [Step(*_parse_step("--filter", words)) for words in settings["filter"]]
    if executor.name == "local" and not settings["workers"]:
        settings["workers"] = num_processes()
    settings |= {"executor": executor, "filters": filters, "deduplicate": dedup}
    del settings["filter"], settings["json"]
    first, *_ = lengths = settings["max_length"]
    places = {n: place_at_length(arguments.folder, n) for n in lengths} | {first: arguments.folder}
    stores = {
        place: prepare_corpus(**settings | {"folder": place, "max_length": n}) for n, place in places.items()
    }
    index = stores[arguments.folder]
    if arguments.json:
        answer = {"folder": arguments.folder, "submitted": index is None, "sets": _sums(index)}
        print_json({**answer, "stores": [*stores]})
        return
    for place, content in stores.items():
        if content is None:
            print(f"{place}: submitted; the store is there when the last job, tiryns-index, has ended")
        for name, counts in (_sums(content) or {}).items():
            sums = ", ".join(f"{counts[word]:,} {word}" for word in _COUNTS.values())
            print(f"{place}: {name}: {sums} in {counts['shards']} shards, {counts['fingerprint']}")
    if index is not None:
        cutting = f"data.max_length={first} data.long_documents={index['long_documents']}"
        print(f"train on it with: tiryns data=files data.source=store:{arguments.folder} {cutting}")


def _sums(index: dict[str, Any] | None) -> dict[str, dict[str, Any]] | None:
    """Returns the counts of each set; None for a store that is not finished."""
    return index and {
        name: {
            **{word: content[key] for key, word in _COUNTS.items()},
            "shards": len(content["shards"]),
            "fingerprint": content["fingerprint"],
        }
        for name, content in index["sets"].items()
    }


def _parse_step(option: str, words: list[str]) -> tuple[str, dict[str, Any]]:
    """Returns a name and its settings; values that are JSON (numbers, true, lists, ...) are parsed."""
    name, *settings = words
    if unequal := next((word for word in settings if "=" not in word), None):
        raise ValueError(f"{option} {name} {unequal}: expected SETTING=VALUE")
    return name, {key: _value(value) for key, value in (word.split("=", 1) for word in settings)}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
