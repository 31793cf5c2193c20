"""How many tokens a model can read."""

from torch import nn
from transformers import PreTrainedModel


def longest_text(pretrained: PreTrainedModel) -> int | None:
    """Tokens that a model can read, special ones included; None if unbounded.

    Models such as RoBERTa count positions from the one after padding's, so fewer fit than their tables have rows.
    """
    longest = getattr(pretrained.config.get_text_config(), "max_position_embeddings", None)
    if not isinstance(longest, int) or longest < 1:
        return None
    for name, module in pretrained.named_modules():
        table, padding = getattr(module, "weight", None), getattr(module, "padding_idx", None)
        if "position" in name and isinstance(table, nn.Parameter) and isinstance(padding, int):
            return min(longest, len(table) - padding - 1)
    return longest
