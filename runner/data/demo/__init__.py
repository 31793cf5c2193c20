"""Data that is made here, for tests and first steps: text and tasks of the standard library, drawn scenes."""

from typing import TYPE_CHECKING

from iolaus.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from iolaus.runner.data.demo.scenes import Scenes
    from iolaus.runner.data.demo.stdlib_text import StdlibText
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["Scenes", "StdlibText"]
