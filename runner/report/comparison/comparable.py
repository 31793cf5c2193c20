"""Finds the metric that runs are ranked by, the data it is measured on, and the runs that can be ranked together."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from typing import NamedTuple

from tiryns.conf.data.common import LeavingOut, Tokenizing
from tiryns.conf.data.labelled import FOLD_SET
from tiryns.runner.manifest.inputs import Manifest, read_manifest
from tiryns.runner.report.comparison.differences import FOLD, fold_of, is_execution
from tiryns.runner.report.curves import in_words, of_set
from tiryns.runner.report.summary import validation_set
from tiryns.runner.run.folder import Run, Settings

HELD_OUT = f"test/{FOLD_SET}/"

SHARES = ("accuracy", "f1", "precision", "recall", "exact match")
"""A metric whose title ends in one of these words is a share, from 0 to 1."""

PER_BYTE = "bits_per_byte"
"""The metric that does not depend on the vocabulary."""

PER_TOKEN = ("loss", "perplexity", "bits_per_token")
"""Metrics per token, which can only be compared within one vocabulary."""

WEIGHTS = ("objective.causal_share", "objective.discriminator_weight", "objective.encoder_loss_weight")
"""Weights of the parts of a `loss`, also in validation."""

OF_SUITES = "suite/"
"""Prefix of the metrics of suites, which measure all weights alike, whatever their training objective."""

TOKENISING = frozenset(
    f"data.{name}"
    for name in ("tokenizer", "max_length", "doc_stride", *(field.name for field in fields(Tokenizing)))
)
"""Settings of labelled data that change how examples are tokenised, not which examples exist."""

NOT_MEASURED = frozenset(f"data.{field.name}" for field in fields(LeavingOut))
"""Settings of the data that do not change the data that a run is measured on."""


class Goal(NamedTuple):
    """A metric that runs are compared by: its key, its title in words, and a note on how it was chosen."""

    key: str
    larger_is_better: bool
    title: str = ""
    note: str = ""

    @property
    def direction(self) -> str:
        """`max` if large values are better, else `min`."""
        return "max" if self.larger_is_better else "min"

    @property
    def limits(self) -> tuple[float, float]:
        """The range of the metric: from 0 to 1 for a share, else unbounded."""
        return (0.0, 1.0) if self.title.endswith(SHARES) else (-math.inf, math.inf)


def goal_of(runs: Sequence[Run]) -> Goal:
    """Returns the ranking metric: one of held-out folds, else `objective`, else the first validation or training loss."""
    keys = keys_of(runs)
    fold_keys = (f"{HELD_OUT}{run.monitor.rpartition('/')[2]}" for run in runs if run.monitor)
    fold_key = next((key for key in (*fold_keys, f"{HELD_OUT}loss") if key in keys), None)
    if fold_key and all(fold_of(run) is not None for run in runs):
        larger = any(run.larger_is_better for run in runs) and not fold_key.endswith("/loss")
        return Goal(fold_key, larger, in_words(titles_of([fold_key])[fold_key].lower()))
    key = next(losses_of(runs), "train/loss")
    if "objective" not in keys:
        return Goal(key, False, in_words(titles_of(keys).get(key, "Training loss").lower()))
    larger = any(run.larger_is_better for run in runs)
    monitors = {run.monitor or key for run in runs if run.final("objective") is not None}
    monitor = monitors.pop() if len(monitors) == 1 else "figure"
    return Goal("objective", larger, in_words(f"best {titles_of([*keys, monitor])[monitor]}".lower()))


def is_test(key: str) -> bool:
    """Returns whether a metric was measured on a test set; a held-out fold is no test set."""
    return key.startswith("test/") and key.count("/") == 2 and not key.startswith(HELD_OUT)


def titles_of(keys: Iterable[str]) -> dict[str, str]:
    """Returns metrics' names in words, such as `Validation loss`; if there are several sets, a name contains its set."""
    parts = {key: key.replace("_", " ").split("/") for key in keys}
    stages = {"val": "Validation", "test": "Test"}
    of_sets = [words for words in parts.values() if len(words) == 3 and words[:2] != ["test", FOLD_SET]]
    sets = {part: {words[1] for words in of_sets if words[0] == part} for part in stages}

    def title(words: list[str]) -> str:
        if " ".join(words).startswith("test fold "):
            return f"Held-out {words[2]}"
        if words[0] in stages and len(words) == 3:
            return of_set(f"{stages[words[0]]} {words[2]}", words[1], sets[words[0]])
        if words[0] == "train":
            return f"Training {words[-1]}"
        return words[-1].replace("grad norm", "gradient norm").capitalize()

    return {key: in_words(title(words)) for key, words in parts.items()}


def keys_of(runs: Sequence[Run]) -> list[str]:
    """Returns the names of all logged metrics."""
    return list(dict.fromkeys(key for run in runs for key in [*run.series, *run.results]))


def losses_of(runs: Sequence[Run]) -> Iterator[str]:
    """Returns the names of the validation losses."""
    return (key for key in keys_of(runs) if validation_set(key) is not None)


def inputs_of(run: Run) -> Manifest:
    """Returns the fingerprints of a run's inputs; empty if its manifest has none."""
    inputs: Manifest = read_manifest(run.path).get("inputs") or {}
    return inputs


def objective_of(run: Run) -> str:
    """Returns the name of the objective's class."""
    return str(run.settings.get("objective._target_")).rpartition(".")[2]


