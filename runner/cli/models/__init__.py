"""The subcommands that take the model of a run: what it says, where it goes, and as which files."""
