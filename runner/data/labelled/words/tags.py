"""Schemes of entity tags, the entities that tags mark, and the most probable valid tags of a sentence.

A tag is a letter and a type, `B-PER` or `PER-B`. The letters of a set of labels give its scheme; IOB and
IOE have two variants each, which the sentences distinguish (https://github.com/chakki-works/seqeval).
"""

import re
from collections.abc import Callable, Iterable, Sequence, Set
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiryns.runner import log

_AT_ONCE, _SCORES_AT_ONCE = 256, 2**20
"""The most sentences to decode at a time, and the most scores [sentences, tags] at a time, to bound the memory."""

_BROKEN = -1e9
"""The score of a tag after one that it may not follow. If no tags are valid, as few rules as possible are broken."""

OUTSIDE = "O"
"""The tag of a word that is of no entity."""


class Tag(NamedTuple):
    """`B` begins an entity of a type, `I` is inside, `E` ends it, `S` is a whole one; `O` is outside."""

    letter: str
    kind: str


Rule = Callable[[Tag, Tag], bool]
"""Whether a tag may come right after another; a sentence begins after an `O`, and ends before one."""


def _closes(before: Tag, tag: Tag) -> bool:
    if before.letter in "BI":
        return tag.letter in "IE" and tag.kind == before.kind
    return tag.letter not in "IE"


def _after(letter: str, before: Tag, tag: Tag) -> bool:
    """Whether a `tag` with this letter follows a tag that begins or continues its entity; True for other letters."""
    return tag.letter != letter or (before.letter in "BI" and tag.kind == before.kind)


def _until(letter: str, before: Tag, tag: Tag) -> bool:
    """Whether a tag that continues or ends its entity follows `before` with this letter; True for other letters."""
    return before.letter != letter or (tag.letter in "IE" and tag.kind == before.kind)


SCHEMES: dict[str, tuple[str, Rule]] = {
    "IOB2": ("BI", partial(_after, "I")), "IOB1": ("BI", partial(_after, "B")),
    "IOE2": ("IE", partial(_until, "I")), "IOE1": ("IE", partial(_until, "E")), "IOBES": ("BIES", _closes),
    "BILOU": ("BILU", _closes), "BMES": ("BMES", _closes), "BMEWO": ("BMEW", _closes),
}  # fmt: skip
"""The letters of each scheme, and its rule. If several schemes fit, the first one that all sentences obey is used."""

_MEANING = dict(zip("BIMELSUW", "BIIEESSS", strict=True))
"""What a letter means in every scheme that has it."""

_LETTER = f"(?P<letter>[{''.join(_MEANING)}])"
_PREFIX = re.compile(rf"{_LETTER}(?:[-_](?P<kind>.+))?", re.DOTALL)
_SUFFIX = re.compile(rf"(?:(?P<kind>.+)[-_])?{_LETTER}", re.DOTALL)


