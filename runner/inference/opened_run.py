"""A run as an object: its config, its figures, its model and its predictions."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray
from omegaconf import DictConfig

from tiryns.runner.config.yaml_files import read_config
from tiryns.runner.run.errors import explained
from tiryns.runner.run.folder import RunFolder
from tiryns.runner.run.metrics_file import read_table
from tiryns.runner.run.model_folder import check_is_run, model_folder

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from tiryns.runner.inference.predictor import Predictor


class Run:
    """The run in a folder, whose files are read anew for each property.

    Example:
        >>> run = open_run("outputs/2026-11-03/12-30-11-ab12")  # doctest: +SKIP
        >>> run.state, run.config.optimizer.lr, run.metrics()["train/loss"][-1]  # doctest: +SKIP
        ('done', 0.001, 2.31)
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        """The folder."""

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {self.state}, step {self.status.get('step', 0)})"

    @property
    def name(self) -> str:
        """The last two parts of the path, such as `2026-11-03/12-30-11-ab12`."""
        return RunFolder(self.path).name

    @property
    def status(self) -> dict[str, Any]:
        """The content of `status.json`: `state`, `step`, `seconds`, `results`, and the `error` of a failed run."""
        return RunFolder(self.path).status()

    @property
    def state(self) -> str:
        """`running`, `done`, `failed`, ...; `killed` where the status is running and its process has ended."""
        return RunFolder(self.path).state()

    @property
    def results(self) -> dict[str, float]:
        """The final figures by name; empty before the end."""
        return dict(self.status.get("results") or {})

    @property
    def config(self) -> DictConfig:
        """The config without secrets, which `tiryns.run` trains anew; raises ValueError if it is missing or damaged."""
        config = read_config(self.path / "config.yaml")
        config.pop("resolved", None)  # the values of `auto`, which are no settings
        config.resume = None
        return config

    def metrics(self) -> dict[str, NDArray[Any]]:
        """The logged figures as columns: `step`, `time` (seconds since 1970), and each figure, NaN where it is missing.

        `pandas.DataFrame(run.metrics())` and `pyarrow.table(run.metrics())` make a table of it.
        """
        return read_table(self.path / "metrics.csv")

    def checkpoints(self) -> list[Path]:
        """Its checkpoints by step, the newest last, for `resume=` and `tiryns consolidate`."""
        return sorted((self.path / "checkpoints").glob("step-*.ckpt"))

    def model(self) -> "PreTrainedModel":
        """The exported model, loaded anew in evaluation mode on the CPU; raises ValueError where there is none."""
        from tiryns.runner.inference.language.infill import open_model
        from tiryns.runner.models.architectures.registered import class_named
        from tiryns.runner.models.weights import load_trained

        with explained():
            config, _ = open_model(str(self.path))
            kind = class_named((config.architectures or ["AutoModel"])[0])
            model: PreTrainedModel = load_trained(kind, model_folder(str(self.path)), both_ways=False)
            return model

    def tokenizer(self) -> "PreTrainedTokenizerBase":
        """The tokenizer that was exported with the model; raises ValueError where there is none."""
        from tiryns.runner.inference.language.infill import open_model

        with explained():
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
        """The model's prediction for each row, as `tiryns predict` makes it.

        Args:
            rows: A text or a mapping of the columns that the run was trained on (`text`; `question` and `context`;
                `question` and `image`), or a list of them. A language model fills in each `[MASK]` of a text, a
                causal one continues it.
            images: For vision-language models: the folder of the images.
            max_new_tokens: For vision-language and causal models: the longest answer or continuation, in tokens.
            tokens: For labelled tasks: tokens of a micro-batch; none takes those of the run.
            steps: For language models: sampling steps from all masked to none.
            temperature: For language models: of the sampling; 0 takes the most likely token.
            order: For language models: `random`, or `confidence`, which fills in the most likely tokens first.
            seed: For language models: of the sampling.

        Returns:
            For each row its text and `predicted`: a label, a label per word, an answer, or the text filled in; tasks
            with labels give a `probability` as well.

        Raises:
            ValueError: the run has no model, or a row lacks a column.
        """
        from tiryns.runner.inference.kinds import PredictOptions

        given = [rows] if isinstance(rows, str | Mapping) else list(rows)
        options = PredictOptions(
            images=images, max_new_tokens=max_new_tokens, tokens=tokens, steps=steps, temperature=temperature,
            order=order, seed=seed,
        )  # fmt: skip
        with explained():
            return self._predictor.predict(given, options)

    @cached_property
    def _predictor(self) -> "Predictor":
        from tiryns.runner.inference.predictor import Predictor

        return Predictor(self.path)


def open_run(path: str | Path) -> Run:
    """The run in a folder.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: it is no run folder, or its `status.json` is damaged.

    Example:
        >>> run = open_run("outputs/2026-11-03/12-30-11-ab12")  # doctest: +SKIP
        >>> run.predict(["what a fine [MASK]"])[0]["predicted"]  # doctest: +SKIP
        'what a fine day'
    """
    run = Run(path)
    check_is_run(run.path)
    if (run.path / "status.json").is_file() and not run.status:
        raise ValueError(f"{str(run.path / 'status.json')!r} is damaged: it is not the JSON of a run")
    return run
