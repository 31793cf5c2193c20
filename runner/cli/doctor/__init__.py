"""`tiryns doctor`: what this machine can do, and what a run of some settings would choose here, with the reasons.

- `command`: the subcommand, its output, and a run's choices; `machine`: the machine's hardware and packages.
"""
