"""`python -m runner.consolidate`: see `runner.cli.consolidate`."""

from iolaus.runner.cli.consolidate import main

if __name__ == "__main__":
    main()
