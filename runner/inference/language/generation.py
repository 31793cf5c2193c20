"""Continues texts with a causal language model, one token after the other.

Each text is computed alone, and its random choices are functions of seed, place of the text, token and step: so a
continuation does not depend on what else is asked for.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from tiryns.runner.models.pretraining.objective_field import objective_of
from tiryns.runner.order.keyed import derive_seed, token_bits

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from tiryns.runner.models.pretraining.causal import CausalLM


def generates(config: Any) -> bool:
    """Whether a config is that of a model that guesses next tokens: a decoder, or an encoder trained causally."""
    decoders = ("ForCausalLM", "LMHeadModel")
    classes = config.architectures or []
    return bool(objective_of(config)) or any(name.endswith(decoders) for name in classes)


def load_causal(run: str) -> "tuple[CausalLM, PreTrainedTokenizerBase]":
    """The causal language model of a run or a Hugging Face folder, and its tokenizer; ValueError without a model."""
    from tiryns.runner.inference.language.infill import open_model
    from tiryns.runner.models.encoder import load_encoder
    from tiryns.runner.models.head import LANGUAGE_MODEL
    from tiryns.runner.models.pretraining.causal import CausalLM

    _, tokenizer = open_model(run)
    pretrained = load_encoder(run, {}, tokenizer, LANGUAGE_MODEL, new_vocabulary=False)
    return CausalLM(pretrained).eval(), tokenizer


def continuation(
    model: "CausalLM",
    tokenizer: "PreTrainedTokenizerBase",
    text: str,
    max_new_tokens: int,
    temperature: float,
    seed: int,
) -> str:
    """What the model writes behind a text, up to the end token, `max_new_tokens` or the longest text that it reads.

    Temperature 0 takes the likeliest token; no other special token than the end is written. Raises ValueError for a text
    that leaves no room, for no token to write, or a negative temperature.
    """
    if max_new_tokens < 1 or temperature < 0:
        raise ValueError(
            f"max_new_tokens={max_new_tokens} must be at least 1, temperature={temperature} 0 or more"
        )
    import torch

    from tiryns.runner.models.positions import longest_text

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.to(device)
    ids, longest = prompt_ids(tokenizer, text), longest_text(model.pretrained)
    if longest is not None and len(ids) >= longest:
        raise ValueError(
            f"the text has {len(ids)} tokens, and the model reads {longest} with what it writes: give a shorter one"
        )
    end = tokenizer.sep_token_id if tokenizer.eos_token_id is None else tokenizer.eos_token_id
    forbidden = sorted(set(tokenizer.all_special_ids) - {end})
    asked = len(ids)
    for step in range(min(max_new_tokens, (longest or asked + max_new_tokens) - asked)):
        with torch.no_grad():
            row = torch.tensor([ids], device=device)
            last = torch.tensor([len(ids) - 1], device=device)
            states = model.encode({"input_ids": row, "attention_mask": torch.ones_like(row)}, last)
            scores = model.logits(states[0, -1:])[0].double().cpu().numpy()
        scores[forbidden] = -np.inf
        token = int(np.argmax(scores if temperature == 0 else drawn(scores / temperature, seed, step)))
        if token == end:
            break
        ids.append(token)
    written = [str(tokenizer.decode(some, skip_special_tokens=True)) for some in (ids[:asked], ids)]
    return written[1][len(written[0]) :]


def prompt_ids(tokenizer: "PreTrainedTokenizerBase", text: str) -> list[int]:
    """The tokens of a text as a run reads its beginning: without the special tokens that would end it.

    Raises ValueError for a text without a token, where the tokenizer sets none in front either.
    """
    ids, special = list(tokenizer(text)["input_ids"]), set(tokenizer.all_special_ids)
    while len(ids) > 1 and ids[-1] in special:
        ids.pop()
    if not ids:
        raise ValueError(
            "there is nothing to continue: the text is empty, and the tokenizer has no token to begin with"
        )
    return ids


def drawn(scores: Any, seed: int, step: int) -> Any:
    """Scores [V] with Gumbel noise of (seed, step, token): the largest is a draw from their softmax.

    Example:
        >>> scores = np.log([0.5, 0.25, 0.25])
        >>> found = [int(np.argmax(drawn(scores, seed, step=0))) for seed in range(2000)]
        >>> np.round(np.bincount(found) / 2000, 1).tolist()
        [0.5, 0.2, 0.3]
    """
    bits = token_bits(np.array([derive_seed(seed, step)], dtype=np.uint64), np.array([len(scores)]))
    uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return scores - np.log(-np.log(uniform))