def training_of(run: Run) -> tuple[object, ...]:
    """Returns what training losses are measured on: the data, the shares of a mixture, and the objective."""
    inputs, objective = inputs_of(run), {n: v for n, v in run.settings.items() if n.startswith("objective.")}
    return inputs.get("data"), (inputs.get("order") or {}).get("mixture"), objective


def suite_of(run: Run) -> Settings:
    """Returns the suite that measures a run's weights, and the suite's overrides."""
    return {name: run.settings.get(f"callback.suite.{name}") for name in ("suite", "overrides")}


def validation_of(run: Run, key: str) -> Settings:
    """Returns the settings that change how a metric is measured in validation, not its data."""
    names = [name for name in run.settings if name.startswith("objective.validation_")]
    names += ["trainer.validation_batches", "objective.kept_share", "objective.decoder_masking"]
    names += WEIGHTS if ((run.monitor or "") if key == "objective" else key).endswith("/loss") else ()
    return {name: run.settings.get(name) for name in names}


def sets_of(run: Run) -> Manifest:
    """Returns the fingerprints of a run's validation sets by name; that of a `mixture`, their mean, has its shares."""
    inputs = inputs_of(run)
    sets, shares = inputs.get("evaluation") or {}, (inputs.get("order") or {}).get("mixture")
    return {**sets, "mixture": {**sets, "shares": shares}} if sets and shares else sets


def texts_of(run: Run) -> Settings:
    """Returns what determines the validation texts of a run, independent of their tokenisation."""
    inputs = inputs_of(run)
    names = ("data.validation_documents", "data.seed", "data.text_unit")
    texts = inputs.get("sources") or {"files": inputs.get("files"), **data_of(run)}
    return {"sources": texts, **{name: run.settings.get(name) for name in names}}


def data_of(run: Run) -> Settings:
    """Returns the `data` settings that decide what is measured: all except execution, the fold and `NOT_MEASURED`."""
    names = (n for n in run.settings if n.startswith("data.") and n not in (FOLD, *NOT_MEASURED))
    return {name: run.settings[name] for name in names if not is_execution(run, name)}


def examples_of(run: Run) -> Settings:
    """Returns what determines the labelled examples and their folds, independent of their tokenisation."""
    settings = {name: value for name, value in data_of(run).items() if name not in TOKENISING}
    return {**settings, "files": inputs_of(run).get("files")}


class Kinds(NamedTuple):
    """The number of each run's kind, and in words what kinds differ in. Only runs of one kind can be ranked together."""

    numbers: list[int]
    differ_in: list[str]


def kinds_of(runs: Sequence[Run], key: str) -> Kinds:
    """Groups runs so that the metric `key` is comparable within a kind: by objective, data and tokenizer, or by suite."""
    if key.startswith(OF_SUITES):
        suites = [suite_of(run) for run in runs]
        return Kinds([*map(suites.index, suites)], ["suite"] if any(s != suites[0] for s in suites) else [])
    facts: dict[str, Callable[[Run], object]] = {
        "objective": training_of if key.startswith("train/") else objective_of,
        "settings of the validation": lambda run: validation_of(run, key),
        "monitored metric": lambda run: run.monitor if key == "objective" else None,
    }
    run_facts = [{name: fact(run) for name, fact in facts.items()} for run in runs]
    data = [_Data(run, key) for run in runs]
    first: list[int] = []  # of each kind
    numbers: list[int] = []
    for i, mine in enumerate(data):
        match = next((j for j in first if run_facts[j] == run_facts[i] and not mine.differ_in(data[j])), i)
        if match == i:
            first.append(i)
        numbers.append(first.index(match))
    apart = [name for name in facts if any(run_facts[i][name] != run_facts[0][name] for i in first)]
    apart += dict.fromkeys(name for i in first for name in data[i].differ_in(data[0]))
    return Kinds(numbers, apart)


class _Data:
    """The data that a run's metric was measured on."""

    def __init__(self, run: Run, key: str) -> None:
        figure = (run.monitor or "") if key == "objective" else key
        inputs = inputs_of(run)
        name = figure.split("/")[1] if figure.count("/") > 1 else ""
        validation = sets_of(run).get(name, inputs.get("evaluation"))
        # Training losses are measured on the training data
        self.fingerprint = (inputs.get("data") if figure.startswith("train/") else validation) or None
        self.texts, self.settings = texts_of(run), data_of(run)
        self.vocabulary = (inputs.get("tokenizer"), run.results.get("uniform_entropy"))
        last, of_text = figure.rpartition("/")[2], "uniform_entropy" in run.results
        self.is_per_token = last in ("", *PER_TOKEN) or (of_text and last != PER_BYTE)
        if fold_of(run) is not None:  # each has its own part of the same examples, and no figure per token
            self.fingerprint, self.is_per_token = None, False
            self.settings = examples_of(run)

    def differ_in(self, other: "_Data") -> list[str]:
        """Returns in words how this data differs from `other`; empty if metrics on both can be compared."""
        pairs = zip(self.vocabulary, other.vocabulary, strict=True)
        other_tokens = self.is_per_token and any(None not in pair and pair[0] != pair[1] for pair in pairs)
        if not (self.fingerprint and other.fingerprint):
            others = [] if self.settings == other.settings else ["settings of the data"]
        elif self.fingerprint == other.fingerprint:
            others = []
        else:  # fingerprints are those of tokens, so other tokenizers give others of the same texts
            same_texts = self.texts == other.texts and (other_tokens or not self.is_per_token)
            others = [] if same_texts else ["validation data"]
        return [*["tokenizer"] * other_tokens, *others]
