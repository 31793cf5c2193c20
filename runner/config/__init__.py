"""What a config may say.

- `checks`: contradictions in a config, found before anything heavy is imported.
- `targets`: which classes and functions a config may name.
- `permissions`: settings that only the user may change.
- `custom_code`: models of transformers that bring code.
- `settings`: constructors that take an option whole; `calling`: which values of a run a target is called with.
- `completed`: settings that plain classes leave out.
- `allowed`: what a whole config may let run.
"""

from typing import TYPE_CHECKING

from iolaus.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from iolaus.runner.config.checks import EarlyChecks
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["EarlyChecks"]
