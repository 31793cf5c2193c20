"""The class of transformers that a model is built as, and the config fields that its task sets."""

import logging
from typing import Any, NamedTuple

from transformers import (
    MODEL_FOR_MASKED_LM_MAPPING,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    PretrainedConfig,
    PreTrainedModel,
)

from tiryns.runner.config.custom_code import custom_code_allowed
from tiryns.runner.models.weights import few, load_weights

log = logging.getLogger("tiryns")


class Head(NamedTuple):
    """The head to put on an encoder: its Auto class and config fields; `fresh` starts a trained one anew."""

    auto: Any = AutoModelForMaskedLM
    config: dict[str, Any] = {}  # noqa: RUF012  a tuple's fields are not shared state
    fresh: bool = False
    decoders: bool = False
    """Whether an architecture without this head gets that of `AutoModelForCausalLM`."""

    def of(self, config: PretrainedConfig) -> "Head":
        """This head, or that of a decoder."""
        known = not self.decoders or type(config) in MODEL_FOR_MASKED_LM_MAPPING
        return self if known else self._replace(auto=AutoModelForCausalLM, decoders=False)

    def build(self, config: PretrainedConfig, **model_kwargs: Any) -> PreTrainedModel:
        """The model with random weights; `model_kwargs` are further arguments of its class.

        Raises:
            ValueError: transformers has no such head for this architecture.
        """
        config.update(self.config)
        try:
            return self.auto.from_config(config, trust_remote_code=custom_code_allowed(), **model_kwargs)
        except ValueError as error:
            told = f"transformers has no {self.auto.__name__} for the architecture {config.model_type!r}"
            raise ValueError(told) from error

    def load(self, path: str, known: PretrainedConfig, changes: dict[str, Any]) -> PreTrainedModel:
        """The model with the weights in `path`, whose config is `known`; new weights are named in the log.

        Raises:
            ValueError: the weights are not those of this model, or cannot be read; or they have a head trained for other
                labels, and not `fresh`.
        """
        kind = self.auto.__name__.removeprefix("AutoModel")
        trained = any(kind in name for name in known.architectures or [])
        if trained and not self.fresh:
            self._check_labels(path, known)
        options = {**changes, **self.config}
        model, new = load_weights(self.auto, path, new_head=self.fresh or not trained, **options)
        if self.fresh:
            body, model = model.base_model, self.build(model.config)
            model.base_model.load_state_dict(body.state_dict())
            inside = model.base_model_prefix + "."
            new = [name for name, _ in model.named_parameters() if not name.startswith(inside)]
        if new:
            log.info("starting anew: %s", ", ".join(dict.fromkeys(name.rpartition(".")[0] for name in new)))
        return model.train()  # a loaded model is in evaluation mode

    def _check_labels(self, path: str, known: PretrainedConfig) -> None:
        """Refuses a trained head whose labels are not those of the data, in their order."""
        ours = [*self.config.get("id2label", {}).values()]
        theirs = [name for _, name in sorted((known.id2label or {}).items())]
        if "id2label" in self.config and theirs != ours:
            raise ValueError(
                f"the model {path!r} has a head for {len(theirs)} labels ({few(theirs, 5)}), the data has {len(ours)} "
                f"({few(ours, 5)}): set data.labels to the model's, in their order, or "
                "objective.new_head=true to start its head anew"
            )


MASKED_LM = Head()
"""The head of pretraining."""

LANGUAGE_MODEL = Head(decoders=True)
"""The head of pretraining on next tokens."""
