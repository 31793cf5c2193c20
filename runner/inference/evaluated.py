"""Evaluates any trained model on new data: labelled examples, or documents for a language model."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tiryns.conf.values import check_choice
from tiryns.runner import log
from tiryns.runner.data.labelled.examples import CHANGEABLE
from tiryns.runner.data.read.bad_rows import BadRows
from tiryns.runner.data.read.rows import RowSource
from tiryns.runner.evaluation.calibration import calibration, fit_calibration, label_sets
from tiryns.runner.evaluation.files import Entry, entry_of, write_content, write_lines, write_sets
from tiryns.runner.evaluation.predictions import Predictions
from tiryns.runner.evaluation.resampling import Numbers, intervals
from tiryns.runner.evaluation.statistics.intervals import LEVEL, RESAMPLES, bootstrap
from tiryns.runner.inference.answering import SETTINGS as ANSWERED
from tiryns.runner.inference.answering import AnswersAsTested, sees_images
from tiryns.runner.inference.kinds import check_settings
from tiryns.runner.inference.labelled import Labels, task_of
from tiryns.runner.inference.language.figures import SETTINGS, DocumentSequences, LanguageModel
from tiryns.runner.inference.language.infill import open_model
from tiryns.runner.inference.language.likelihood import add_pseudo_perplexity
from tiryns.runner.inference.passes import Computation, Measured, Report, device_here
from tiryns.runner.patches.torch import processor
from tiryns.runner.run.command.json_output import plain
from tiryns.runner.tasks import get_task

COMPUTED = ("micro_batch_tokens", "micro_batch_size")
"""Settings of `data` that limit the size of micro-batches."""

BAD_ROW = "on_bad_row"
"""Setting of `data` that decides whether unusable rows are an error or skipped."""

KNOWN_SETTINGS = tuple(dict.fromkeys((*CHANGEABLE, *SETTINGS, *ANSWERED, *COMPUTED, BAD_ROW)))
"""Settings of `data` that an evaluation may override; a setting of another task has no effect."""

DOCUMENTS = "documents.jsonl"
"""File of a language model's evaluation with a line for each document."""

PRECISIONS = ("32-true", "bf16-mixed", "16-mixed")
"""Available precisions, as Lightning names them."""


class Asked(NamedTuple):
    """Options of an evaluation."""

    settings: Mapping[str, Any] = {}
    """Settings of `data`, from `KNOWN_SETTINGS`, that replace the run's."""
    precision: str | None = None
    """Overrides the run's precision; None keeps it."""
    objective: str | None = None
    """Overrides the objective of a language model's run by `mlm`, `clm` or `diffusion`; None keeps it."""
    resamples: int = RESAMPLES
    """Resamples of each interval; 0 for no intervals."""
    seed: int = 0
    """Seed of the resamples, and of the choice of documents."""
    pseudo_documents: int | None = 0
    """Number of documents per set for the pseudo-perplexity, which masks tokens one by one; None for all documents."""
    generated_samples: int | None = None
    """Number of questions about images per set to answer; 0 for all questions, None for the run's number."""
    max_new_tokens: int | None = None
    """Maximal length of a generated answer in tokens; None for the run's maximum."""
    skipping: str = "data.on_bad_row=skip"
    """What messages call the option that skips unusable labelled rows."""
    calibration: str | None = None
    """Name of the source on which the calibration of the other sources is fitted."""


AS_TRAINED = Asked()
"""All options as the run has them."""


