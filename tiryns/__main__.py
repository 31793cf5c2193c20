"""`python -m tiryns`: the command `tiryns`."""

from tiryns.runner.cli.commands import main

if __name__ == "__main__":
    main()
