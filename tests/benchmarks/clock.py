"""Real tokens per second of a training, whoever trains."""

import time

import torch


class Clock:
    """Real tokens of the steps behind the first ones, and their seconds: of the CPU, or on a GPU by the wall clock."""

    def __init__(self, device: str = "cpu", warm_up: int = 1) -> None:
        self.on_gpu, self.warm_up = device != "cpu", warm_up
        self.steps, self.tokens, self.seconds, self._began = 0, 0, 0.0, 0.0
        self.total_tokens, self.waited, self._ended = 0, 0.0, 0.0

    def now(self) -> float:
        """The time, with all done that was begun."""
        if not self.on_gpu:
            return time.process_time()
        torch.cuda.synchronize()
        return time.perf_counter()

    def begin(self) -> None:
        """The data of a step is there."""
        if self.steps >= self.warm_up:
            self.waited += time.perf_counter() - self._ended

    def step(self, tokens: int) -> None:
        """A step has ended."""
        now = self.now()
        self.steps += 1
        self.total_tokens += tokens
        if self.steps == self.warm_up:
            self._began = now
            if self.on_gpu:
                torch.cuda.reset_peak_memory_stats()
        elif self.steps > self.warm_up:
            self.tokens += tokens
            self.seconds = now - self._began
        self._ended = time.perf_counter()

    @property
    def speed(self) -> float:
        """Real tokens per second."""
        return self.tokens / self.seconds
