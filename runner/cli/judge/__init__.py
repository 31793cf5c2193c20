"""`tiryns judge`: is one setting better than another, by how much, and could it be luck?

- `command`: the command, its forms and exit codes.
- `sides`: settings as overrides, their runs in pairs of equal seeds, and the training of missing runs.
- `measure`: the metric to compare, whether runs are comparable, and pairs at equal tokens, FLOPs and seconds.
- `answer`: what the pairs say, in numbers and in a sentence; `picture`: the page; `forest`: its forest plot.
"""
