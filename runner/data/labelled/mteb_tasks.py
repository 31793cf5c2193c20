"""Tasks of mteb by name."""

from collections.abc import Iterator
from typing import Any

from transformers import PreTrainedTokenizerBase

from tiryns.conf.data import mteb as options
from tiryns.conf.values import suggest
from tiryns.runner.config.settings import takes_settings
from tiryns.runner.data.labelled.finetuning import tokenizer_of


class MtebTasks:
    """Tasks of mteb for `mode=probe`.

    Example: `tiryns mode=probe data=mteb data.tasks=[STSBenchmark] model=pretrained model.name_or_path=RUN`
    """

    tasks: dict[str, Any]
    """By name."""
    tokenizer: PreTrainedTokenizerBase

    @takes_settings(options.Mteb)
    def __init__(self, settings: options.Mteb) -> None:
        self.settings, self.max_length = settings, settings.max_length

    def prepare_data(self) -> None:
        """Finds the tasks. Raises ImportError without mteb, and ValueError for an unknown task or without a tokenizer."""
        try:
            from mteb import AbsTask
        except ImportError as error:
            raise ImportError("data=mteb needs mteb: pip install 'tiryns[mteb]'") from error
        known = {task.metadata.name: task for task in _below(AbsTask) if hasattr(task, "metadata")}
        for name in self.settings.tasks:
            if name not in known:
                raise ValueError(f"data.tasks: mteb has no task {name!r}{suggest(name, known)}")
        self.tasks = {name: known[name]() for name in self.settings.tasks}
        if self.settings.tokenizer is None:
            raise ValueError("data=mteb has no texts to train a tokenizer on: set data.tokenizer")
        self.tokenizer = tokenizer_of(self.settings, tuple)


def _below(kind: Any) -> Iterator[Any]:
    """The classes derived from one."""
    for derived in kind.__subclasses__():
        yield derived
        yield from _below(derived)