class Evaluation(NamedTuple):
    """The content of `evaluation.json`, and of the files beside it."""

    content: Entry
    predictions: dict[str, Predictions]
    """The predictions for each labelled set, by the name of the set."""
    documents: list[Entry]
    """A line for each document of text, or for each example of a probe or of a plugin's task."""
    documents_file: str = DOCUMENTS
    """The name of the file for `documents`."""

    def write(self, folder: Path) -> None:
        """Writes `evaluation.json`, and either `predictions.jsonl` (see `write_sets`) or `documents_file`."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.predictions:
            write_sets(folder, self.predictions, self.content)
            return
        write_lines(folder / self.documents_file, self.documents)
        write_content(folder, self.content)


def evaluate(
    run: str,
    sources: Mapping[str, RowSource],
    asked: Asked = AS_TRAINED,
    report: Callable[[str], Report] | None = None,
) -> Evaluation:
    """Evaluates the model of a run, of a folder or from the hub on each of the named sources.

    The metrics are those of the run's test; for a language model, those of its validation. They equal the run's values to
    the last digit if the run used one process on this kind of machine. `report` returns the progress function of a set.

    Raises:
        ValueError: a missing model, or one that cannot be measured; a source without labels, with other labels than the
            model's, without a column that the model reads, or without text; an unknown setting.
        FileNotFoundError: a missing file.
    """
    check_settings(asked.settings, KNOWN_SETTINGS)
    if asked.resamples < 0:
        raise ValueError(
            f"the number of resamples is {asked.resamples}: expected 1 or more, or 0 for no intervals"
        )
    model = model_to_measure(run, asked)
    model.computation = computation_of(model.computation, asked)
    subject = {"objective": model.objective} if isinstance(model, LanguageModel) else {"task": model.name}
    over = "documents" if isinstance(model, LanguageModel) else "examples"
    facts = facts_of(run, subject, model.computation, asked, over)
    if isinstance(model, AnswersAsTested):
        facts |= model.writer._asdict()
    # All sources are read before the first is computed
    sets: dict[str, tuple[Any, Entry]] = {}
    for name, source in sources.items():
        if isinstance(model, Labels):
            bad = BadRows(asked.settings.get(BAD_ROW) == "skip", asked.skipping)
            sets[name] = model.labelled_samples(source, name, bad)
        else:
            sets[name] = model.read(source, name), {}
    if asked.calibration is not None:
        if not isinstance(model, Labels):
            raise ValueError(
                f"calibration is for one label of several, but the model in {run!r} predicts no labels"
            )
        model.keeps_all = True
    predictions, documents, entries = {}, list[Entry](), dict[str, Entry]()
    interval = (asked.resamples, asked.seed)
    for name, (sequences, of_rows) in sets.items():
        progress = report and report(name)
        if isinstance(model, LanguageModel):
            text = model.measure(sequences, progress)
            entries[name] = _entry_of_text(text, sequences, *interval)
            if asked.pseudo_documents != 0:
                progress = report and report(f"{name}, token by token")
                how = (asked.pseudo_documents, *interval, progress)
                add_pseudo_perplexity(entries[name], model, sequences, *how)
            documents += [{"set": name, **line} for line in text.predictions]
            continue
        result = model.measure(sequences, progress)
        predictions[name] = result.predictions
        entry = entry_with_intervals(result.predictions, result.figures, result.sums, *interval)
        entries[name] = entry | of_rows
    if asked.calibration is not None:
        fit = fit_calibration(asked.calibration, predictions[asked.calibration])
        for name in predictions.keys() - {asked.calibration}:
            entries[name]["calibration"] = calibration(predictions[name], fit, *interval)
            predictions[name].label_sets = label_sets(predictions[name], fit)
    return Evaluation(plain({**facts, "sets": entries}), predictions, documents)


def model_to_measure(run: str, asked: Asked = AS_TRAINED) -> Labels | AnswersAsTested | LanguageModel:
    """Loads the model of a run with the asked options; raises ValueError for an option that does not apply to it."""
    parts = open_model(run)
    changes = {name: value for name, value in asked.settings.items() if name not in (*COMPUTED, BAD_ROW)}
    answers = sees_images(parts.config)
    task = get_task("vision_language") if answers else task_of(run, parts.config.architectures or [])
    if task is not None and (asked.objective is not None or asked.pseudo_documents != 0):
        raise ValueError(f"the model in {run!r} is for {task.name.replace('_', ' ')}, not a language model")
    asks = {"generated_samples": asked.generated_samples, "max_new_tokens": asked.max_new_tokens}
    writing = {name: value for name, value in asks.items() if value is not None}
    if writing and not answers:
        raise ValueError(f"the model in {run!r} reads no images: leave out --answers and --max-new-tokens")
    check_choice(f"data.{BAD_ROW}", on_bad_row := asked.settings.get(BAD_ROW, "error"), ("error", "skip"))
    if on_bad_row == "skip" and (answers or task is None):
        raise ValueError(f"{asked.skipping} is for labelled texts: leave it out for the model in {run!r}")
    if answers:
        model = AnswersAsTested(run, changes)
        model.writer = model.writer._replace(**writing)
        return model
    if task is not None:
        return Labels(run, task, parts, changes)
    return LanguageModel(run, parts, changes, asked.objective)


def computation_of(computation: Computation, asked: Asked) -> Computation:
    """Returns the computation with the precision and micro-batches in `asked`; ValueError for an unknown precision."""
    fields = {name: asked.settings[name] for name in COMPUTED if asked.settings.get(name, "auto") != "auto"}
    if asked.precision is not None:
        check_choice("--precision", asked.precision, PRECISIONS)
        fields["precision"] = asked.precision
    result = computation._replace(**fields)
    if result.precision == "bf16-mixed" and device_here().type == "cpu" and not processor.has_bf16():
        log.warning(
            "this CPU has no bf16 units, so bf16-mixed is emulated and slow; --precision 32-true is faster"
        )
    return result


def entry_with_intervals(
    predictions: Predictions,
    figures: Mapping[str, float],
    sums: Mapping[str, Numbers],
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Entry:
    """Returns the entry of an evaluated set. Its metrics, and each row of its tables of classes, have `intervals`."""
    entry = entry_of(predictions, figures)
    ends = intervals(predictions, sums, resamples, seed) if resamples else {}
    entry["intervals"] = {name: ends[name] for name in entry["metrics"] if name in ends}
    for name, bounds in ends.items():
        table, _, figure = name.partition("/")
        for row, both in zip(entry[table], bounds, strict=True) if figure else ():
            row.setdefault("intervals", {})[figure] = both
    return entry


def _entry_of_text(
    measured_text: Measured[list[Entry]], sequences: DocumentSequences, resamples: int, seed: int
) -> Entry:
    """Returns the entry of a measured set of documents, with `intervals` of its metrics."""
    sizes, statistic = sequences.num_bytes, measured_text.statistic() if resamples else None
    ends = bootstrap(*statistic, resamples, seed) if statistic else {}
    counts = {"sequences": len(sequences), "tokens": sequences.num_tokens, "bytes": int(sizes.sum())}
    entry = {"examples": len(sizes), "over": "documents", **counts}
    return {**entry, "metrics": measured_text.figures, "intervals": ends}


def facts_of(run: str, kind: dict[str, str], computation: Computation, asked: Asked, over: str) -> Entry:
    """Returns the entries of `evaluation.json` on the model, its computation and the intervals."""
    interval = {"level": LEVEL, "resamples": asked.resamples, "seed": asked.seed, "over": over}
    return {"model": run, **kind, **computation._asdict(), "interval": interval}
