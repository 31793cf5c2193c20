"""Checks, permissions and reading of configs.

- `checks`: contradictions in a config, found before anything heavy is imported.
- `targets`: which classes and functions a config may name.
- `permissions`: settings that only the user may change; `reach`: settings that reach outside of a run.
- `loading`: loads models of transformers; code of others runs only if it is allowed.
- `calling`: calls targets with run-time values; passes the settings of an option as one object.
- `run_config`: the config of a resumed run, complete and with paths from the folder where the run was begun.
- `skipped`: the global batches that a run skips.
"""

from typing import TYPE_CHECKING

from tiryns.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from tiryns.runner.config.checks import EarlyChecks
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["EarlyChecks"]
