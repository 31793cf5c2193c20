"""Group `data`, measured alone: tasks of mteb, which `mode=probe` runs where mteb is installed."""

from dataclasses import dataclass
from typing import Any

from omegaconf import MISSING

from tiryns.conf.data.common import Batching
from tiryns.conf.data.retrieval import Retrieval
from tiryns.conf.registry import option_of, register
from tiryns.conf.values import NAMED, Bounds, Settings, check_of, setting


@dataclass
class Mteb(Batching):
    """Tasks of mteb by name (needs `tiryns[mteb]`): `mode=probe data=mteb data.tasks=[STSBenchmark]`."""

    _target_: str = "runner.data.MtebTasks"
    tasks: list[str] = MISSING
    """Names of tasks as mteb has them, or those of a module of yours that `imports` names. mteb fetches their data."""
    tokenizer: Any = setting("${oc.select:model.name_or_path,null}", allowed=NAMED)
    """Name or folder of a tokenizer; a model with random weights needs one."""
    max_length: int = setting(128, allowed=Bounds(8, whole=True))
    """Longest text in tokens; longer ones are cut off."""
    micro_batch_tokens: Any = 8192
    num_workers: int = 0


@check_of(Mteb)
@check_of(Retrieval)
def check_measured(data: Settings, config: Settings) -> None:
    """Raises ValueError where data for `mode=probe` alone is trained on."""
    if config["mode"] != "probe":
        raise ValueError(
            f"data={option_of('data', data)} is measured by mode=probe, and nothing trains on it"
        )


register("data", mteb=Mteb)