class Steps(NamedTuple):
    """The scores of successive tags (C tags), stored by their letters (L letters). `O` is before and after each sentence.

    A table [C, C] is not needed: a rule depends only on the letters, and on whether the types are equal. A tag that may
    follow a tag of another type may also follow a tag of its own type.
    """

    letters: NDArray[np.int64]
    """The number of each tag's letter [C]."""
    partners: NDArray[np.int64]
    """For letter l and tag c, the number of the tag with letter l and c's type [L, C]; -1 if there is no such tag."""
    same: NDArray[np.float64]
    """Scores of two successive letters if the types are equal [L, L]."""
    other: NDArray[np.float64]
    """Scores of two successive letters if the types differ [L, L]."""
    outside: int
    """The number of the letter `O`."""

    def best(self, totals: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Returns for each tag [S, C] the highest sum of previous total and step, and the first previous tag with it."""
        highest, origins = np.full(totals.shape, -np.inf), np.zeros(totals.shape, dtype=np.int64)
        for letter in np.unique(self.letters):
            of_letter, partners = np.flatnonzero(self.letters == letter), self.partners[letter]
            strongest = of_letter[totals[:, of_letter].argmax(1)][:, None]
            others = np.take_along_axis(totals, strongest, 1) + self.other[letter, self.letters]
            of_type = np.where(partners < 0, -np.inf, totals[:, partners] + self.same[letter, self.letters])
            for sums, tags in ((others, strongest), (of_type, partners)):
                better = (sums > highest) | ((sums == highest) & (tags < origins))
                highest, origins = np.where(better, sums, highest), np.where(better, tags, origins)
        return highest, origins


class Tagging:
    """How a set of labels tags entities: the position and the meaning of the letter.

    Example:
        >>> tagging = tagging_of(["O", "PER-B", "PER-L", "PER-U"])
        >>> tagging.schemes
        ['BILOU']
        >>> tagging.iob(["PER-B", "PER-L", "PER-U"])
        ['B-PER', 'I-PER', 'B-PER']
    """

    def __init__(self, schemes: Sequence[str], pattern: re.Pattern[str]) -> None:
        self.schemes, self._pattern = list(schemes), pattern
        self._tags: dict[str, Tag] = {}

    def tag(self, name: str) -> Tag:
        """Returns the tag of a label; the type of a letter alone is `_`, as in seqeval."""
        if name not in self._tags:
            match = self._pattern.fullmatch(name)
            tag = Tag(_MEANING[match["letter"]], match["kind"] or "_") if match else Tag(OUTSIDE, "")
            self._tags[name] = tag
        return self._tags[name]

    def iob(self, labels: Sequence[str]) -> list[str]:
        """Returns the tags of a sentence in IOB2, with the entities that seqeval finds, even if tags break the scheme."""
        iob_tags, before = [], Tag(OUTSIDE, "")
        for tag in map(self.tag, labels):
            inside = tag.letter in "IE" and before.letter in "BI" and tag.kind == before.kind
            iob_tags.append(OUTSIDE if tag.letter == OUTSIDE else f"{'I' if inside else 'B'}-{tag.kind}")
            before = tag
        return iob_tags

    def breaks(self, scheme: str, labels: Sequence[str]) -> bool:
        """Whether the tags of a sentence break the rule of a scheme."""
        rule, tags = SCHEMES[scheme][1], [self.tag(name) for name in (OUTSIDE, *labels, OUTSIDE)]
        return not all(rule(before, tag) for before, tag in pairwise(tags))

    def steps(self, names: Sequence[str], scheme: str) -> Steps:
        """Returns the score of every tag after every tag: 0 if the rule of the scheme allows it, else `_BROKEN`."""
        rule, tags = SCHEMES[scheme][1], list(map(self.tag, names))
        letters = sorted({OUTSIDE, *(tag.letter for tag in tags)})
        valid = [[[rule(Tag(a, "x"), Tag(b, kind)) for b in letters] for a in letters] for kind in "xy"]
        same, other = np.where(valid, 0.0, _BROKEN)
        places = {tag: i for i, tag in enumerate(tags)}
        partners = [[places.get(Tag(letter, tag.kind), -1) for tag in tags] for letter in letters]
        numbers = np.array([letters.index(tag.letter) for tag in tags])
        return Steps(numbers, np.array(partners), same, other, letters.index(OUTSIDE))


def tagging_of(names: Iterable[str], all_names: bool = True) -> Tagging | None:
    """Returns how label names tag entities; None if they fit no scheme. If not `all_names`, some tags may be missing.

    Without types (`B`, `M`, `E`, `S`), every letter of a scheme must occur. Schemes other than IOB need `O` or `B`.
    """
    names = set(names)
    tags = names - {OUTSIDE}
    taggings: list[tuple[bool, Tagging]] = []
    for pattern in (_PREFIX, _SUFFIX):
        matches = [match for name in tags if (match := pattern.fullmatch(name))]
        letters = {match["letter"] for match in matches}
        typed = {match["kind"] is not None for match in matches}
        if len(matches) == len(tags) and len(typed) == 1:
            fitting = [name for name in SCHEMES if _fits(name, letters, typed == {True}, OUTSIDE in names)]
            if fitting or (typed == {True} and not all_names):
                taggings.append((letters.isdisjoint("BI"), Tagging(fitting, pattern)))
    # of labels that can be read both ways, such as E-B and E-I, the way with a letter that begins or is inside
    return min(taggings, key=lambda one: one[0])[1] if taggings else None


def _fits(scheme: str, letters: Set[str], typed: bool, outside: bool) -> bool:
    """Whether letters, with types (`typed`) or without, fit a scheme; `outside` tells whether the labels have an `O`."""
    scheme_letters, rule = SCHEMES[scheme]
    if not letters <= set(scheme_letters):
        return False
    if not typed:
        return letters == set(scheme_letters) and (outside or rule is _closes)
    parts = {_MEANING[letter] for letter in letters}
    if rule is _closes:
        return (parts >= {"B", "E"} or parts == {"S"}) and (outside or "B" in parts)
    return scheme_letters == "BI" or ("E" in parts and outside)


def kept_scheme(names: Sequence[str], sentences: Iterable[tuple[str, Sequence[str]]]) -> str | None:
    """Returns the first scheme of the label names that all sentences (place, labels) obey; None if there is none.

    Logs where each scheme is broken, or why labels that look like entity tags fit no scheme.
    """
    sentences = list(sentences)
    if (tagging := tagging_of(names)) is None:
        tags = [name for name in names if name != OUTSIDE]
        matches = {name: _PREFIX.fullmatch(name) or _SUFFIX.fullmatch(name) for name in tags}
        odd = [name for name, match in matches.items() if not match or not match["kind"]]
        if OUTSIDE in names and len(odd) * 2 <= len(tags):
            letters = ", ".join(sorted({match["letter"] for match in matches.values() if match}))
            problem = f"{', '.join(odd[:3])} is no tag" if odd else f"no scheme has the letters {letters}"
            schemes = ", ".join(SCHEMES)
            log.warning("%s: words are measured, and no entities. Schemes are %s", problem, schemes)
        return None
    broken = []
    for scheme in tagging.schemes:
        wrong = (where for where, labels in sentences if tagging.breaks(scheme, labels))
        if (first := next(wrong, None)) is None:
            return scheme
        broken.append(f"{scheme} is broken in {first}")
    log.info("tags are predicted one by one: %s", ", ".join(broken))
    return None


def entities(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """Returns the entities of one sentence of tags in IOB1 or IOB2: (first word, word after the last, type)."""
    spans = set()
    begin, kind = 0, ""
    for i, tag in enumerate([*tags, "O"]):
        prefix, _, name = tag.partition("-")
        if prefix == "I" and name == kind:
            continue
        if kind:
            spans.add((begin, i, kind))
        begin, kind = i, name if prefix in ("B", "I") else ""
    return spans


def most_probable_tags(
    scores: NDArray[np.float32], starts: NDArray[np.int64], steps: Steps
) -> NDArray[np.int64]:
    """Returns the tags [W] with the highest sum of `scores` [W, C], which are log-probabilities, and of `steps`.

    Words `starts[s]` to `starts[s + 1] - 1` are sentence s. Source: A. Viterbi, "Error bounds for convolutional codes
    and an asymptotically optimum decoding algorithm" (1967).
    """
    first, last = steps.other[steps.outside, steps.letters], steps.other[steps.letters, steps.outside]
    at_once = max(1, min(_AT_ONCE, _SCORES_AT_ONCE // scores.shape[1]))
    lengths = np.diff(starts)
    longest_first = np.argsort(-lengths, kind="stable")
    tags = np.zeros(len(scores), dtype=np.int64)
    for block in np.split(longest_first, range(at_once, len(longest_first), at_once)):
        begins, longest = starts[block], int(lengths[block].max(initial=0))
        counts = [int((lengths[block] > place).sum()) for place in range(longest)]
        totals = np.tile(first, (len(block), 1))
        origins = []
        for place, count in enumerate(counts):
            if place:
                totals[:count], before = steps.best(totals[:count])
                origins.append(before.astype(np.int32))
            totals[:count] += scores[begins[:count] + place]
        best = (totals + last).argmax(1)
        for place, count in reversed(list(enumerate(counts))):
            tags[begins[:count] + place] = best[:count]
            if place:
                best[:count] = np.take_along_axis(origins[place - 1], best[:count, None], 1)[:, 0]
    return tags
