"""Any trained model, and its predictions for rows: one class for every task."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

from tiryns.runner.data.labelled.examples import CHANGEABLE
from tiryns.runner.data.read.bad_rows import BadRows
from tiryns.runner.data.read.opened import File, Reading, open_text, with_encoding
from tiryns.runner.data.read.rows import HowRead, Row, Rows, stream_rows
from tiryns.runner.evaluation.files import PredictionRow
from tiryns.runner.inference.answering import Answers, sees_images
from tiryns.runner.inference.kinds import PLAIN, Kept, Kind, PredictOptions, check_settings
from tiryns.runner.inference.labelled import Labels, task_of
from tiryns.runner.inference.language import infill
from tiryns.runner.inference.vectors import Encoded, Vectors, encoding_task
from tiryns.runner.models.embedding.folder import read_embedding


class Predictor:
    """Predicts with the model of a run or a Hugging Face folder: labels of texts or words, vectors, answers, filled-in
    masks, or continuations.

    `settings` override `data` settings of the training, such as `text_column` for rows with another column name.
    Raises ValueError for a missing model, or for a setting that the model does not have.

    Example:
        >>> predictor = Predictor("outputs/2026-11-03/12-30-11-ab12")  # doctest: +SKIP
        >>> predictor.predict(["where is my order"])[0]["predicted"]  # doctest: +SKIP
        'order'
        >>> for found in predictor.stream(open("texts.txt")):  # doctest: +SKIP
        ...     print(found["predicted"])
    """

    def __init__(self, run: str | Path, settings: Mapping[str, object] | None = None) -> None:
        config, _ = parts = infill.open_model(str(run))
        changes = dict(settings or {})
        self.kind: Kind
        """The kind of model, which makes the predictions."""
        if sees_images(config):
            self.kind = Answers(str(run), changes)
        elif infill.generates(config):
            self.kind = infill.Continuations(str(run), parts, changes)
        elif (encoding := encoding_task(str(run))) is not None:
            self.kind = Encoded(str(run), encoding, parts, changes)
        elif not infill.is_language_model(config) and (embedding := read_embedding(str(run))) is not None:
            self.kind = Vectors(str(run), embedding, parts, changes)  # a folder of sentence-transformers
        elif (task := task_of(str(run), config.architectures or [])) is None:
            self.kind = infill.Masks(str(run), parts, changes)
        else:
            check_settings(changes, (*CHANGEABLE, *Reading._fields))
            self.kind = Labels(str(run), task, parts, changes)

    @property
    def task(self) -> str:
        """Returns `classification` or another labelled task, `vectors`, `vision_language`, `infill`, or `generation`."""
        return self.kind.name

    def predict(
        self, rows: Iterable[str | Mapping[str, object]], options: PredictOptions = PLAIN
    ) -> list[PredictionRow]:
        """Returns the prediction for each text or mapping of columns, in their order."""
        return list(self.stream(rows, options))

    def stream(
        self, rows: Iterable[str | Mapping[str, object]], options: PredictOptions = PLAIN
    ) -> Iterator[PredictionRow]:
        """Yields the predictions one after the other; rows are read in batches, so there may be any number of them."""
        row_stream: Any = (self._row(number, one, options) for number, one in enumerate(rows, 1))
        for batch in self.batches(Rows(row_stream, "the rows"), options):
            yield from batch.predictions

    def batches(self, rows: Rows, options: PredictOptions = PLAIN) -> Iterator[Kept]:
        """Yields rows with their predictions, batch by batch; does not read labels."""
        source = iter(rows.rows)
        parts = iter(lambda: list(islice(source, self.kind.at_once)), [])
        for number, part in enumerate(parts):
            read = Rows(part, "the rows", rows.textual, bad=rows.bad, first=number * self.kind.at_once)
            yield self.kind.predict(read, options, number)

    def of_file(self, rows: Rows, options: PredictOptions = PLAIN, figures: bool = True) -> Iterator[Kept]:
        """Yields predictions for `rows_of_file` by batch, or all at once with `figures` if the first rows have labels."""
        source = iter(rows.rows)
        first = list(islice(source, self.kind.at_once))
        if figures and self.kind.has_labels(first):
            parts = iter([self.kind.predict(rows._replace(rows=[*first, *source]), options, 0, figures=True)])
        else:
            every: Any = chain(first, source)
            parts = self.batches(rows._replace(rows=every), options)
        empty = True
        for batch in parts:
            empty = empty and not batch.rows
            yield batch
        if empty:
            problem = f" that can be used: {rows.bad.first}" if rows.bad.first else ""
            raise ValueError(f"{rows.description} holds no examples{problem}")

    def rows_of_file(
        self,
        path: str | Path,
        options: PredictOptions = PLAIN,
        bad: BadRows | None = None,
        file_format: str | None = None,
    ) -> Rows:
        """Returns the rows of a file as an iterator that can be read once; each line of a text file is a row.

        Skips empty lines of a text file, which `bad` counts.
        """
        bad = bad or BadRows()
        reading = self.kind.reading(str(path))
        if file_format is not None:
            reading = reading._replace(format=file_format)
        if reading.format in ("txt", "md"):

            def lines() -> Iterator[Row]:
                with open_text(with_encoding(File(Path(path), "txt", reading))) as file:
                    for where, text in bad.nonempty_lines(file, f"{path}, "):
                        yield Row(where, self.kind.values(text, options))

            rows: Any = lines()
            return Rows(rows, str(path), bad=bad)
        how = HowRead(bad, self.kind.columns(), lone_text=self.kind.text_column, rule=self.kind.rule)
        return stream_rows(str(path), reading, "train", how)

    def _row(self, number: int, row: object, options: PredictOptions) -> Row:
        if isinstance(row, str):
            return Row(f"row {number}", self.kind.values(row.rstrip("\n"), options))
        if not isinstance(row, Mapping):
            expectation = 'expected a text, or a mapping of its columns such as {"text": "..."}'
            raise ValueError(f"row {number} is a {type(row).__name__}: {expectation}")
        return Row(f"row {number}", self.kind.convert(row))
