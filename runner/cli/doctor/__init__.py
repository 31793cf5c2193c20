"""`tiryns doctor`: what this machine can do, and what a run of some settings would choose here, with the reasons.

- `command`: the subcommand, its screen, and the choices; `machine`: what the machine has, and the packages.
"""
