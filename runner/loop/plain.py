"""Adapts optimizers, schedulers and models of torch and transformers, which do not know this project's arguments."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from omegaconf import DictConfig
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from tiryns.conf.values import Settings
from tiryns.runner.build import bind
from tiryns.runner.config.calling import Call, parameters
from tiryns.runner.models.encoder import checked_fields, special_tokens
from tiryns.runner.optim.groups import Groups, parameter_groups
from tiryns.runner.optim.schedule.schedulers import ClosedFormScheduler
from tiryns.runner.optim.shared_settings import check_same

Parameters = Mapping[str, inspect.Parameter]

GROUPING: Settings = {
    "decay_embeddings": False, "decay_vectors": False, "layer_decay": 1.0, "overrides": ()
}  # fmt: skip
"""Settings of this project's parameter groups, with defaults if a plain optimizer's node does not set them."""

CYCLED = ("lr", "initial_lr", "max_lr", "min_lr", "momentum", "betas", "base_momentum", "max_momentum")
"""Settings of parameter groups that torch's schedulers change, and later read from the groups."""


def make_optimizer_of(node: DictConfig) -> Callable[..., Optimizer]:
    """Returns a function from a `model` to a node's optimizer; a class with `params`, as in torch, gets parameter groups.

    Example:
        >>> from omegaconf import OmegaConf
        >>> from torch import nn
        >>> config = OmegaConf.create({"optimizer": {"_target_": "torch.optim.AdamW", "lr": 0.1, "weight_decay": 0.01}})
        >>> optimizer = make_optimizer_of(config.optimizer)(model=nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3)))
        >>> [(group["name"], group["weight_decay"]) for group in optimizer.param_groups]
        [('decay', 0.01), ('no_decay', 0.0)]
    """
    call = bind(node)
    names, _ = parameters(call.func)
    return call if "model" in names or "params" not in names else partial(_plain_optimizer, call, names)


def _plain_optimizer(call: Call, names: Parameters, model: nn.Module) -> Optimizer:
    settings = dict(call.keywords)
    rules = {name: settings.pop(name) for name in GROUPING if name in settings and name not in names}
    optimizer: Optimizer = call.with_keywords(settings).build(params=_groups(settings, rules, names, model))
    step = inspect.signature(optimizer.step).parameters
    if "closure" in step and step["closure"].default is inspect.Parameter.empty:
        raise ValueError(
            f"{call.path}: {call.name} computes the loss several times a step, which a run does not do; choose another"
        )
    for group in optimizer.param_groups:
        group["optimizer"] = call.func.__name__.lower()
    optimizer.register_load_state_dict_pre_hook(lambda one, state: check_same(one, state["param_groups"]))
    return optimizer


def _groups(settings: Settings, rules: Settings, names: Parameters, model: nn.Module) -> Groups:
    """Returns groups with and without decay if the config sets decay or groups, else all parameters as one group."""
    if not rules and "weight_decay" not in settings:
        by_name = {n.replace("_orig_mod.", ""): p for n, p in model.named_parameters() if p.requires_grad}
        return [{"name": "all", "params": list(by_name.values()), "param_names": list(by_name)}]
    rates = {n: settings.get(n, getattr(names.get(n), "default", None)) for n in ("lr", "weight_decay")}
    unknown = [name for name, value in rates.items() if not isinstance(value, int | float)]
    groups = parameter_groups(model, **{**rates, **dict.fromkeys(unknown, 0.0), **GROUPING, **rules})
    return [{name: value for name, value in group.items() if name not in unknown} for group in groups]


def make_scheduler_of(node: DictConfig) -> Callable[..., LRScheduler]:
    """Returns a function from an `optimizer` and `max_steps` to its scheduler, which steps once per optimizer step.

    Example:
        >>> import torch
        >>> from omegaconf import OmegaConf
        >>> target = "torch.optim.lr_scheduler.OneCycleLR"
        >>> config = OmegaConf.create({"scheduler": {"_target_": target, "max_lr": 0.1}})
        >>> optimizer = torch.optim.SGD([torch.zeros(1)], momentum=0.9)
        >>> make_scheduler_of(config.scheduler)(optimizer=optimizer, max_steps=50).total_steps
        50
    """
    call = bind(node)

    def make(optimizer: Optimizer, max_steps: int) -> LRScheduler:
        scheduler: LRScheduler = call(optimizer=optimizer, max_steps=max_steps)
        if "metrics" in inspect.signature(scheduler.step).parameters:
            raise ValueError(
                f"{call.path}: {call.name} needs a validation metric at each step, but a schedule is stepped "
                "once per optimizer step; choose one that counts steps"
            )
        return scheduler

    return make


def put_back_cycled(scheduler: Any, optimizer: Optimizer, saved: Groups, max_steps: int) -> None:
    """Restores rates and momenta that a plain scheduler had set; ValueError if the scheduler ends before this run."""
    if isinstance(scheduler, ClosedFormScheduler):
        return
    if (getattr(scheduler, "total_steps", None) or max_steps) < max_steps:
        raise ValueError(
            f"the checkpoint's {type(scheduler).__name__} ends at step {scheduler.total_steps}, and this run at step "
            f"{max_steps}: a scheduler of torch keeps its length. Keep trainer.max_steps, or branch with a "
            "scheduler such as scheduler=wsd"
        )
    for group, saved_group in zip(optimizer.param_groups, saved, strict=True):
        group.update({name: saved_group[name] for name in CYCLED if name in saved_group})


def make_model_of(node: DictConfig, tokenizer: PreTrainedTokenizerBase | None, **arguments: object) -> Any:
    """Returns the model of a node; raises ValueError for a setting in its `config` unknown to the model's class."""
    call = bind(node)
    taken = parameters(call.func)[0].get("tokenizer")
    if not (isinstance(call.func, type) and issubclass(call.func, PreTrainedModel)):
        if tokenizer is None and taken is not None and taken.default is inspect.Parameter.empty:
            raise ValueError(
                f"{call.path}: {call.name} needs the vocabulary of a tokenizer, and the data has none: give the "
                "data module an attribute tokenizer, or choose a model that asks for none"
            )
        return call(tokenizer=tokenizer, **arguments)
    config = call.keywords.get("config", {})
    if not isinstance(config, PretrainedConfig):
        config_class = call.func.config_class or PretrainedConfig
        ids = special_tokens(tokenizer) if tokenizer is not None else {}
        config = config_class(**{**ids, **checked_fields(config, config_class())})
    return call.with_keywords({**call.keywords, "config": config})(tokenizer=tokenizer)
