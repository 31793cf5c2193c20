"""What the command line answers without a run: `--info`, `--schema`, `--version`, and `iolaus runs`."""

from collections.abc import Sequence
from importlib.metadata import version


def handles_command(arguments: Sequence[str]) -> bool:
    """Answers a command that is no run; False where it is one."""
    if list(arguments[:1]) == ["runs"]:
        from iolaus.runner.cli.runs import main

        main(list(arguments[1:]))
    elif "--version" in arguments:
        print(_versions())
    elif "--schema" in arguments:
        from iolaus.runner.cli.schema import written

        print(written())
    elif "--info" in arguments:
        return _informed(arguments)
    else:
        return False
    return True


def _informed(arguments: Sequence[str]) -> bool:
    """Hydra's own `--info defaults` and the like are left to Hydra."""
    from iolaus.runner.cli.info import HYDRAS_OWN, show_info

    after = list(arguments).index("--info") + 1
    if after < len(arguments) and arguments[after] in HYDRAS_OWN:
        return False
    show_info([word for word in arguments if word != "--info"])
    return True


def _versions() -> str:
    others = ", ".join(
        f"{name} {version(name)}" for name in ("torch", "lightning", "transformers", "hydra-core")
    )
    return f"iolaus {version('iolaus')} ({others})"
