"""What a config may say.

- `checks`: contradictions in a config, found before anything heavy is imported.
- `targets`: classes and functions that a config may name, and whether all of its targets may run.
- `permissions`: settings that only the user may change; `reach`: those among them that reach outside of a run.
- `loading`: what transformers loads, without code of others.
- `calling`: calls of targets with values of a run, and options as objects.
- `run_config`: the config of a run that goes on, complete and with paths from where the run was begun.
- `skipped`: the global batches that a run leaves out.
"""

from typing import TYPE_CHECKING

from tiryns.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from tiryns.runner.config.checks import EarlyChecks
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["EarlyChecks"]
