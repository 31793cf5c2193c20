"""A run that is over, or under way, as an object: what it was, what it reached, and the model it has left."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf

from iolaus.runner.run.errors import explained
from iolaus.runner.run.folder import RunFolder
from iolaus.runner.run.metrics_file import read_table
from iolaus.runner.run.model_folder import check_is_run, model_folder

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from iolaus.runner.data.read.rows import Row


class Run:
    """The run in a folder. What changes there is seen the next time it is asked for.

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
        """What `status.json` says: `state`, `step`, `seconds`, `results`, and an `error` of a run that failed."""
        return RunFolder(self.path).status()

    @property
    def state(self) -> str:
        """`running`, `done`, `failed`, ...; `killed` where the status says running and nobody is."""
        return RunFolder(self.path).state()

    @property
    def results(self) -> dict[str, float]:
        """The figures at the end, by name; empty before."""
        return dict(self.status.get("results") or {})

    @property
    def config(self) -> DictConfig:
        """What the run computes: its config, secrets left out. `iolaus.run` of it trains anew.

        Raises:
            ValueError: `config.yaml` is missing or damaged.
        """
        try:
            config = OmegaConf.load(self.path / "config.yaml")
        except Exception as error:
            raise ValueError(f"{str(self.path / 'config.yaml')!r} is missing or damaged: {error}") from None
        if not isinstance(config, DictConfig):
            raise ValueError(f"{str(self.path / 'config.yaml')!r} is damaged: it holds no settings")
        config.pop("resolved", None)  # what `auto` came to, which `status` has as well
        config.resume = None
        return config

    def metrics(self) -> dict[str, NDArray[Any]]:
        """What was logged, as a table: `step`, `time` (seconds since 1970), and each figure, NaN where it was not.

        `pandas.DataFrame(run.metrics())` and `pyarrow.table(run.metrics())` take it as it is.
        """
        return read_table(self.path / "metrics.csv")

    def checkpoints(self) -> list[Path]:
        """Its checkpoints by step, the newest last; `resume=` and `iolaus consolidate` take each."""
        return sorted((self.path / "checkpoints").glob("step-*.ckpt"))

    def model(self) -> "PreTrainedModel":
        """The exported model of transformers, in evaluation mode on the CPU; every call loads it anew.

        Raises:
            ValueError: the run has left no model.
        """
        import transformers

        from iolaus.runner.inference.infill import open_model
        from iolaus.runner.models.weights import load_trained

        with explained():
            config, _ = open_model(str(self.path))
            kind = getattr(transformers, (config.architectures or ["AutoModel"])[0])
            model: PreTrainedModel = load_trained(kind, model_folder(str(self.path)))
            return model

    def tokenizer(self) -> "PreTrainedTokenizerBase":
        """The tokenizer that was exported with the model; raises ValueError where there is none."""
        from iolaus.runner.inference.infill import open_model

        with explained():
            return open_model(str(self.path))[1]

    def predict(
        self,
        rows: "str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]",
        *,
        images: str | Path | None = None,
        max_new_tokens: int = 32,
        tokens: int = 8192,
        steps: int = 1000,
        temperature: float = 1.0,
        order: str = "random",
        seed: int = 0,
    ) -> list[dict[str, Any]]:
        """What the model says of each row, in their order, as `iolaus predict` does.

        Args:
            rows: Texts, or mappings with the columns that the run was trained on (`text`; `question` and `context`;
                `question` and `image`); one of them, or a list. A language model fills in each `[MASK]` of a text.
            images: For vision-language models: the folder that the paths of images start from.
            max_new_tokens: For vision-language models: the longest answer.
            tokens: For labelled tasks: tokens computed on at once.
            steps: For language models: steps from all masked to none.
            temperature: For language models: below 1 plays safe, 0 takes the likeliest.
            order: For language models: `random`, or `confidence`, the surest first.
            seed: For language models: the result follows from it.

        Returns:
            For each row its text and `predicted`: a label, a label per word, an answer, or the text filled in; tasks
            with labels give a `probability` as well.

        Raises:
            ValueError: the run has left no model, or a row is not what the model takes.
        """
        from iolaus.runner.inference.answering import sees_images

        given = [rows] if isinstance(rows, str | Mapping) else list(rows)
        with explained():
            if sees_images(self._opened[0]):
                return self._answered(given, images, max_new_tokens) if given else []
            if self._predictor is None:
                return self._filled(given, steps, temperature, order, seed) if given else []
            return self._labelled(given, tokens) if given else []

    @cached_property
    def _opened(self) -> tuple[Any, "PreTrainedTokenizerBase"]:
        from iolaus.runner.inference.infill import open_model

        return open_model(str(self.path))

    @cached_property
    def _predictor(self) -> Any:
        """What predicts labels; None for a model without such a task."""
        from iolaus.runner.inference.labelled import load_predictor, task_of

        config, tokenizer = self._opened
        task = task_of(str(self.path), config.architectures or [])
        return load_predictor(str(self.path), task, config, tokenizer) if task else None

    @cached_property
    def _writer(self) -> Any:
        """The language model and its tokenizer."""
        from iolaus.runner.inference.infill import load

        return load(str(self.path))

    @cached_property
    def _answerer(self) -> Any:
        from iolaus.runner.inference.answering import load_answerer

        return load_answerer(str(self.path))

    def _labelled(self, given: Sequence[Any], tokens: int) -> list[dict[str, Any]]:
        from iolaus.runner.data.read.rows import Rows
        from iolaus.runner.inference.labelled import predict

        column = self._predictor.settings["text_column"]
        rows = rows_of(given, lambda text: {column: text})
        if self._predictor.task.name == "token_classification":
            rows = [_in_words(row, column) for row in rows]
        return list(predict(self._predictor, Rows(rows, "the rows"), tokens).rows)

    def _filled(
        self, given: Sequence[Any], steps: int, temperature: float, order: str, seed: int
    ) -> list[dict[str, Any]]:
        from iolaus.runner.data.labelled.examples import text_of
        from iolaus.runner.inference.infill import fill

        rows = rows_of(given, lambda text: {"text": text})
        texts = [text_of(row, "text", "the name of the column to text") for row in rows]
        model, tokenizer = self._writer
        filled = fill(model, tokenizer, texts, steps, temperature, order, seed)
        return [{"text": text, "predicted": said} for text, said in zip(texts, filled, strict=True)]

    def _answered(
        self, given: Sequence[Any], images: str | Path | None, max_new_tokens: int
    ) -> list[dict[str, Any]]:
        from iolaus.runner.data.vision.images import ImageFolder
        from iolaus.runner.inference.answering import ImageFiles, answer, questions_of_rows

        if max_new_tokens < 1:
            raise ValueError(f"max_new_tokens={max_new_tokens}: expected at least 1")
        names = self._answerer.reader.columns
        rows = rows_of(given, lambda text: {names["question"]: text, names["image"]: []})
        found = ImageFiles() if images is None else ImageFolder(images)
        return list(answer(self._answerer, questions_of_rows(self._answerer, rows), found, max_new_tokens))


