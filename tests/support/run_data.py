"""Data of a run that has nothing but what a test gives it."""

from typing import Any

from tiryns.runner.protocols import RunData


class GivenData(RunData):
    """`RunData` with these attributes: `GivenData(streamed=True)`."""

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)
