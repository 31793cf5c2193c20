"""Fills in the masks of texts with a masked language model, by the sampler of masked diffusion."""

from typing import TYPE_CHECKING, Any

import numpy as np

from iolaus.runner.config.custom_code import CustomCodeRefused, from_pretrained

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from iolaus.runner.models.diffusion import MaskedDiffusionLM

MASK = "[MASK]"
"""The mask in the texts of users, for every tokenizer."""


def open_model(run: str) -> "tuple[Any, PreTrainedTokenizerBase]":
    """Config and tokenizer of the model of a run folder or a Hugging Face folder; raises ValueError without a model."""
    from transformers import AutoConfig, AutoTokenizer

    from iolaus.runner.run.model_folder import model_folder

    folder = model_folder(run)
    try:
        return from_pretrained(AutoConfig, folder), from_pretrained(AutoTokenizer, folder)
    except CustomCodeRefused:
        raise
    except (OSError, ValueError) as error:
        expected = "expected a run folder with the model/ that a run writes at its end"
        raise ValueError(f"there is no trained model in {run!r}: {expected}") from error


def load(run: str) -> "tuple[MaskedDiffusionLM, PreTrainedTokenizerBase]":
    """The masked language model of a run or a Hugging Face folder, and its tokenizer; ValueError for no such model."""
    from iolaus.runner.models.diffusion import MaskedDiffusionLM
    from iolaus.runner.models.encoder import load_encoder

    config, tokenizer = open_model(run)
    check_language_model(run, config)
    special = set(tokenizer.all_special_ids)
    ordinary = np.array([i for i in range(len(tokenizer)) if i not in special])
    return MaskedDiffusionLM(
        load_encoder(run, {}, tokenizer, new_vocabulary=False), ordinary
    ).eval(), tokenizer


def check_language_model(run: str, config: Any) -> None:
    """Raises ValueError unless the config of a run's model is that of a masked language model."""
    classes = config.architectures or []
    if not any(name.endswith(("ForMaskedLM", "ForPreTraining")) for name in classes):
        raise ValueError(f"the model in {run!r} is a {', '.join(classes)}, not a masked language model")


def fill(
    model: "MaskedDiffusionLM",
    tokenizer: "PreTrainedTokenizerBase",
    texts: list[str],
    num_steps: int,
    temperature: float,
    order: str,
    seed: int,
) -> list[str]:
    """The texts with every mask replaced by a token; raises ValueError for a text without masks or a too long one."""
    import torch

    from iolaus.runner.models.diffusion import infill

    mask = str(tokenizer.mask_token)
    batch = tokenizer([t.replace(MASK, mask) for t in texts], padding=True, return_tensors="pt")
    ids, longest = batch["input_ids"], model.pretrained.config.max_position_embeddings
    if ids.shape[1] > longest:
        found = f"the text has {ids.shape[1]} tokens"
        raise ValueError(f"{found}, more than the {longest} that the model can take")
    mask_id = int(tokenizer.mask_token_id)
    if not (ids == mask_id).any(dim=1).all():
        raise ValueError(f"there is nothing to fill in: write {MASK} in the place of a token")
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    ids, attention_mask = (batch[name].to(model.special.device) for name in ("input_ids", "attention_mask"))
    filled = infill(model, ids, attention_mask, mask_id, num_steps, temperature, order, seed)
    return tokenizer.batch_decode(filled.cpu(), skip_special_tokens=True)
