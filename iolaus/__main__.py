"""`python -m iolaus`: the command `iolaus`."""

from iolaus.runner.cli.commands import main

if __name__ == "__main__":
    main()
