"""Fills the masks of a text, or writes one from nothing, with a trained masked diffusion model.

`python -m runner.infill RUN "the [MASK] of a [MASK]"`, or `--length 20` for a text of that many tokens. RUN is a run
folder or a folder with a Hugging Face model. A model of plain masked language modelling works as well.
"""

import argparse
import sys
from typing import TYPE_CHECKING

import numpy as np

from runner.errors import explain, wants_traceback

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from runner.models.diffusion import MaskedDiffusionLM

MASK = "[MASK]"
"""How masks are typed, whatever the tokenizer calls its own."""


def main(words: list[str] | None = None) -> None:
    """The command, with the words of the command line; a wrong one ends with one message and exit status 1."""
    arguments = parser().parse_args(words)
    try:
        if (arguments.text is None) == (arguments.length is None):
            raise ValueError(f'give a text with {MASK} in it, or --length N: infill RUN "a {MASK} text"')
        text = arguments.text if arguments.text is not None else " ".join([MASK] * arguments.length)
        model, tokenizer = load(arguments.run)
        for line in fill(
            model,
            tokenizer,
            [text] * arguments.samples,
            num_steps=arguments.steps,
            temperature=arguments.temperature,
            order=arguments.order,
            seed=arguments.seed,
        ):
            print(line)
    except Exception as error:
        message = explain(error)
        if wants_traceback() or message is None:
            raise
        sys.exit(f"error: {message}")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m runner.infill", description=(__doc__ or "").split("\n\n")[0]
    )
    made.add_argument("run", help="run folder, or folder of a Hugging Face model")
    made.add_argument("text", nargs="?", help=f"text with {MASK} where a token is to be filled in")
    made.add_argument("--length", type=int, help="tokens of a text written from nothing")
    made.add_argument("--steps", type=int, default=1000, help="steps from all masked to none (1000)")
    made.add_argument(
        "--order", default="random", help="random: MDLM's sampler; confidence: the surest first"
    )
    made.add_argument(
        "--temperature", type=float, default=1.0, help="below 1 plays safe, 0 takes the likeliest"
    )
    made.add_argument("--samples", type=int, default=1, help="texts to print, one per line")
    made.add_argument("--seed", type=int, default=0, help="the result follows from it")
    return made


def load(run: str) -> "tuple[MaskedDiffusionLM, PreTrainedTokenizerBase]":
    """The model of a run folder or a Hugging Face folder, ready to sample, with its tokenizer.

    Raises:
        ValueError: nothing is there, or it is no masked language model.
    """
    from transformers import AutoConfig, AutoTokenizer

    from runner.export import model_folder
    from runner.models.diffusion import MaskedDiffusionLM
    from runner.models.encoder import load_encoder

    try:
        classes = AutoConfig.from_pretrained(model_folder(run)).architectures or []
        tokenizer = AutoTokenizer.from_pretrained(model_folder(run))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"there is no trained model in {run!r}: expected a run folder with the model/ that a run writes at its end"
        ) from error
    if not any(name.endswith(("ForMaskedLM", "ForPreTraining")) for name in classes):
        raise ValueError(f"the model in {run!r} is a {', '.join(classes)}, not a masked language model")
    special = set(tokenizer.all_special_ids)
    ordinary = np.array([i for i in range(len(tokenizer)) if i not in special])
    return MaskedDiffusionLM(load_encoder(run, {}, tokenizer), ordinary).eval(), tokenizer


def fill(
    model: "MaskedDiffusionLM",
    tokenizer: "PreTrainedTokenizerBase",
    texts: list[str],
    num_steps: int,
    temperature: float,
    order: str,
    seed: int,
) -> list[str]:
    """The texts with a token in the place of every mask.

    Raises:
        ValueError: a text without a mask, or one longer than the model can take.
    """
    import torch

    from runner.models.diffusion import infill

    mask = str(tokenizer.mask_token)
    batch = tokenizer([t.replace(MASK, mask) for t in texts], padding=True, return_tensors="pt")
    ids, longest = batch["input_ids"], model.pretrained.config.max_position_embeddings
    if ids.shape[1] > longest:
        raise ValueError(
            f"the text has {ids.shape[1]} tokens, more than the {longest} that the model can take"
        )
    if not (ids == tokenizer.mask_token_id).any(dim=1).all():
        raise ValueError(f"there is nothing to fill in: write {MASK} where a token shall stand")
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    ids, attention_mask = (batch[name].to(model.special.device) for name in ("input_ids", "attention_mask"))
    filled = infill(
        model, ids, attention_mask, int(tokenizer.mask_token_id), num_steps, temperature, order, seed
    )
    return tokenizer.batch_decode(filled.cpu(), skip_special_tokens=True)


if __name__ == "__main__":
    main()
