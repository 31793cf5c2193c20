"""`python -m runner.data.prepare_energon`: see `runner.data.energon.prepare`."""

from iolaus.runner.data.energon.prepare import main

if __name__ == "__main__":
    main()
