"""The plan of a run without its data, such as a published recipe: sizes, tokens, FLOPs and hours per GPU.

Samplers, schedules and objectives are those of the run; every sequence is assumed to have `data.max_length` tokens.
"""

import inspect
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import numpy as np
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf

from tiryns.conf.phases import CHANGED, Phase, lengths_of
from tiryns.conf.values import Settings
from tiryns.runner.build import bind, build
from tiryns.runner.cli.plan.content import Facts
from tiryns.runner.config.targets import locate
from tiryns.runner.data.batches import PhaseCollators, PhaseParts
from tiryns.runner.loop.lengths import run_lengths
from tiryns.runner.loop.phases import phases_in, sampler_of
from tiryns.runner.models.flops import outermost, peak_flops
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.objectives import Collator
from tiryns.runner.optim.schedule.phases import TOKENS
from tiryns.runner.optim.schedule.schedulers import ClosedFormScheduler
from tiryns.runner.run.lazy import many_imports
from tiryns.runner.run.yaml_files import file_on_search_path, settings_in
from tiryns.runner.samplers.base import PROVISIONAL, SeamlessSampler

GPUS = ("A100", "H100", "H200", "RTX 4090")

UTILISATION = 0.4
"""Share of the peak at which a GPU is assumed to train; a run logs its own share as `perf/mfu`."""

POINTS = 20
"""Number of steps for which the plan shows learning rate, batch size and so on."""

EARLY = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
"""Early steps that are shown, as shares of the first phase, because warm-ups are short."""

WITHOUT_WEIGHTS = {"init": "default", "tiled_from": None, "text_from": None, "vision_from": None}
"""Settings that affect only the weights of a model, with values that load no weights."""

TOKENIZER = {"pad_token_id": 0, "mask_token_id": 1, "vocab_size": 2}
"""Placeholders for the arguments that an objective takes from its tokenizer."""

HOURS = "# Hours: "
"""Prefix of the line in a recipe's header that states the hours of the published run."""


class NominalSequences:
    """A data set of `PROVISIONAL` sequences, which all have one length and no tokens.

    Example:
        >>> sequences = NominalSequences(1024)
        >>> sequences.lengths(np.array([0, 7])).tolist(), sequences.num_tokens // len(sequences)
        ([1024, 1024], 1024)
    """

    def __init__(self, length: int) -> None:
        self.length, self.num_tokens = length, length * PROVISIONAL

    def __len__(self) -> int:
        return PROVISIONAL

    def lengths(self, indices: NDArray[np.int64]) -> NDArray[np.int32]:
        """Returns the tokens of each sequence [D]."""
        return np.full(len(indices), self.length, np.int32)


class NominalPhase:
    """A phase of a run, or a whole run without phases: its settings by group, and its numbers of steps and tokens."""

    def __init__(self, config: DictConfig, phase: Phase) -> None:
        self.name, self.changes = phase.name, phase.settings
        self.settings = {g: settings_in(config[g], resolve=True) | self.changes.get(g, {}) for g in CHANGED}
        self.length = int(self.settings["data"]["max_length"])
        self.make_sampler = sampler_of(config, phase) or bind(config.sampler)
        # the most steps that have no more tokens; a warm-up may be a share of them
        sequences = int((phase.tokens or 0) / self.length + 1e-9)
        self.steps = phase.steps or bisect_right(
            range(1, sequences + 1), sequences, key=lambda steps: self._sampler(steps).num_samples()
        )
        self.sampler = self._sampler(self.steps)
        self.tokens = self.tokens_before(self.steps)
        self.objective = nominal_objective(self.settings["objective"])

    def _sampler(self, steps: int) -> SeamlessSampler:
        order = self.make_sampler(dataset=NominalSequences(self.length), num_epochs=None, num_batches=steps)
        if not isinstance(order, SeamlessSampler):
            raise ValueError(f"sampler: the data decides how large the batches of {type(order).__name__} are")
        return order

    def steps_within(self, tokens: float) -> int:
        """Returns the most steps, from the first of the phase, that train on no more than `tokens`."""
        return self.sampler.steps_within(int(tokens / self.length + 1e-9))

    def tokens_before(self, step: int) -> int:
        """Returns the number of tokens in the phase's steps before `step`, counted from 0."""
        return self.sampler.samples_before(step) * self.length


