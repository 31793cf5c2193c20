"""`tiryns doctor`: what this machine can do, and what a run of some settings would choose here.

- `command`: the subcommand, its screen and its document.
- `machine`: processor, memory, disk, SLURM and GPUs; `libraries`: the packages that are needed, and the extras.
- `choice`: what `auto` comes to, with the reason, or what this machine lacks.
"""
