"""The subcommands: one file each, and what the command line answers without a run."""
