"""A run with its model and its predictions."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiryns.runner.run.errors import explain_errors
from tiryns.runner.run.folder import Run, load_run
from tiryns.runner.run.model_folder import model_folder

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from tiryns.runner.inference.predictor import Predictor


class OpenedRun(Run):
    """A run folder opened in Python, with its exported model and predictions; also named `tiryns.Run`.

    Example:
        >>> run = open_run("outputs/2026-11-03/12-30-11-ab12")  # doctest: +SKIP
        >>> run.state, run.config.optimizer.lr, run.metrics()["train/loss"][-1]  # doctest: +SKIP
        ('done', 0.001, 2.31)
    """

    def _repr_html_(self) -> str:
        """Returns the run as a notebook shows it."""
        from tiryns.runner.report.notebook import card

        return card(self)

    def model(self) -> "PreTrainedModel":
        """Returns the exported model, loaded anew in evaluation mode on the CPU; raises ValueError if there is none."""
        from tiryns.runner.inference.language.infill import open_model
        from tiryns.runner.models.architectures.registered import class_named
        from tiryns.runner.models.weights import load_trained

        with explain_errors():
            config, _ = open_model(str(self.path))
            kind = class_named((config.architectures or ["AutoModel"])[0])
            model: PreTrainedModel = load_trained(kind, model_folder(str(self.path)), both_ways=False)
            return model

    def tokenizer(self) -> "PreTrainedTokenizerBase":
        """Returns the tokenizer that was exported with the model; raises ValueError where there is none."""
        from tiryns.runner.inference.language.infill import open_model

        with explain_errors():
            return open_model(str(self.path))[1]

    def predict(
        self,
        rows: "str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]",
        *,
        images: str | Path | None = None,
        max_new_tokens: int = 32,
        tokens: int | None = None,
        steps: int = 1000,
        temperature: float = 1.0,
        order: str = "random",
        seed: int = 0,
    ) -> list[dict[str, Any]]:
        """Returns the model's prediction for each row, as `tiryns predict` makes it.

        Args:
            rows: A text or a mapping of the columns that the run was trained on (`text`; `question` and `context`;
                `question` and `image`), or a list of them. A language model fills in each `[MASK]` of a text, a
                causal one continues it.
            images: For vision-language models: the folder of the images.
            max_new_tokens: For vision-language and causal models: the longest answer or continuation, in tokens.
            tokens: For labelled tasks: tokens of a micro-batch; by default the run's setting.
            steps: For language models: number of sampling steps in which all masks are filled in.
            temperature: For language models: temperature of the sampling; 0 takes the most likely token.
            order: For language models: `random`, or `confidence`, which fills in the most likely tokens first.
            seed: For language models: seed of the sampling.

        Returns:
            For each row its text and `predicted`: a label, a label per word, an answer, or the text filled in; tasks
            with labels give a `probability` as well.

        Raises:
            ValueError: the run has no model, or a row lacks a column.
        """
        from tiryns.runner.inference.kinds import PredictOptions

        row_list = [rows] if isinstance(rows, str | Mapping) else list(rows)
        options = PredictOptions(
            images=images, max_new_tokens=max_new_tokens, tokens=tokens, steps=steps, temperature=temperature,
            order=order, seed=seed,
        )  # fmt: skip
        with explain_errors():
            return self._predictor.predict(row_list, options)

    @cached_property
    def _predictor(self) -> "Predictor":
        from tiryns.runner.inference.predictor import Predictor

        return Predictor(self.path)


def open_run(path: str | Path) -> OpenedRun:
    """Returns the run in a folder.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: it is no run folder, or its `status.json` is damaged.

    Example:
        >>> run = open_run("outputs/2026-11-03/12-30-11-ab12")  # doctest: +SKIP
        >>> run.predict(["what a fine [MASK]"])[0]["predicted"]  # doctest: +SKIP
        'what a fine day'
    """
    with explain_errors():
        run = OpenedRun(load_run(Path(path)).path)
        file = run.path / "status.json"
        if file.is_file() and not run.status:
            raise ValueError(f"{str(file)!r} is damaged: it is not the JSON of a run")
        return run
