"""Fills the masks of a text, or writes one from nothing, with a trained masked diffusion model or language model."""

from typing import TYPE_CHECKING, Any

import numpy as np

from iolaus.runner.config.custom_code import CustomCodeRefused, from_pretrained

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from iolaus.runner.models.diffusion import MaskedDiffusionLM

MASK = "[MASK]"
"""How masks are typed, whatever the tokenizer calls its own."""


def open_model(run: str) -> "tuple[Any, PreTrainedTokenizerBase]":
    """Config and tokenizer of the model of a run folder or a Hugging Face folder.

    Raises:
        ValueError: nothing is there.
    """
    from transformers import AutoConfig, AutoTokenizer

    from iolaus.runner.run.model_folder import model_folder

    try:
        folder = model_folder(run)
        return from_pretrained(AutoConfig, folder), from_pretrained(AutoTokenizer, folder)
    except CustomCodeRefused:
        raise
    except (OSError, ValueError) as error:
        raise ValueError(
            f"there is no trained model in {run!r}: expected a run folder with the model/ that a run writes at its end"
        ) from error


def load(run: str) -> "tuple[MaskedDiffusionLM, PreTrainedTokenizerBase]":
    """The model of a run folder or a Hugging Face folder, ready to sample, with its tokenizer.

    Raises:
        ValueError: nothing is there, or it is no masked language model.
    """
    from iolaus.runner.models.diffusion import MaskedDiffusionLM
    from iolaus.runner.models.encoder import load_encoder

    config, tokenizer = open_model(run)
    classes = config.architectures or []
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

    from iolaus.runner.models.diffusion import infill

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
