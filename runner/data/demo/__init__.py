"""Data that this machine generates without a download, for tests and first steps.

- `stdlib_text`: the documentation of the standard library, and its functions, as documents.
- `stdlib_tasks`: labelled examples from its sources, for each finetuning task.
- `stdlib_pairs`: pairs of texts from its docstrings; `stdlib_choices`: texts with choices; `stdlib_tags`: words with two
  columns of labels; `stdlib_minimal_pairs`: right and wrong sentences from its comments.
- `scenes`: drawn shapes with captions and questions.
"""

from typing import TYPE_CHECKING

from tiryns.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from tiryns.runner.data.demo.scenes import Scenes
    from tiryns.runner.data.demo.stdlib_text import StdlibCode, StdlibText
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["Scenes", "StdlibCode", "StdlibText"]
