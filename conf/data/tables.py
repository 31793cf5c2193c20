"""How files are read, for every data set that comes from files."""

from dataclasses import dataclass

from iolaus.conf.values import Choice, setting

FORMATS = "auto csv tsv jsonl json parquet arrow txt md conll conllu squad"


@dataclass
class Tables:
    """How files are read where they do not tell themselves."""

    format: str = setting("auto", allowed=Choice(tuple(FORMATS.split())))
    """Of the files; `auto` goes by their endings. txt and md hold documents, conll, conllu and squad labelled rows."""
    delimiter: str | None = None
    """What stands between the fields of csv and tsv files; none takes a tab in tsv files, and in csv files the one of `,`
    `;` `|` and tab that the first line has most of."""
    encoding: str | None = None
    """Of text files, such as `latin-1`; none takes UTF-8, and UTF-16 of csv and tsv files that are marked as such."""
    quoting: bool | None = None
    """Whether double quotes enclose fields; none takes true in csv files, and finds it out in tsv files."""
