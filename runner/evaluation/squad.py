"""SQuAD's comparison of answers, which ignores case, punctuation, articles and white space (evaluation script 2.0)."""

import re
import string
from collections import Counter

PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize(answer: str) -> str:
    """Returns an answer in the form in which SQuAD compares it."""
    text = answer.lower().translate(PUNCTUATION)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def exact_match(predicted: str, answer: str) -> float:
    """Returns 1 if both are equal once normalised, else 0."""
    return float(normalize(predicted) == normalize(answer))


def token_f1(predicted: str, answer: str) -> float:
    """Returns the F1 of the bags of words. If a bag is empty, returns 1 if both are empty, else 0."""
    predicted_words, answer_words = normalize(predicted).split(), normalize(answer).split()
    if not predicted_words or not answer_words:
        return float(predicted_words == answer_words)
    common = (Counter(predicted_words) & Counter(answer_words)).total()
    return 2 * common / (len(predicted_words) + len(answer_words))
