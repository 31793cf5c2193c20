"""`python -m runner.audit`: see `runner.run.audit`."""

from iolaus.runner.run.audit import main

if __name__ == "__main__":
    main()
