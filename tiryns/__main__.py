"""`python -m tiryns`: the command `tiryns`."""

from tiryns.runner.cli.commands import main
from tiryns.runner.run.command.lifetime import without_teardown


def command() -> None:
    """Runs the command line as a process of its own, which ends with it."""
    with without_teardown():
        main()


if __name__ == "__main__":
    command()
