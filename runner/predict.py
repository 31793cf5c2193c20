"""`python -m runner.predict`: see `runner.cli.predict`."""

from runner.cli.predict import main

if __name__ == "__main__":
    main()
