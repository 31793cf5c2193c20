"""How `tiryns predict` and `tiryns evaluate` are told to read a file: one table, as flags or as settings of data.

`--label-column NAME` and `data.label_column=NAME` are the same to both.
"""

import os
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from omegaconf import OmegaConf

from tiryns.conf.values import Settings
from tiryns.runner.cli.models.predict_files import names_of
from tiryns.runner.run.yaml_files import settings_in

READ_BY = {
    "text_column": "column of the text",
    "pair_column": "column of the second text of a pair",
    "context_column": "column of the context of a question",
    "label_column": "column of the label",
    "label_columns": "columns of one-hot labels, such as birds,streets",
    "tag_columns": "columns of the labels of words, such as upos,ner",
    "id_column": "column of the id",
    "delimiter": "separator of fields in csv files",
    "encoding": "encoding of the file, such as latin-1",
    "header": "names of the columns of a csv file without a line of them, such as text,label",
    "quoting": "whether double quotes enclose the fields of a csv file: true or false",
    "on_bad_row": "rows that cannot be used: error, or skip and count them (error)",
    "format": "csv, tsv, jsonl, json, parquet, txt, conll, ...; also of standard input",
}
"""Settings of data that may be other than in training, each as a flag."""

LISTS = ("label_columns", "tag_columns", "header")
"""Settings that are names of columns, with commas between them."""

_CHOICES = {"quoting": ("true", "false"), "on_bad_row": ("error", "skip")}
_METAVARS = {"format": "FORMAT", "label_columns": "NAME,...", "tag_columns": "NAME,..."}


def add_reading_arguments(parser: ArgumentParser) -> None:
    """Adds a flag for each setting of the table."""
    group = parser.add_argument_group(
        "how a file is read (as the training data, by its ending); as settings too, such as data.label_column=NAME"
    )
    for (name, about), flag in zip(READ_BY.items(), reading_flags(), strict=True):
        metavar = "NAME" if name.endswith("column") else _METAVARS.get(name)
        option = f"--{flag.replace('_', '-')}"
        group.add_argument(option, choices=_CHOICES.get(name), metavar=metavar, help=about)


def reading_flags() -> list[str]:
    """The names of the flags, in the order of the table: those of the settings, but for the format of the input."""
    return ["input_format" if name == "format" else name for name in READ_BY]


def reading_settings(arguments: Namespace, words: Sequence[str]) -> tuple[Settings, list[str]]:
    """The settings of data that flags and words give, and the other words. Raises ValueError for one given twice."""
    typed, settings = [word for word in words if is_setting(word)], Settings()
    for word in typed:
        name, _, value = word.removeprefix("data.").partition("=")
        if name not in READ_BY or name in (*LISTS, "quoting") or value == "null":
            settings |= settings_in(OmegaConf.from_dotlist([f"{name}={value}"]))
        else:  # what a flag takes as text is text, which YAML would read otherwise
            quoted = len(value) > 1 and value[0] == value[-1] in ("'", '"')
            settings[name] = value[1:-1] if quoted else value
    for name, flag in zip(READ_BY, reading_flags(), strict=True):
        if (given := getattr(arguments, flag)) is None:
            continue
        if name in settings:
            raise ValueError(
                f"--{flag.replace('_', '-')} and data.{name} are the same setting: give one of them"
            )
        settings[name] = given == "true" if name == "quoting" else given
    for name in LISTS:
        if isinstance(columns := settings.get(name), str):
            settings[name] = names_of(columns)
    return settings, [word for word in words if word not in typed]


def is_setting(word: str, group: str = "data") -> bool:
    """Whether a word is a setting of a group, by its pattern, not a text or the name of a file."""
    return re.match(rf"{group}\.\w+=", word) is not None and not os.path.exists(word)
