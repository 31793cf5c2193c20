"""The class of transformers from which a model is built, and the config fields that its task sets."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from transformers import (
    MODEL_FOR_MASKED_LM_MAPPING,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    PretrainedConfig,
    PreTrainedModel,
)

from tiryns.runner import log
from tiryns.runner.config.loading import cannot_build, custom_code_allowed
from tiryns.runner.models.initial.dtypes import as_held
from tiryns.runner.models.packed.trials import evaluating, trial_documents
from tiryns.runner.models.weights import few, load_weights
from tiryns.runner.patches.transformers import has_head


class Head(NamedTuple):
    """The head to put on an encoder: its Auto class and config fields; `fresh` replaces a trained head by a new one."""

    auto: Any = AutoModelForMaskedLM
    config: dict[str, Any] = {}  # noqa: RUF012  a tuple's fields are not shared state
    fresh: bool = False
    decoders: bool = False
    """Whether an architecture without this head gets the head of `AutoModelForCausalLM`."""

    def of(self, config: PretrainedConfig) -> "Head":
        """Returns this head, or the head of `AutoModelForCausalLM` for a decoder."""
        fits = not self.decoders or type(config) in MODEL_FOR_MASKED_LM_MAPPING
        return self if fits else self._replace(auto=AutoModelForCausalLM, decoders=False)

    def build(self, config: PretrainedConfig, **model_kwargs: object) -> PreTrainedModel:
        """Returns the model with random weights; `model_kwargs` are further arguments of its class.

        Raises:
            ValueError: transformers has no such head for this architecture, or cannot build a model from this config.
        """
        config.update(self.config)
        try:
            model = self.auto.from_config(config, trust_remote_code=custom_code_allowed(), **model_kwargs)
        except (ValueError, KeyError, TypeError, AttributeError, ImportError) as error:
            if not has_head(self.auto, config):
                text = f"transformers has no {self.auto.__name__} for the architecture {config.model_type!r}"
                raise ValueError(text) from error
            raise cannot_build(config.model_type, config.to_dict(), error) from error
        return as_held(model)

    def load(self, path: str, config: PretrainedConfig, changes: dict[str, Any]) -> PreTrainedModel:
        """Returns the model with the weights in `path` and the `config` with `changes`; logs which weights are new.

        Raises:
            ValueError: the weights do not fit this model, or cannot be read; or their head was trained for other
                labels, and `fresh` is false.
        """
        kind = self.auto.__name__.removeprefix("AutoModel")
        is_trained = any(kind in name for name in config.architectures or [])
        order = self._order_of_labels(path, config) if is_trained and not self.fresh else None
        options = {**changes, **self.config}
        model, new = load_weights(
            self.auto, path, new_head=self.fresh or not is_trained, both_ways=not self.decoders, **options
        )
        if order is not None:
            reorder_labels(model, order)
            log.info(
                "the head of %s has the labels in another order; its rows now follow the data's order", path
            )
        if self.fresh:
            body, model = model.base_model, self.build(model.config)
            model.base_model.load_state_dict(body.state_dict())
            inside = model.base_model_prefix + "."
            new = [name for name, _ in model.named_parameters() if not name.startswith(inside)]
        if new:
            log.info("starting anew: %s", ", ".join(dict.fromkeys(name.rpartition(".")[0] for name in new)))
        return model.train()  # a loaded model is in evaluation mode

    def _order_of_labels(self, path: str, config: PretrainedConfig) -> list[int] | None:
        """Returns the trained head's index of each data label; None for the same order; ValueError for other labels."""
        names = [*self.config.get("id2label", {}).values()]
        labels = labels_of(config)
        if "id2label" not in self.config or labels == names:
            return None
        if (order := order_of(labels, names)) is None:
            raise ValueError(
                f"the model {path!r} has a head for {len(labels)} labels ({few(labels, 5)}), the data has {len(names)} ("
                f"{few(names, 5)}): set data.labels to the model's labels, or objective.new_head=true to train a new head"
            )
        return order if order != sorted(order) else None


def labels_of(config: PretrainedConfig) -> list[str]:
    """Returns the labels of a model in the order of their indices."""
    return [name for _, name in sorted((config.id2label or {}).items())]


def order_of(head_labels: Sequence[str], data_labels: Sequence[str]) -> list[int] | None:
    """Returns the index of each of the `data_labels` in `head_labels`; None if the two have different labels.

    Example:
        >>> order_of(["neg", "pos"], ["pos", "neg"])
        [1, 0]
    """
    if [*data_labels] == ["value"] and len(head_labels) == 1:  # a number, whose name does not matter
        return [0]
    numbers = {name: number for number, name in enumerate(head_labels)}
    same = len(numbers) == len(head_labels) == len(data_labels) and numbers.keys() == {*data_labels}
    return [numbers[name] for name in data_labels] if same else None


def reorder_labels(model: PreTrainedModel, order: Sequence[int]) -> None:
    """Makes output row i the former row `order[i]`, for a new order of labels, and checks the logits of a random text.

    Raises ValueError for a model whose logits do not come from a linear layer.
    """
    inside = {id(part) for part in model.base_model.modules()} if model.base_model is not model else set()
    layers = [
        part
        for part in model.modules()
        if isinstance(part, nn.Linear) and part.out_features == len(order) and id(part) not in inside
    ]
    with torch.no_grad(), evaluating(model):
        text = trial_documents(model.config)[2][None].to(model.device)
        before = model(input_ids=text).logits
        for parameter in layers[-1].parameters() if layers else ():
            parameter.copy_(parameter[list(order)])
        after = model(input_ids=text).logits
    if not torch.allclose(after, before[..., list(order)], rtol=1e-4, atol=1e-5):
        raise ValueError(
            f"the labels of {type(model).__name__} cannot be put into another order: set data.labels to the "
            f"model's labels in the model's order ({few(labels_of(model.config), 5)})"
        )


MASKED_LM = Head()
"""The head of pretraining on masked tokens."""

LANGUAGE_MODEL = Head(decoders=True)
"""The head of pretraining on next tokens."""
