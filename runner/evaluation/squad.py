"""SQuAD's comparison of answers: without case, punctuation, articles and white space (its evaluation script 2.0)."""

import re
import string
from collections import Counter

PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized(answer: str) -> str:
    """An answer as SQuAD compares it."""
    text = answer.lower().translate(PUNCTUATION)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def exact_match(predicted: str, answer: str) -> float:
    """1 where both are the same once normalised."""
    return float(normalized(predicted) == normalized(answer))


def token_f1(predicted: str, answer: str) -> float:
    """F1 of the bags of words; where one has no word, 1 if neither has."""
    ours, theirs = normalized(predicted).split(), normalized(answer).split()
    if not ours or not theirs:
        return float(ours == theirs)
    common = (Counter(ours) & Counter(theirs)).total()
    return 2 * common / (len(ours) + len(theirs))
