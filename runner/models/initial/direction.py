"""Whether a loaded encoder reads both ways: another version of a library must not make it causal without a word."""

import torch
from torch import Tensor
from transformers import MODEL_FOR_MASKED_LM_MAPPING, PreTrainedModel

from tiryns.runner.models.architectures.registered import ARCHITECTURES
from tiryns.runner.models.packed.trials import evaluating, padding_id, relative_difference, trial_documents

UNCHANGED = 1e-6
"""Relative difference of hidden states below which what was changed is not seen; a causal mask leaves 0."""


def check_reads_both_ways(model: PreTrainedModel, path: str) -> None:
    """Raises ValueError for an encoder of masked language modelling whose tokens see those before them alone.

    Decoders are not tried: heads for tasks exist for them on purpose.
    """
    config = model.config
    if type(config) not in MODEL_FOR_MASKED_LM_MAPPING and config.model_type not in ARCHITECTURES:
        return
    if reads_one_way(model):
        raise ValueError(
            f"the model {path!r} ({config.model_type}) reads one way only: no token changes with those after it, which "
            "this objective needs; set model.config.is_decoder=false if its config says true, else install the version "
            "of transformers that it was trained with, or choose objective=clm"
        )


@torch.no_grad()
@torch.autocast("cpu", enabled=False)  # whatever the caller computes in
def reads_one_way(model: PreTrainedModel) -> bool:
    """Whether tokens of a random document change with tokens before them, and none with those behind.

    False as well where it cannot be tried, and for a model in which tokens do not see each other at all.
    """
    ids = max(trial_documents(model.config), key=len)
    half = len(ids) // 2
    others = (ids + 1 + (ids + 1 == padding_id(model.config)).long()) % model.config.vocab_size
    try:
        with evaluating(model), torch.random.fork_rng([]):
            changed = (torch.cat([others[:half], ids[half:]]), torch.cat([ids[:half], others[half:]]))
            whole, before, behind = (_states(model, some) for some in (ids, *changed))
        sees_before = relative_difference(before[half:], whole[half:]) > UNCHANGED
        return sees_before and relative_difference(behind[:half], whole[:half]) <= UNCHANGED
    except Exception:  # models raise what they like, such as for inputs that are no text
        return False


def _states(model: PreTrainedModel, ids: Tensor) -> Tensor:
    """The hidden states [T, H] of a document [T]."""
    rows = ids[None].to(model.device)
    return model.base_model(input_ids=rows, attention_mask=torch.ones_like(rows))[0][0]
