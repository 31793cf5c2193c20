"""What a config may say: checks before anything heavy is imported, targets, permissions, code of others."""

from typing import TYPE_CHECKING

from iolaus.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from iolaus.runner.config.checks import EarlyChecks
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["EarlyChecks"]
