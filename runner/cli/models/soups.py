"""Averages of finetuned models, measured on the validation and test sets of their runs (arXiv 2203.05482).

The *uniform* soup is the mean of all models. The *greedy* soup begins with the best model by the metric that chooses
checkpoints. It tries the others, the best first, and adds each that does not make the metric worse on validation.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from tiryns.conf.objective.labelled import THRESHOLDS
from tiryns.conf.registry import better_when, execution_names
from tiryns.runner.checkpoints.averages import Source, combinations, mean
from tiryns.runner.config.run_config import recorded_config
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.evaluation.kinds.labels import Thresholds
from tiryns.runner.inference.evaluated import model_to_measure
from tiryns.runner.inference.labelled import Labels
from tiryns.runner.inference.passes import device_here
from tiryns.runner.loop.assembly import make_data
from tiryns.runner.run.folder import Run
from tiryns.runner.run.yaml_files import settings_in

Figures = dict[str, float]


def measure_soups(
    sources: Sequence[Source], soup: str, others: Sequence[object], allow: Sequence[str]
) -> dict[str, object]:
    """Returns the metrics of models and their soups, and the indices of the `members` of the soup to write.

    `figures` has metrics by name: each run's folder, `uniform`, `greedy` and `ensemble` (the mean of all models' logits).
    Raises ValueError for runs that were not trained and validated on the same labelled data, as one run may have trained
    on examples that another held out.
    """
    if any(other is not None for other in others):
        raise ValueError("--soup chooses models and weighs them the same: leave out --weights and --ties")
    for source in sources:
        if source.path.suffix == ".ckpt" or not (source.path.parent / "config.yaml").is_file():
            raise ValueError(f"--soup measures the models of finished runs; {str(source.path)!r} is not one")
    runs = [source.path.parent for source in sources]
    configs = [recorded_config(run, allow) for run in runs]
    first = settings_in(configs[0].data, resolve=True)
    exceptions = execution_names("data", first)
    for run, config in zip(runs, configs, strict=True):
        settings = settings_in(config.data, resolve=True)
        for name in {**first, **settings}:
            if name not in exceptions and first.get(name) != settings.get(name):
                both = f"{first.get(name)!r} in {str(runs[0])!r} and {settings.get(name)!r} in {str(run)!r}"
                raise ValueError(f"soups are measured on one validation set, but data.{name} is {both}")
    data = make_data(configs[0], Run(runs[0]).status.get("resolved"))
    if data.task_name is None:
        raise ValueError(f"{str(runs[0])!r} was not trained on labelled data, so there is nothing to measure")
    data.prepare_data()
    if not data.validation:
        raise ValueError(f"{str(runs[0])!r} has no validation set to measure soups on")
    sets = {f"val/{name}": s for name, s in data.validation.items()}
    sets |= {f"test/{name}": s for name, s in data.test.items()}
    soups = _Measuring([config.objective.get("thresholds") for config in configs], sources, sets)
    figures, greedy = soups.measure()
    members = greedy if soup == "greedy" else list(range(len(sources)))
    facts = {"kind": soup, "monitor": soups.monitor, "figures": figures, "members": members}
    return {"soup": {**facts, "greedy": [str(runs[i]) for i in greedy]}, "task": soups.settings[*members]}


class _Measuring:
    """Measures members and soups as the run of their first member; `thresholds` are the settings of the runs."""

    def __init__(
        self, thresholds: Sequence[object], members: Sequence[Source], sets: Mapping[str, Any]
    ) -> None:
        self.members, self.sets, self.runs = members, sets, [str(one.path.parent) for one in members]
        self.thresholds, self.model_of = thresholds, lru_cache(maxsize=1)(model_to_measure)
        status = Run(Path(self.runs[0])).status
        self.monitor = str(status.get("monitor") or f"{next(iter(sets))}/loss")
        self.sign = 1 if (status.get("mode") or better_when(self.monitor)) == "max" else -1
        self.settings: dict[tuple[int, ...], dict[str, Any]] = {}
        """Settings of the task, such as thresholds, by the members of the soup."""

    def measure(self) -> tuple[dict[str, Figures], list[int]]:
        """Returns the metrics of members and soups, and the indices of the greedy soup's members."""
        every = list(range(len(self.members)))
        alone = {run: self.figures([[i]]) for i, run in enumerate(self.runs)}
        scores = [self.score(figures) for figures in alone.values()]
        first, *others = sorted(every, key=lambda i: -scores[i])
        soup, best, figures = [first], scores[first], alone[self.runs[first]]
        for i in others:
            new_figures = self.figures([sorted([*soup, i])])
            if self.score(new_figures) >= best:
                soup, best, figures = [*soup, i], self.score(new_figures), new_figures
        results = {**alone, "uniform": self.figures([every]), "greedy": figures}
        if "logits" in self.outputs:
            results["ensemble"] = self.figures([[i] for i in every])
        return results, sorted(soup)

    def score(self, figures: Figures) -> float:
        """Returns the metric that chooses checkpoints, negated if smaller is better."""
        if self.monitor not in figures:
            available = ", ".join(figures)
            raise ValueError(
                f"the runs chose checkpoints by {self.monitor!r}, which is not measured here; there are: {available}"
            )
        return self.sign * figures[self.monitor]

    def figures(self, soups: Sequence[Sequence[int]]) -> Figures:
        """Returns metrics of the mean of the soups' logits, losses only of one soup; a soup is its members' indices."""
        run, thresholds = self.runs[soups[0][0]], self.thresholds[soups[0][0]]
        model, states = self.model_of(run), [self.state(numbers) for numbers in soups]
        assert isinstance(model, Labels)
        if thresholds in THRESHOLDS:
            model.collator.thresholds = Thresholds(thresholds, model.collator.labels)

        def output(batch: MicroBatch) -> Mapping[str, Tensor]:
            outputs: list[dict[str, Tensor]] = [functional_call(model.model, s, (batch,)) for s in states]
            self.outputs = set(outputs[0])
            if len(outputs) == 1:
                return outputs[0]
            return {**outputs[0], "logits": torch.stack([one["logits"] for one in outputs]).mean(0)}

        all_figures: Figures = {}
        for number, (place, sequences) in enumerate(self.sets.items()):
            result = model.measure(sequences, output=output, calibrating=number == 0)
            figures = result.figures if len(states) == 1 else result.predictions.metrics()
            all_figures |= {f"{place}/{figure}": value for figure, value in figures.items()}
        if len(states) == 1:
            self.settings[*soups[0]] = model.collator.settings()
        return all_figures

    def state(self, numbers: Sequence[int]) -> dict[str, Tensor]:
        """Returns the parameters of a soup by their names in the task's model."""
        sources = [self.members[i] for i in numbers]
        weights = combinations(sources[0], sources, lambda name, tensors: mean(tensors, [1.0] * len(tensors)))
        return {f"pretrained.{name}": tensor.to(device_here()) for name, tensor in weights}
