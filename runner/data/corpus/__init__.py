"""Large corpora: tokenised by datatrove on one machine, SLURM or Ray, for `data.source=store:FOLDER`.

- `plan`: the files of the source, their division among tasks, and the settings. Read it first.
- `steps`: the steps of a task's pipeline, which reads files and writes a shard, with filters and deduplication by name.
- `prepare`: what `tiryns prepare corpus` does, from source to store, with executors here, on SLURM or on Ray.

All but `plan` import datatrove, which the extra `tiryns[corpus]` installs.
"""
