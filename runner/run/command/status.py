"""Exit statuses: one number is one kind of end, whichever command ends so. `docs/commands.md` explains them."""

DONE = 0
"""Done; of a command that compares: equal, unchanged, clear."""

ERROR = 1
"""An error, or a run or job that failed: what was asked for is not there."""

NOT_BEGUN = 2
"""Something else than what was asked for would be done, so nothing was."""

NOT_CLEAR = 3
"""An answer between yes and no: a difference that may be luck, or that rounding may make."""

DIFFERENT = 4
"""The answer is that something differs, was changed, or is missing."""

PREEMPTED = 75
"""A run that was stopped by a signal and can go on (EX_TEMPFAIL: try again)."""

LOST_PEER = 76
"""A rank whose connection to another one broke."""

REWOUND = 77
"""A rank of a run that was taken back to a checkpoint, to be started again."""

INTERRUPTED = 130
"""Stopped by Ctrl-C; a run can go on."""

UNSAVED = 143
"""A rank that was stopped while it did not train, when no other rank can be saving."""
