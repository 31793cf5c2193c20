"""A plugin for Iolaus: what it adds can be named on the command line as soon as it is installed."""
