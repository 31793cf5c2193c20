"""`python -m runner.push`: see `runner.cli.push`."""

from iolaus.runner.cli.push import main

if __name__ == "__main__":
    main()
