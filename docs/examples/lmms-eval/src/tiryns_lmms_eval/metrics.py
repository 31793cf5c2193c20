"""Metrics of answers to questions about images as lmms-eval computes them, registered by importing this module.

- `relaxed_overall`: ChartQA's relaxed accuracy, numbers within 5 % (arXiv 2203.10244, section 5.1).
- `anls`: the average normalised Levenshtein similarity of DocVQA and InfographicVQA (arXiv 1907.00490, section 4).
- `vqa_accuracy`: VQAv2's and TextVQA's agreement with ten people (arXiv 1505.00468, section 5); lmms-eval calls it
  `exact_match`, which is SQuAD's here.
- `mmmu_acc`: the letter of a choice, as MMMU finds it in what a model writes (arXiv 2311.16502).
- `bleu`: of the whole set by 13a tokens, between 0 and 1 (torchmetrics).
"""

import re
from collections.abc import Sequence
from string import ascii_uppercase

import numpy as np
from torchmetrics import Metric
from torchmetrics.functional.text import edit_distance
from torchmetrics.text import SacreBLEUScore

from tiryns.conf.registry import register_metric
from tiryns.runner.evaluation.metrics import MeanOverQuestions

KIND = "vision_language"

NUMBERS = {"none": "0", "ten": "10"}
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
NUMBERS |= {word: str(number) for number, word in enumerate(DIGITS)}

ARTICLES = ("a", "an", "the")

SIGNS = ';/[]"{}()=+\\_-><@`,?!'
"""Signs that VQA's comparison leaves out."""

CONTRACTED = (
    "ain't aren't can't could've couldn't couldn't've didn't doesn't don't hadn't hadn't've hasn't haven't he'd "
    "he'd've he's how'd how'll how's isn't it'd it'd've it'll ma'am mightn't mightn't've might've mustn't must've "
    "needn't not've o'clock oughtn't 'ow's'at shan't she'd've should've shouldn't shouldn't've somebody'd've "
    "somebody'll somebody's someone'd someone'd've someone'll someone's something'd something'd've something'll "
    "that's there'd there'd've there're there's they'd they'd've they'll they're they've 'twas wasn't we'd've "
    "we've weren't what'll what're what's what've when's where'd where's where've who'd who'd've who'll who's "
    "who've why'll why're why's won't would've wouldn't wouldn't've y'all y'all'll y'all'd've you'd you'd've "
    "you'll you're you've"
)
"""Words that are written with one apostrophe less as well."""

CONTRACTIONS = {
    word[:place] + word[place + 1 :]: word
    for word in CONTRACTED.split()
    for place, letter in enumerate(word)
    if letter == "'"
} | {"somebody'd": "somebodyd"}


class RelaxedAccuracy(MeanOverQuestions):
    """ChartQA's: a number is right within 5 % of an accepted one, `12%` being 0.12; other text if it is the same.

    Example:
        >>> metric = RelaxedAccuracy()
        >>> metric.update(["104", "106", "Blue"], [["100"], ["100"], ["blue"]])
        >>> round(metric.compute().item(), 4)
        0.6667
    """

    def score(self, text: str, accepted: Sequence[str]) -> float:
        """1 if an accepted answer is met."""
        return float(any(_is_near(text.strip(), answer) for answer in accepted))


class NormalizedLevenshtein(MeanOverQuestions):
    """DocVQA's: 1 less the edits per letter of the longer text, of the nearest accepted answer; 0 below 0.5.

    Example:
        >>> metric = NormalizedLevenshtein()
        >>> metric.update(["The  Bridge", "a fox"], [["the bridges", "bridge"], ["herons"]])
        >>> round(metric.compute().item(), 4)
        0.4545
    """

    def score(self, text: str, accepted: Sequence[str]) -> float:
        """The similarity of an answer."""
        far = []
        for answer in accepted or [""]:
            ours, theirs = (" ".join(one.strip().lower().split()) for one in (text, answer))
            longest = max(len(text), len(answer))  # with their white space
            edits = float(edit_distance([ours], [theirs], reduction="sum"))
            far.append(edits / longest if longest else 0.0)
        found = 1 - min(far)
        return found if found >= 0.5 else 0.0


