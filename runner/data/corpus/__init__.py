"""Large corpora: tokenised by datatrove on one machine, SLURM or Ray, for `data.source=store:FOLDER`.

- `plan`: the files of the source, their division among tasks, and the settings. Read it first.
- `steps`: the steps of a task's pipeline: reads files, writes a shard.
- `named`: filters, deduplication and executors of datatrove by their names.
- `executors`: runs the tasks of a stage here, on SLURM or on Ray.
- `prepare`: what `tiryns prepare corpus` does, from source to store.

All but `plan` import datatrove, which the extra `tiryns[corpus]` installs.
"""
