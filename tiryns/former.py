"""Supports this project's name until version 0.2: reads old recipes and runs, and reports old variables."""

from collections.abc import Mapping

FORMER = "iolaus"
"""The distribution, the package and the command until version 0.2."""


def canonical(target: str) -> str:
    """Returns the spelling of a `_target_` that options have: `runner.NAME` for a full name of this package.

    Example:
        >>> canonical("tiryns.runner.optim.adamw"), canonical("my_package.runner.adamw")
        ('runner.optim.adamw', 'my_package.runner.adamw')
    """
    package, _, rest = target.partition(".")
    return rest if package in ("tiryns", FORMER) and rest.startswith("runner.") else target


def unread_variables(environment: Mapping[str, str]) -> str | None:
    """Returns a line that gives the present name of each variable with the former prefix; None without any.

    Example:
        >>> unread_variables({"TIRYNS_CACHE": "/cache"}) is None
        True
    """
    prefix = f"{FORMER.upper()}_"
    names = sorted(name for name in environment if name.startswith(prefix))
    now = ", ".join(f"{name} is now TIRYNS_{name.removeprefix(prefix)}" for name in names)
    return f"these environment variables are not read: {now}" if names else None
