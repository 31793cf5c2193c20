"""Continues texts with a causal language model, one token after the other.

Each text is computed alone, and its random choices are functions of seed, place of the text, token and step: so a
continuation does not depend on what else is asked for.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from tiryns.conf.values import Settings
from tiryns.runner.data.labelled.examples import text_of
from tiryns.runner.data.read.rows import Rows
from tiryns.runner.inference.kinds import Kept, OfTexts, PredictOptions
from tiryns.runner.inference.language.infill import MASK, Masks
from tiryns.runner.inference.passes import device_here
from tiryns.runner.models.encoder import load_encoder
from tiryns.runner.models.head import LANGUAGE_MODEL
from tiryns.runner.models.positions import longest_text
from tiryns.runner.models.pretraining.causal import CausalLM
from tiryns.runner.order.keyed import derive_seed, token_bits


class Continuations(Masks):
    """A causal language model, which continues texts; one that reads both ways fills in masks besides."""

    name = "generation"

    def __init__(self, run: str, tokenizer: PreTrainedTokenizerBase, changes: Settings, fills: bool) -> None:
        if fills:
            super().__init__(run, changes)
        else:
            OfTexts.__init__(self, changes)
        self.fills, self.tokenizer = fills, tokenizer
        self.causal = CausalLM(load_encoder(run, {}, tokenizer, LANGUAGE_MODEL, new_vocabulary=False)).eval()

    def predict(self, rows: Rows, options: PredictOptions, number: int, figures: bool = False) -> Kept:
        """What the model writes behind each text, or the text with its masks filled in."""
        kept, found = [], []
        for place, row in enumerate(rows.rows, number * self.at_once):
            with rows.bad.row():
                text = text_of(row, self.text_column, "data.text_column")
                if self.fills and MASK in text:
                    predicted = super().predict(rows._replace(rows=[row]), options, place).predictions[0]
                elif options.top_k is not None:
                    raise ValueError(f"{row.where}: --top-k is for masks, and this text is continued")
                else:
                    seed = derive_seed(options.seed, place)
                    predicted = {"text": text, "predicted": self.continuation(text, options, seed)}
                found.append(predicted)
                kept.append(row)
        return Kept(kept, found)

    def continuation(self, text: str, options: PredictOptions, seed: int) -> str:
        """What the model writes behind a text, up to the end token, `max_new_tokens` or the longest text that it reads.

        Temperature 0 takes the likeliest token; no other special token than the end is written. Raises ValueError for a
        text that leaves no room, for no token to write, or a negative temperature.
        """
        most, temperature, tokenizer = options.max_new_tokens, options.temperature, self.tokenizer
        if most < 1 or temperature < 0:
            raise ValueError(f"max_new_tokens={most} must be at least 1, temperature={temperature} 0 or more")
        device = device_here()
        self.causal.to(device)
        ids, special = list(tokenizer(text)["input_ids"]), set(tokenizer.all_special_ids)
        while len(ids) > 1 and ids[-1] in special:  # as a run reads the beginning of a text
            ids.pop()
        if not ids:
            raise ValueError(
                "there is nothing to continue: the text is empty, and the tokenizer has no token to begin with"
            )
        longest = longest_text(self.causal.pretrained)
        if longest is not None and len(ids) >= longest:
            raise ValueError(
                f"the text has {len(ids)} tokens, and the model reads {longest} with what it writes: give a shorter one"
            )
        end = tokenizer.sep_token_id if tokenizer.eos_token_id is None else tokenizer.eos_token_id
        forbidden = sorted(special - {end})
        asked = len(ids)
        for step in range(min(most, (longest or asked + most) - asked)):
            with torch.no_grad():
                row = torch.tensor([ids], device=device)
                last = torch.tensor([len(ids) - 1], device=device)
                states = self.causal.encode({"input_ids": row, "attention_mask": torch.ones_like(row)}, last)
                scores = self.causal.logits(states[0, -1:])[0].double().cpu().numpy()
            scores[forbidden] = -np.inf
            token = int(np.argmax(scores if temperature == 0 else drawn(scores / temperature, seed, step)))
            if token == end:
                break
            ids.append(token)
        written = [str(tokenizer.decode(some, skip_special_tokens=True)) for some in (ids[:asked], ids)]
        return written[1][len(written[0]) :]


def drawn(scores: NDArray[np.float64], seed: int, step: int) -> NDArray[np.float64]:
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
