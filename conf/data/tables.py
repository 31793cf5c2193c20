"""Fields of every option of group `data` that reads files."""

from dataclasses import dataclass
from typing import Any

from iolaus.conf.values import Choice, setting

FORMATS = "auto csv tsv jsonl json parquet arrow txt md conll conllu squad"


@dataclass
class Tables:
    """Format of the files."""

    format: str = setting("auto", allowed=Choice(tuple(FORMATS.split())))
    """Format of the files; `auto` goes by their endings. txt, md hold documents; conll, conllu, squad labelled rows."""
    delimiter: str | None = None
    """Separator of fields; none takes a tab in tsv files, in csv files the most frequent of `,` `;` `|` tab in line 1."""
    encoding: str | None = None
    """Encoding of text files, such as `latin-1`; none takes UTF-8, or UTF-16 of csv and tsv files with its mark."""
    quoting: bool | None = None
    """Whether double quotes enclose fields; none takes true in csv files, and detects it in tsv files."""
    header: Any = None
    """Names of the columns of csv and tsv files whose first line is a row like the others."""