class NominalRun:
    """The phases of a run without its data, and its values at any step."""

    def __init__(self, config: DictConfig) -> None:
        self.lr = float(config.optimizer.get("lr") or 0.0)
        self.phases = [NominalPhase(config, phase) for phase in _phases(config)]
        plan = [
            PhaseParts(p.name, p.steps, collator=p.objective if "objective" in p.changes else None)
            for p in self.phases
        ]
        self.objectives = PhaseCollators(plan, nominal_objective(settings_in(config.objective, resolve=True)))
        self.timeline = self.objectives.timeline
        self._tokens = [0, *accumulate(phase.tokens for phase in self.phases)]
        self.steps, self.tokens = self.timeline.ends[-1], self._tokens[-1]
        self.factor = self._schedule(config)
        """A function from a step to its factor on the learning rate of the run."""

    def _schedule(self, config: DictConfig) -> Callable[[int], float]:
        import torch

        steps_config = config.copy()
        OmegaConf.set_struct(steps_config, False)
        steps_config.scheduler.update(self._in_steps(settings_in(config.scheduler, resolve=True), self))
        for node, phase in zip(steps_config.phases, self.phases, strict=False):
            settings = settings_in(node.get("scheduler") or OmegaConf.create(), resolve=True)
            node.update({"steps": phase.steps, "tokens": None, "share": None})
            node.scheduler = self._in_steps(settings, phase)
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=self.lr or 1.0)
        scheduler = run_lengths(steps_config).make_scheduler()(optimizer=optimizer, max_steps=self.steps)
        if not isinstance(scheduler, ClosedFormScheduler):
            raise ValueError(f"scheduler: {type(scheduler).__name__} computes a rate only step by step")
        return scheduler.factor

    @staticmethod
    def _in_steps(settings: Settings, part: "NominalRun | NominalPhase") -> Settings:
        """Returns the settings of a schedule with lengths in steps instead of tokens."""
        schedule = dict(settings)
        for tokens, steps in TOKENS.items():
            if (amount := schedule.pop(tokens, None)) is not None:
                schedule |= {steps: part.steps_within(amount), tokens: None}
        return schedule

    def steps_within(self, tokens: float) -> int:
        """Returns the most steps that train on no more than `tokens`; at most the run's number of steps minus 1."""
        place = min(bisect_right(self._tokens, tokens), len(self.phases)) - 1
        inside = self.phases[place].steps_within(tokens - self._tokens[place])
        return min(self.timeline.starts[place] + inside, self.steps - 1)

    def at(self, step: int) -> dict[str, Any]:
        """Returns the values of a step, counted from 0: learning rate, batch size, length, masking rate and so on."""
        place, inside = self.timeline.at(step), self.timeline.inside(step)
        phase, optimizer = self.phases[place], self.phases[place].settings["optimizer"]
        objective: Any
        objective, progress = self.objectives.at(step, step / self.steps)
        return {
            "step": step,
            "tokens": self._tokens[place] + phase.tokens_before(inside),
            "phase": phase.name,
            "lr": self.lr * self.factor(step),
            "weight_decay": optimizer.get("weight_decay"),
            "batch": phase.sampler.size_at(inside),
            "length": phase.length,
            "masking_rate": objective.rate_at(progress),
            "theta": phase.settings["model"].get("rope_theta"),
            "local_theta": phase.settings["model"].get("local_rope_theta"),
        }  # fmt: skip


def nominal_objective(settings: Settings, **more: int) -> Collator:
    """Returns the objective of a run, made without its tokenizer, with `more` arguments."""
    node = OmegaConf.create({"objective": settings}).objective
    target = locate(node._target_, "objective")
    of_images = {"image_token_id": 2} if "image_token_id" in inspect.signature(target).parameters else {}
    collator: Collator = build(node, **TOKENIZER, **of_images, **more)
    return collator


def _phases(config: DictConfig) -> list[Phase]:
    """Returns the phases of a config, each with steps or tokens; without phases, one named `training`."""
    trainer = config.trainer
    if phases := phases_in(config):
        lengths = lengths_of(phases, trainer)
        parts = [phase.tokens or (phase.share or 0) * (trainer.get("max_tokens") or 0) for phase in phases]
        rows = zip(phases, lengths, parts, strict=True)
        return [replace(phase, steps=steps, tokens=tokens) for phase, steps, tokens in rows]
    if trainer.max_steps > 0:
        return [Phase("training", steps=trainer.max_steps)]
    if amount := trainer.get("max_tokens"):
        return [Phase("training", tokens=amount)]
    raise ValueError("the run's number of steps follows from its data: set data.source or trainer.max_steps")


