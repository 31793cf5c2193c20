"""Exit statuses: a number has the same meaning in every command. `docs/commands.md` shows the table."""

DONE = 0
ERROR = 1
NOT_BEGUN = 2
NOT_CLEAR = 3
DIFFERENT = 4
PREEMPTED = 75
LOST_PEER = 76
REWOUND = 77
INTERRUPTED = 130
UNSAVED = 143

MEANINGS = {
    DONE: ("done", "done; of a comparison: the same, unchanged, clear"),
    ERROR: ("failed", "an error, a failed run or job, or a closed output: the result is missing"),
    NOT_BEGUN: ("refused", "refused: the result would differ from the request"),
    NOT_CLEAR: ("unclear", "unclear: a difference that may be luck, or rounding"),
    DIFFERENT: ("different", "something differs, was changed, or is missing"),
    PREEMPTED: ("preempted", "stopped by a signal such as SIGTERM (or `Ctrl-\\`); `resume=` continues"),
    LOST_PEER: ("lost_rank", "of a single rank: it lost the connection to another rank"),
    REWOUND: ("rewound", "of a single rank: its run went back to a checkpoint, and starts it again"),
    INTERRUPTED: ("interrupted", "stopped by Ctrl-C; a run can be resumed"),
    UNSAVED: ("unsaved", "of a single rank: it was stopped before it trained"),
}
"""Each exit status with a word for programs and its meaning. 75 is EX_TEMPFAIL of sysexits.h: try again."""
