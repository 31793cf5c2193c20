"""How files are read, for every data set that comes from files."""

from dataclasses import dataclass

from iolaus.conf.values import Choice, setting


@dataclass
class Tables:
    """How files are read where they do not tell themselves."""

    format: str = setting(
        "auto",
        allowed=Choice(
            (
                "auto",
                "csv",
                "tsv",
                "jsonl",
                "json",
                "parquet",
                "arrow",
                "conll",
                "conllu",
                "squad",
                "txt",
                "md",
            )
        ),
    )
    """Of the files: conll, conllu and squad hold labelled rows, txt and md documents, the others both; `auto` goes by
    their endings."""
    delimiter: str | None = None
    """What stands between the fields of csv and tsv files; none takes that of `,` `;` `|` and tab which stands most often
    in the first line, and a tab in tsv files."""
    encoding: str | None = None
    """Of text files, such as `latin-1`; none takes UTF-8, and UTF-16 of tables that are marked as such."""
    quoting: bool | None = None
    """Whether double quotes enclose fields; none takes true in csv files, and in tsv files what they seem to be written
    with."""
