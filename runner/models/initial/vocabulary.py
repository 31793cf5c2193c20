"""Embeddings for another vocabulary, from those of a trained model.

A special token takes the embedding of the old token with its role. Another token in the old vocabulary keeps its
embedding. Any other token takes the mean embedding of the pieces into which the old tokenizer cuts its text. If there is
no piece, or an unknown one, its embedding is drawn from a normal distribution with each column's mean and deviation.
"""

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tiryns.runner.optim.roles import parts
from tiryns.runner.widening import widen

ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token", "bos_token", "eos_token")

SIZES = ("num_embeddings", "out_features")
"""Attributes of modules that hold the number of tokens."""


@torch.no_grad()
def fit_vocabulary(
    model: PreTrainedModel, old: PreTrainedTokenizerBase, new: PreTrainedTokenizerBase
) -> dict[str, int]:
    """Replaces the vocabulary `old` of a model by `new`; returns the number of tokens copied, averaged and drawn.

    Untied output embeddings and the output bias are made in the same way.

    Raises:
        ValueError: the model counts positions from the id of padding, which changes.
    """
    config = model.config
    counting = [
        m for m in model.modules() if hasattr(m, "padding_idx") and not isinstance(m, torch.nn.Embedding)
    ]
    if counting and old.pad_token_id != new.pad_token_id:
        raise ValueError(
            f"model.new_vocabulary: {config.model_type!r} counts positions from the id of padding, {old.pad_token_id}; "
            f"the new tokenizer's is {new.pad_token_id} and must be the same"
        )
    sources = sources_of(old, new)
    new_tables = {}
    for table in _tables(model):
        rows = widen(table)
        mean, std = rows.mean(0), rows.std(0)
        embeddings = [rows[ids].mean(0) if ids else torch.normal(mean, std) for ids in sources]
        new_tables[id(table)] = torch.nn.Parameter(torch.stack(embeddings).to(table.dtype))
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False, remove_duplicate=False)):
            if id(parameter) in new_tables:
                setattr(module, name, new_tables[id(parameter)])  # a tied one in each of its places
                for size in SIZES:
                    if hasattr(module, size):
                        setattr(module, size, len(new))
        if getattr(module, "vocab_size", None) == config.vocab_size:
            setattr(module, "vocab_size", len(new))  # noqa: B010  of a type that differs by model
    config.vocab_size = len(new)
    model.get_input_embeddings().padding_idx = new.pad_token_id
    counts = {"copied": 1, "means of pieces": 2, "drawn": 0}
    return {kind: sum(min(len(ids), 2) == count for ids in sources) for kind, count in counts.items()}


def sources_of(old: PreTrainedTokenizerBase, new: PreTrainedTokenizerBase) -> list[list[int]]:
    """Returns for each new id a list of old ids, whose mean embedding it takes; an empty list if it is drawn."""
    vocabulary = old.get_vocab()
    roles = {
        getattr(new, role): getattr(old, role) for role in ROLES if getattr(new, role) and getattr(old, role)
    }
    sources: list[list[int]] = [[] for _ in range(len(new))]
    for token, number in new.get_vocab().items():
        if token in roles or token in vocabulary:
            sources[number] = [vocabulary[roles.get(token, token)]]
            continue
        text = new.convert_tokens_to_string([token]).removeprefix("##")
        pieces = old(text, add_special_tokens=False)["input_ids"]
        sources[number] = [] if old.unk_token_id in pieces else list(pieces)
    return sources


def _tables(model: PreTrainedModel) -> list[torch.nn.Parameter]:
    """Returns the parameters with a row for each token: embeddings, the output layer, and biases outside the layers."""
    modules = [model.get_input_embeddings(), model.get_output_embeddings()]
    parameters = [p for module in modules if module is not None for p in module.parameters()]
    parameters += [p for p, role, place in parts(model).values() if role == "vector" and place.layer is None]
    return [p for p in parameters if len(p) == model.config.vocab_size]
