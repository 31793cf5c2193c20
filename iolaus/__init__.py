"""The public face of Iolaus. `conf` says what can be chosen, `runner` runs it."""

from typing import Any

from iolaus.old_names import keep_old_names

keep_old_names()


def __getattr__(name: str) -> Any:
    if name == "register":  # imported when it is asked for, as it brings Hydra
        from iolaus.conf.registry import register

        return register
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