def rows_of(given: Sequence[Any], alone: Callable[[str], dict[str, Any]]) -> "list[Row]":
    """Rows as readers of files give them; `alone` says what the columns of a text alone are.

    Raises:
        ValueError: something is neither a text nor a mapping.
    """
    from iolaus.runner.data.read.rows import Row

    rows = []
    for number, value in enumerate(given, 1):
        if not isinstance(value, str | Mapping):
            raise ValueError(
                f"row {number} is a {type(value).__name__}: expected a text, or a mapping of its columns such as "
                '{"text": "..."}'
            )
        rows.append(Row(f"row {number}", alone(value) if isinstance(value, str) else value))
    return rows


def _in_words(row: "Row", column: str) -> "Row":
    """The row with its text split at white space, where it is not a list of words yet."""
    text = row.values.get(column)
    return row._replace(values={**row.values, column: text.split()}) if isinstance(text, str) else row


def open_run(path: str | Path) -> Run:
    """The run in a folder.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: it is not that of a run, or its `status.json` is damaged.

    Example:
        >>> run = open_run("outputs/2026-11-03/12-30-11-ab12")  # doctest: +SKIP
        >>> run.predict(["what a fine [MASK]"])[0]["predicted"]  # doctest: +SKIP
        'what a fine day'
    """
    run = Run(path)
    check_is_run(run.path)
    if (run.path / "status.json").is_file() and not run.status:
        raise ValueError(
            f"{str(run.path / 'status.json')!r} is damaged: it is no JSON that a run has written"
        )
    return run
