"""The plan of a run whose data is not there, such as a published recipe: sizes, tokens, FLOPs and hours per GPU."""

from typing import TYPE_CHECKING, Any

from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from tiryns.runner.cli.plan.content import Facts
from tiryns.runner.cli.plan.nominal_run import NominalPhase, NominalRun, nominal_objective
from tiryns.runner.config.search_path import file_on_search_path
from tiryns.runner.models.flops import peak_flops
from tiryns.runner.run.lazy import many_imports

if TYPE_CHECKING:
    from tiryns.runner.models.flops import FlopCounts

GPUS = ("A100", "H100", "H200", "RTX 4090")
"""The types that a plan counts hours for."""

UTILISATION = 0.4
"""Share of the peak at which a GPU is assumed to train; what a run reaches is `perf/mfu` in its log."""

POINTS = 20
"""Steps for which the plan shows what they train with."""

EARLY = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
"""Shares of the first phase at which some of them are, as warm-ups are short."""

WITHOUT_WEIGHTS = {"init": "default", "tiled_from": None, "text_from": None, "vision_from": None}
"""Settings of a model that only its weights depend on."""

HOURS = "# Hours: "
"""The line in the header of a recipe that tells how long the published run took."""


def nominal_plan(config: DictConfig) -> Facts:
    """Sizes, phases, operations and hours of a run, and what it trains with at `POINTS` steps.

    Raises ValueError where the length of the run or the size of the vocabulary follows from the data.
    """
    with many_imports():
        from tiryns.runner.models.flops import network_flops

        model = meta_model(config)
        counts = network_flops(model)
        run = NominalRun(config)
    phases = [_phase(phase, counts) for phase in run.phases]
    flops = sum(float(phase["flops"]) for phase in phases)
    text = model.config.get_text_config()
    # parameters in all, and without the tables of embeddings and an output layer of their size
    tables = [model.get_input_embeddings(), model.get_output_embeddings()]
    of_tables = {id(table.weight): table.weight.numel() for table in tables if table is not None}
    total = sum(parameter.numel() for parameter in model.parameters())
    return {
        "model": f"{model.config.model_type}, {text.num_hidden_layers} layers of {text.hidden_size}",
        "parameters": {"total": total, "without_embeddings": total - sum(of_tables.values())},
        "steps": run.steps,
        "tokens": run.tokens,
        "flops": flops,
        "phases": phases,
        "gpus": on_gpus(flops, run.tokens),
        "published_hours": published_hours(),
        "points": [run.at(step) for step in points_of(run)],
    }


def _phase(phase: NominalPhase, counts: "FlopCounts") -> Facts:
    targets = phase.tokens * (phase.objective.rate_at(0.5) or 1.0)
    flops = counts.step(phase.tokens, phase.tokens * phase.length, targets)
    sizes = {"steps": phase.steps, "tokens": phase.tokens, "length": phase.length}
    return {"name": phase.name, **sizes, "flops": flops}


def points_of(run: NominalRun) -> list[int]:
    """About `POINTS` steps: early ones, then the first and the last of each phase and some between them."""
    steps = {round(share * run.phases[0].steps) for share in EARLY}
    each = max(2, (POINTS - len(EARLY)) // len(run.phases))
    for start, phase in zip(run.timeline.starts, run.phases, strict=True):
        steps |= {start + round(place / (each - 1) * (phase.steps - 1)) for place in range(each)}
    return sorted(steps)


def published_hours() -> str | None:
    """The hours of the published run that the chosen recipe tells; None without one."""
    hydra = GlobalHydra.instance()
    if not (hydra.is_initialized() and HydraConfig.initialized()):
        return None
    recipe = HydraConfig.get().runtime.choices.get("experiment")
    file = file_on_search_path(hydra.config_loader(), f"experiment/{recipe}") if recipe else None
    lines = file.read_text().splitlines() if file else []
    return next((line.removeprefix(HOURS) for line in lines if line.startswith(HOURS)), None)


class _Tokens:
    """What a model is told of a tokenizer that is not there: how many tokens it has, and special ones among them."""

    pad_token_id = bos_token_id = eos_token_id = cls_token_id = sep_token_id = mask_token_id = 0

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def convert_tokens_to_ids(self, token: str) -> int:
        """The id of a special token."""
        return 0


def meta_model(config: DictConfig) -> Any:
    """The network of a config, a model of transformers without memory for its weights."""
    import torch

    from tiryns.runner.loop.plain import make_model_of

    node = config.model.copy()
    OmegaConf.set_struct(node, False)
    node.update({name: value for name, value in WITHOUT_WEIGHTS.items() if name in node})
    fields = node.get("config") or node.get("text_config") or {}
    size = fields.get("vocab_size") or (None if config.data.tokenizer else config.data.vocab_size)
    if size is None:
        raise ValueError(
            f"how many tokens data.tokenizer={config.data.tokenizer} has is not known without it: give "
            "model.config.vocab_size"
        )
    with torch.device("meta"):
        return make_model_of(node, _Tokens(size), **nominal_objective(config.objective).model_arguments())  # type: ignore[arg-type]


def on_gpus(flops: float, tokens: int) -> list[dict[str, str | float]]:
    """Returns the hours of one GPU of each type for a run of so many FLOPs.

    Example:
        >>> [(gpu["name"], round(gpu["hours"])) for gpu in on_gpus(flops=1e21, tokens=10**12)][:2]
        [('A100', 2226), ('H100', 702)]
    """
    found: list[dict[str, str | float]] = []
    for name in GPUS:
        peak = peak_flops(name, "bf16-mixed") or 0.0
        hours = flops / (UTILISATION * peak) / 3600
        found.append({"name": name, "peak_tflops": peak / 1e12, "hours": hours, "tokens": tokens})
    return found
