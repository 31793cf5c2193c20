"""The project's former name (until version 0.2): accepted in recipes and runs, reported in environment variables."""

from collections.abc import Mapping

FORMER = "iolaus"
"""The distribution, the package and the command until version 0.2."""


def canonical(target: str) -> str:
    """Returns a `_target_` as options spell it: `runner.NAME` for `tiryns.runner.NAME`, or for the former name.

    Example:
        >>> canonical("tiryns.runner.optim.adamw"), canonical("my_package.runner.adamw")
        ('runner.optim.adamw', 'my_package.runner.adamw')
    """
    package, _, rest = target.partition(".")
    return rest if package in ("tiryns", FORMER) and rest.startswith("runner.") else target


def unread_variables(environment: Mapping[str, str]) -> str | None:
    """Returns a message with the new name of each variable that has the former prefix; None if no variable has it.

    Example:
        >>> unread_variables({"TIRYNS_CACHE": "/cache"}) is None
        True
    """
    prefix = f"{FORMER.upper()}_"
    names = sorted(name for name in environment if name.startswith(prefix))
    now = ", ".join(f"{name} is now TIRYNS_{name.removeprefix(prefix)}" for name in names)
    return f"these environment variables are not read: {now}" if names else None
