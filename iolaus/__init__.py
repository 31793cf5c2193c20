"""The public face of Iolaus. `conf` says what can be chosen, `runner` runs it."""

from iolaus.old_names import keep_old_names

keep_old_names()
