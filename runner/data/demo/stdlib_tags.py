"""Words of the standard library's sources with two labels each: the kind of token, and the role of a name."""

from collections.abc import Iterator, Sequence

from tiryns.runner.data.demo.stdlib_tasks import StdlibTokens
from tiryns.runner.data.read.rows import Values


class StdlibTags(StdlibTokens):
    """Joint tagging: each of `words` (a few lines of source) has a `kind`, the BIO tag of its Python token, and a `role`.

    Roles of names are `definition`, `method` (called on something), `attribute`, `call`, `argument` (before `=`) and
    `name`; words of other tokens are `other`.

    Example:
        >>> sorted(StdlibTags("test").rows()[0])
        ['id', 'kind', 'role', 'words']
    """

    def examples(self) -> Iterator[Values]:
        """Yields the examples of `StdlibTokens` with a role for each word."""
        for row in super().examples():
            words, kinds = row["words"], row["labels"]
            yield {"id": row["id"], "words": words, "kind": kinds, "role": roles(words, kinds)}


def roles(words: Sequence[str], kinds: Sequence[str]) -> list[str]:
    """Returns the role of each word.

    Example:
        >>> roles("def run ( self ) : self . go ( now = x )".split(), ["B-KEYWORD", "B-NAME", "O", "B-NAME", "O", "O",
        ...     "B-NAME", "O", "B-NAME", "O", "B-NAME", "O", "B-NAME", "O"])[6:]
        ['name', 'other', 'method', 'other', 'argument', 'other', 'name', 'other']
    """
    labels = []
    for i, kind in enumerate(kinds):
        before, after = words[i - 1] if i else "", words[i + 1] if i + 1 < len(words) else ""
        inside = words[:i].count("(") > words[:i].count(")")
        is_call = after == "("
        if kind != "B-NAME":
            labels.append("other")
        elif before in ("def", "class"):
            labels.append("definition")
        elif before == ".":
            labels.append("method" if is_call else "attribute")
        elif is_call:
            labels.append("call")
        else:
            labels.append("argument" if after == "=" and inside else "name")
    return labels
