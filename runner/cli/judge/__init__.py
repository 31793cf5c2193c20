"""`tiryns judge`: is one setting better than another, by how much, and could it be luck?

- `command`: the command, its forms and exit codes.
- `sides`: settings as overrides, their runs, and pairs of equal seeds; `missing`: trains the runs that are not there.
- `measure`: the figure that is compared, and whether it can be; `budgets`: it at equal tokens, FLOPs and seconds.
- `answer`: what the pairs say, in numbers and in a sentence; `picture`: the page; `forest`: its forest plot.
"""
