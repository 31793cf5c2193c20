"""The field of an exported config that says how a model guesses tokens, where masks alone do not tell."""

from tiryns.former import FORMER

OBJECTIVE = "tiryns_objective"
"""The field of an exported model's config that says how it was trained to guess tokens, where masks alone do not."""

FIELDS = (OBJECTIVE, f"{FORMER}_objective")
"""That field, and its name in models exported until version 0.2."""


def objective_of(config: object) -> str | None:
    """Returns how an encoder was trained to guess next tokens (`clm`, `hybrid` or `hybrid_shifted`), or None."""
    return next((getattr(config, field) for field in FIELDS if hasattr(config, field)), None)
