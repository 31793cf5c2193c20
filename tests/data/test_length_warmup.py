"""A warm-up of the sequence length: samples cut as a function of the step."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tiryns.runner.data.batches import LengthWarmup, Shortened

CLOSING = 3


class Texts:
    """Texts of token 2, 11, 12, ... and a closing token, but for the last one, which has none."""

    texts = (np.r_[2, np.arange(11, 11 + 8), CLOSING], np.r_[2, 41, CLOSING], np.r_[2, np.arange(21, 21 + 6)])

    def __len__(self) -> int:
        return len(self.texts)

    def lengths(self, indices: Any) -> Any:
        return np.array([len(self.texts[i]) for i in indices], np.int32)

    def gather(self, indices: Any) -> Any:
        return np.concatenate([self.texts[i] for i in indices]), self.lengths(indices)


def test_texts_are_cut_to_the_limit_and_keep_their_closing_token() -> None:
    short = Shortened(Texts(), limit=5, closing_ids=(CLOSING,))
    order = np.array([2, 0, 1, 0])
    ids, lengths = short.gather(order)
    assert lengths.tolist() == short.lengths(order).tolist() == [5, 5, 3, 5]
    cut = [2, 11, 12, 13, CLOSING]
    assert ids.tolist() == [2, 21, 22, 23, 24, *cut, 2, 41, CLOSING, *cut]
    assert len(short) == 3
    whole = Shortened(Texts(), limit=10, closing_ids=(CLOSING,)).gather(order)
    assert [part.tolist() for part in whole] == [part.tolist() for part in Texts().gather(order)]


def test_limit_follows_a_line_and_ends() -> None:
    warmup, texts = LengthWarmup(first=4, last=10, steps=4, closing_ids=(CLOSING,)), Texts()
    assert [vars(warmup.at(step, texts))["limit"] for step in range(4)] == [4, 5, 7, 8]
    assert warmup.at(4, texts) is texts
    assert warmup.at(2, texts).lengths(np.array([0, 1])).tolist() == [7, 3]


def settings(**given: Any) -> Any:
    return SimpleNamespace(
        **{"max_length": 64, "length_warmup_from": 16, "length_warmup_steps": 0.25} | given
    )


def test_settings_give_the_length_in_steps_or_as_a_share() -> None:
    assert LengthWarmup.of(settings(), 80, [1, CLOSING]) == LengthWarmup(16, 64, 20, (1, CLOSING))
    assert LengthWarmup.of(settings(length_warmup_steps=7), 80, []) == LengthWarmup(16, 64, 7, ())
    assert LengthWarmup.of(settings(length_warmup_from=None, length_warmup_steps=0), 80, []) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"length_warmup_steps": 0}, "a warm-up of the sequence length needs both"),
        (
            {"length_warmup_from": 64},
            "length_warmup_from is 64 .* with length_warmup_from less than data.max_length=64",
        ),
        ({"length_warmup_steps": 2.5}, "length_warmup_steps=2.5 is neither a whole number nor a fraction"),
    ],
)
def test_wrong_settings_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LengthWarmup.of(settings(**given), 80, [])
