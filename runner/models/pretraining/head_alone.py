"""The head of a language model without its encoder, in a form that torch.compile can trace.

`encoder_returning` exchanges modules while it runs, which cannot be traced; here they are exchanged once.
"""

from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPoolingAndCrossAttentions

from tiryns.runner.patches.torch.modules import copied, share_parts


def head_alone(pretrained: PreTrainedModel) -> PreTrainedModel:
    """A model of the same modules and weights, whose encoder returns what it is given as `inputs_embeds` [B, T, H].

    It is called with `input_ids=None`, and for reading only: a head that is exchanged in one is not in the other.

    Example:
        >>> import torch
        >>> from transformers import BertConfig, BertForMaskedLM
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 20}
        >>> model = BertForMaskedLM(BertConfig(num_hidden_layers=1, **sizes)).eval()
        >>> alone, hidden = head_alone(model), torch.randn(1, 3, 8)
        >>> torch.equal(alone(input_ids=None, inputs_embeds=hidden).logits, model.cls(hidden))
        True
    """
    prefix = pretrained.base_model_prefix
    alone = copied(pretrained)
    setattr(alone, prefix, _PassesOn(getattr(pretrained, prefix)))
    return alone


class _PassesOn(nn.Module):
    """Returns the given states; the modules of the encoder, which heads may read, are its own."""

    def __init__(self, encoder: PreTrainedModel) -> None:
        super().__init__()
        share_parts(self, encoder)
        self.config = encoder.config

    def forward(
        self, *_: object, inputs_embeds: Tensor, **__: object
    ) -> BaseModelOutputWithPoolingAndCrossAttentions:
        return BaseModelOutputWithPoolingAndCrossAttentions(last_hidden_state=inputs_embeds)
