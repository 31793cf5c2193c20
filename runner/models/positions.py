"""The positions of a model: how many tokens it can read, and the bases (theta) of rotary positions.

Phases of a run may change the bases; 1 / theta^(2k/d) are the frequencies.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from tiryns.conf.phases import place_of
from tiryns.conf.values import POSITIVE, Settings
from tiryns.runner.order.timeline import Timeline

LOCAL = "sliding_attention"
"""The type of layers with a sliding window, as configs of transformers name it."""

KNOWN = ("rope_theta", "local_rope_theta")
"""Settings of a phase: the base of all layers but local ones, and the base of local layers if the model has one."""


def longest_text(pretrained: PreTrainedModel) -> int | None:
    """Returns how many tokens a model can read, special tokens included; None if unbounded.

    Models such as RoBERTa count positions from padding's id + 1, so they read fewer tokens than their tables have rows.
    """
    longest = getattr(pretrained.config.get_text_config(), "max_position_embeddings", None)
    if not isinstance(longest, int) or longest < 1:
        return None
    for name, module in pretrained.named_modules():
        table, padding = getattr(module, "weight", None), getattr(module, "padding_idx", None)
        if "position" in name and isinstance(table, nn.Parameter) and isinstance(padding, int):
            return min(longest, len(table) - padding - 1)
    return longest


def check_length(pretrained: nn.Module, max_length: int, setting: str = "data.max_length") -> None:
    """Raises ValueError if a model of transformers cannot read samples of `max_length` tokens, as `setting` has them."""
    longest = longest_text(pretrained) if isinstance(pretrained, PreTrainedModel) else None
    if longest is not None and longest < max_length:
        raise ValueError(
            f"{setting}={max_length} is more than the {longest} tokens that this model can read: set "
            f"{setting}={longest} or less"
        )


class RotaryPhases:
    """Sets the rotary bases of a model in each phase of a run: the phase's bases, or else those of the original model.

    Model and config then equal what transformers builds with these bases; weights do not change. Raises ValueError if a
    phase sets a base that this model lacks.

    Example:
        >>> from transformers import ModernBertConfig, ModernBertForMaskedLM
        >>> sizes = dict(vocab_size=9, hidden_size=8, num_attention_heads=2, intermediate_size=8, num_hidden_layers=2)
        >>> special = dict.fromkeys(["pad_token_id", "cls_token_id", "sep_token_id", "bos_token_id", "eos_token_id"], 0)
        >>> model = ModernBertForMaskedLM(ModernBertConfig(**sizes, **special))
        >>> rotary = RotaryPhases(model, Timeline(["short", "long"], [10, 5]), [{"rope_theta": 1e4}, {}])
        >>> rotary.set(3)
        >>> model.config.rope_parameters["full_attention"]["rope_theta"]
        10000.0
        >>> rotary.set(12)
        >>> model.config.rope_parameters["full_attention"]["rope_theta"]
        160000.0
    """

    def __init__(self, pretrained: PreTrainedModel, timeline: Timeline, phases: Sequence[Settings]) -> None:
        self.timeline, self.phases = timeline, phases
        self.modules: list[Any] = [
            module
            for module in pretrained.modules()
            if hasattr(module, "compute_default_rope_parameters") and hasattr(module, "config")
        ]
        self.configs = list({id(module.config): module.config for module in self.modules}.values())
        # one mapping, one per type of layer, or only the base (ESM)
        settings = (getattr(config, "rope_parameters", None) or config.rope_theta for config in self.configs)
        self.base = [copy.deepcopy(each) for each in settings]
        self._present: int | None = None
        for number, phase in enumerate(phases):
            self._check(f"{place_of(number, timeline.names[number])}.model", phase, type(pretrained).__name__)

    def set(self, step: int) -> None:
        """Gives the model the bases of a step (0 is the first), unless it has them already."""
        if not any(self.phases) or (number := self.timeline.at(step)) == self._present:
            return
        phase = self.phases[number]
        for config, base in zip(self.configs, self.base, strict=True):
            _set_bases(config, base, phase)
        for module in self.modules:
            # its tensors stay where they are, for compiled code
            new = type(module)(module.config)
            buffers = dict(module.named_buffers(recurse=False))
            with torch.no_grad():
                for name, buffer in new.named_buffers(recurse=False):
                    buffers[name].copy_(buffer)
            for name, value in vars(new).items():
                if isinstance(value, int | float | Tensor) and not isinstance(value, bool):
                    setattr(module, name, value)
        self._present = number

    def _check(self, where: str, phase: Settings, name: str) -> None:
        pairs = zip(self.base, self.configs, strict=True)
        local = any(isinstance(b, dict) and b.get(LOCAL) and LOCAL in c.layer_types for b, c in pairs)
        for setting, value in phase.items():
            if POSITIVE.problem(value):
                raise ValueError(f"{where}.{setting}={value!r}: expected {POSITIVE}")
            if not self.modules:
                raise ValueError(f"{where}.{setting}: {name} has no rotary positions; leave the setting out")
            if setting == "local_rope_theta" and not local:
                raise ValueError(
                    f"{where}.{setting}: {name} has no layers of local attention with a base of their own; "
                    "rope_theta is the base of all layers"
                )


def _set_bases(config: PretrainedConfig, base: Any, phase: Settings) -> None:
    """Sets the rotary settings of a config, from its original settings and those of a phase."""
    theta, local = (phase.get(name) for name in KNOWN)
    if not isinstance(base, dict):
        config.rope_theta = float(theta or base)
        return
    parameters = copy.deepcopy(base)
    parts = {"": parameters} if "rope_theta" in parameters else parameters
    for kind, part in parts.items():
        rope_theta = local if kind == LOCAL else theta
        if part and rope_theta is not None:
            part["rope_theta"] = float(rope_theta)
    config.rope_parameters = parameters
