"""Fields of every option of group `data` that reads files."""

from dataclasses import dataclass
from typing import Any

from tiryns.conf.values import Choice, setting

FORMATS = "auto csv tsv jsonl json parquet arrow txt md conll conllu squad fasta"


@dataclass
class Tables:
    """Format of the files."""

    format: str = setting("auto", allowed=Choice(tuple(FORMATS.split())))
    """Format of the files; `auto` goes by their endings. txt, md hold documents, fasta sequences; conll, conllu, squad
    labelled rows."""
    delimiter: str | None = None
    """Separator of fields; none takes a tab in tsv files, in csv files the `,` `;` `|` or tab that cuts rows alike."""
    encoding: Any = None
    """Encoding of text files, such as `latin-1`, or a list of which each file is read in the first that fits; none takes
    UTF-8, of csv and tsv files also UTF-16 with its mark."""
    quoting: bool | None = None
    """Whether double quotes enclose fields; none takes true in csv files, and detects it in tsv files."""
    header: Any = None
    """Names of the columns of csv and tsv files whose first line is a row like the others; none takes the first line."""
