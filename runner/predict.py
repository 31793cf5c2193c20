"""`python -m runner.predict`: see `runner.cli.predict`."""

from iolaus.runner.cli.predict import main

if __name__ == "__main__":
    main()
