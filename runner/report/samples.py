"""Masked text on the page: the true tokens, marked as guessed or not, with the model's guesses."""

from html import escape
from pathlib import Path
from typing import Any

from tiryns.runner.report import page
from tiryns.runner.run.files import read_json


def samples_section(folder: Path) -> str:
    """The samples in a run's `samples.json`; nothing where there are none, or they are damaged."""
    sets = read_json(folder / "samples.json", {})
    try:
        shown = [_set(name if len(sets) > 1 else "", s) for name, s in sets.items() if s]
    except (ValueError, KeyError, TypeError):
        shown = []
    if not shown:
        return ""
    hint = page.label(
        "Held-out text. Marked tokens were masked: green ones the model guessed right; after a red one stands its guess."
    )
    return page.section("Samples", hint, *shown)


def _set(name: str, samples: list[list[Any]]) -> str:
    texts = "\n".join(f'<p class="sample">{"".join(map(_piece, sample))}</p>' for sample in samples)
    return page.label(name) + texts


def _piece(piece: Any) -> str:
    if isinstance(piece, str):
        return escape(piece)
    text = str(piece["true"])
    word = text.lstrip()
    space = text.removesuffix(word)
    guesses = [(str(guess), float(share)) for guess, share in piece["guesses"]]
    title = ", ".join(f"{guess} {share:.0%}" for guess, share in guesses)
    kind, guess = ("right", "") if piece["right"] else ("wrong", f"<i>{escape(guesses[0][0])}</i>")
    return f'{space}<mark class="{kind}" title="{escape(title)}">{escape(word)}{guess}</mark>'
