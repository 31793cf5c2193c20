"""`python -m tiryns`: the command `tiryns`."""

from tiryns.runner.cli.commands import main
from tiryns.runner.run.command.lifetime import without_teardown


def command() -> None:
    """Runs the command line, and ends this process with its exit status."""
    with without_teardown():
        main()


if __name__ == "__main__":
    command()