class VqaAccuracy(MeanOverQuestions):
    """VQAv2's: for each person a third for each other who gave the answer, at most 1; the mean over all persons.

    Answers are compared without articles and signs, numbers as digits. It is meant for ten answers, one of each person;
    of fewer than four none can be right in full.

    Example:
        >>> metric = VqaAccuracy()
        >>> metric.update(["two", "the sea"], [["2"] * 3 + ["3"] * 7, ["sea"] * 10])
        >>> round(metric.compute().item(), 4)
        0.95
    """

    def score(self, text: str, accepted: Sequence[str]) -> float:
        """The agreement of an answer with those of people."""
        given = [answer.replace("\n", " ").replace("\t", " ").strip() for answer in accepted]
        word = text.lower().replace(",", "").replace("?", "").replace("'s", " 's").strip()
        ours = _plain(word.replace("\n", " ").replace("\t", " ").strip())
        if len(set(given)) > 1:
            given, ours = [_plain(answer) for answer in given], _plain(ours)
        same = sum(answer == ours for answer in given)
        return float(np.mean([min(1.0, (same - (answer == ours)) / 3) for answer in given])) if given else 0.0


class LetterAccuracy(MeanOverQuestions):
    """MMMU's: the last letter of a choice that is written in brackets, else before a space, else before a period.

    The choices are A to D, or to the accepted letter where that comes later. A text without one is wrong, where MMMU
    draws a choice at random.

    Example:
        >>> metric = LetterAccuracy()
        >>> metric.update(["(A) or (B)", "C.", "It is D", "herons"], [["B"], ["C"], ["A"], ["A"]])
        >>> metric.compute().item()
        0.5
    """

    def score(self, text: str, accepted: Sequence[str]) -> float:
        """1 if the letter is accepted."""
        letters = ascii_uppercase[: max([3, *(ascii_uppercase.find(answer) for answer in accepted)]) + 1]
        return float(_letter(text, letters) in accepted)


def _is_near(text: str, answer: str) -> bool:
    ours, theirs = _number(text), _number(answer)
    if ours is None or not theirs:
        return text.lower() == answer.lower()
    return abs(ours - theirs) / abs(theirs) <= 0.05


def _number(text: str) -> float | None:
    try:
        return float(text.rstrip("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        return None


def _plain(answer: str) -> str:
    """An answer without signs and articles, with digits for numbers and apostrophes where they belong."""
    apart = re.search(r"(?<=\d),+(?=\d)", answer) is not None
    found = answer
    for sign in SIGNS:
        beside_space = f"{sign} " in answer or f" {sign}" in answer
        found = found.replace(sign, "" if apart or beside_space else " ")
    found = re.sub(r"\.(?!\d)", "", found)
    words = (NUMBERS.get(word, word) for word in found.lower().split())
    return " ".join(CONTRACTIONS.get(word, word) for word in words if word not in ARTICLES)


def _letter(text: str, letters: str) -> str | None:
    """The letter that a text names; None where it names none."""
    for sign in ",.!?;:'":
        text = text.strip(sign)
    text = f" {text} "
    for form, place in (("({})", "({})"), ("{} ", " {} "), ("{}.", " {} ")):
        found = [letter for letter in letters if form.format(letter) in text]
        if found:
            return max(found, key=lambda letter: text.rfind(place.format(letter)))
    return None


def relaxed_accuracy(num_labels: int) -> Metric:
    """`relaxed_overall`."""
    return RelaxedAccuracy()


def anls(num_labels: int) -> Metric:
    """`anls`."""
    return NormalizedLevenshtein()


def vqa_accuracy(num_labels: int) -> Metric:
    """`vqa_accuracy`."""
    return VqaAccuracy()


def letter_accuracy(num_labels: int) -> Metric:
    """`mmmu_acc`."""
    return LetterAccuracy()


def bleu(num_labels: int) -> Metric:
    """`bleu`."""
    return SacreBLEUScore()


register_metric(KIND, "relaxed_overall", relaxed_accuracy)
register_metric(KIND, "anls", anls)
register_metric(KIND, "vqa_accuracy", vqa_accuracy)
register_metric(KIND, "mmmu_acc", letter_accuracy)
register_metric(KIND, "bleu", bleu)
