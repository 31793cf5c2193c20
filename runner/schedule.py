"""`python -m runner.schedule`: see `runner.cli.schedule`."""

from iolaus.runner.cli.schedule import main

if __name__ == "__main__":
    main()
