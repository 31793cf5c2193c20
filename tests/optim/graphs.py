"""Counts what torch.compile makes: a backend that computes graphs as they are."""

from collections.abc import Callable
from typing import Any

import torch


class Graphs:
    """The graphs that were compiled, how often each was called, in order of their making."""

    def __init__(self) -> None:
        self.made: list[torch.fx.GraphModule] = []
        self.calls: list[int] = []
        self.modes: list[str | None] = []

    def backend(
        self, graph: torch.fx.GraphModule, inputs: list[Any], mode: str | None = None
    ) -> Callable[..., Any]:
        """What `torch.compile` takes as `backend`."""
        number = len(self.made)
        self.made.append(graph)
        self.calls.append(0)
        self.modes.append(mode)

        def run(*arguments: Any) -> Any:
            self.calls[number] += 1
            return graph(*arguments)

        return run

    def operations(self) -> str:
        """The names of what all graphs call, in order."""
        return " ".join(str(node.target) for graph in self.made for node in graph.graph.nodes)

    def calls_with(self, operation: str) -> int:
        """How often graphs with an operation of that name were called."""
        found = zip(self.made, self.calls, strict=True)
        return sum(
            calls
            for graph, calls in found
            if any(operation in str(node.target) for node in graph.graph.nodes)
        )