def nominal_plan(config: DictConfig) -> Facts:
    """Returns sizes, phases, FLOPs, hours and values at `POINTS` steps; raises ValueError if these depend on the data."""
    with many_imports():
        import torch

        model = meta_model(config)
        run = NominalRun(config)
    objective = nominal_objective(config.objective, max_sequence_length=max(p.length for p in run.phases))
    with torch.device("meta"):
        network = objective.task_model(model) if objective.adds_networks else TaskModel(model)
    counts, phases = network.flop_counts(), list[Facts]()
    for phase in run.phases:
        targets = phase.tokens * phase.objective.targets_per_token(0.5)
        phase_flops = counts.step(phase.tokens, phase.tokens * phase.length, targets)
        sizes = {"steps": phase.steps, "tokens": phase.tokens, "length": phase.length}
        phases.append({"name": phase.name, **sizes, "flops": phase_flops})
    flops = sum(float(phase["flops"]) for phase in phases)
    text = model.config.get_text_config()
    # parameters in all, and without the tables of embeddings and an output layer of their size
    tables = [t for m in outermost(network) for t in (m.get_input_embeddings(), m.get_output_embeddings())]
    of_tables = {id(table.weight): table.weight.numel() for table in tables if table is not None}  # type: ignore[operator]
    total = sum(parameter.numel() for parameter in network.parameters())
    # early steps, then the first and the last of each phase and some between them
    points = {round(share * run.phases[0].steps) for share in EARLY}
    each = max(2, (POINTS - len(EARLY)) // len(run.phases))
    for start, part in zip(run.timeline.starts, run.phases, strict=True):
        points |= {start + round(place / (each - 1) * (part.steps - 1)) for place in range(each)}
    return {
        "model": f"{model.config.model_type}, {text.num_hidden_layers} layers of {text.hidden_size}",
        "parameters": {"total": total, "without_embeddings": total - sum(of_tables.values())},
        "steps": run.steps, "tokens": run.tokens, "flops": flops, "phases": phases,
        "gpus": on_gpus(flops, run.tokens), "published_hours": published_hours(),
        "points": [run.at(step) for step in sorted(points)],
    }  # fmt: skip


def published_hours() -> str | None:
    """Returns the hours of the published run, as the chosen recipe's header states them; None if it states none."""
    hydra = GlobalHydra.instance()
    if not (hydra.is_initialized() and HydraConfig.initialized()):
        return None
    recipe = HydraConfig.get().runtime.choices.get("experiment")
    file = file_on_search_path(hydra.config_loader(), f"experiment/{recipe}") if recipe else None
    lines = file.read_text().splitlines() if file else []
    return next((line.removeprefix(HOURS) for line in lines if line.startswith(HOURS)), None)


class _Tokens(SimpleNamespace):
    """A stand-in for a missing tokenizer: its number of tokens, and the special tokens."""

    pad_token_id = bos_token_id = eos_token_id = cls_token_id = sep_token_id = mask_token_id = 0

    def __len__(self) -> int:
        return int(self.size)

    def convert_tokens_to_ids(self, token: str) -> int:
        """Returns the id of a special token."""
        return 0


def meta_model(config: DictConfig) -> Any:
    """Returns the transformers model of a config on the meta device, without memory for its weights."""
    import torch

    from tiryns.runner.loop.plain import make_model_of

    node = config.model.copy()
    OmegaConf.set_struct(node, False)
    node.update({name: value for name, value in WITHOUT_WEIGHTS.items() if name in node})
    fields = node.get("config") or node.get("text_config") or {}
    size = fields.get("vocab_size") or (None if config.data.tokenizer else config.data.vocab_size)
    if size is None:
        tokenizer = f"data.tokenizer={config.data.tokenizer}"
        raise ValueError(f"the vocabulary size of {tokenizer} is unknown: give model.config.vocab_size")
    tokens: Any = _Tokens(size=size)
    with torch.device("meta"):
        return make_model_of(node, tokens, **nominal_objective(config.objective).model_arguments())


def on_gpus(flops: float, tokens: int) -> list[Facts]:
    """Returns the hours of one GPU of each type for a run of `flops`.

    Example:
        >>> [(gpu["name"], round(gpu["hours"])) for gpu in on_gpus(flops=1e21, tokens=10**12)][:2]
        [('A100', 2226), ('H100', 702)]
    """
    peaks = {name: peak_flops(name, "bf16-mixed") or 0.0 for name in GPUS}
    return [
        {"name": n, "peak_tflops": p / 1e12, "hours": flops / (UTILISATION * p) / 3600, "tokens": tokens}
        for n, p in peaks.items()
    ]
