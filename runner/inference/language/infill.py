"""Fills in the masks of texts with a masked language model, by the sampler of masked diffusion."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tiryns.conf.values import Settings
from tiryns.runner import log
from tiryns.runner.config.loading import CustomCodeRefused, cannot_load, from_pretrained
from tiryns.runner.data.read.rows import Rows
from tiryns.runner.evaluation.files import PredictionRow
from tiryns.runner.inference.kinds import Kept, OfTexts, PredictOptions
from tiryns.runner.models.pretraining.objective_field import objective_of
from tiryns.runner.models.pretraining.replaced_tokens import DISCRIMINATOR
from tiryns.runner.order.keyed import derive_seed
from tiryns.runner.run.files import meant_run
from tiryns.runner.run.model_folder import model_folder

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

    from tiryns.runner.models.pretraining.diffusion import MaskedDiffusionLM

MASK = "[MASK]"
"""The mask in the texts of users, for every tokenizer."""


class Opened(NamedTuple):
    """Config and tokenizer of a trained model."""

    config: "PretrainedConfig"
    tokenizer: "PreTrainedTokenizerBase"


def open_model(run: str) -> Opened:
    """Config and tokenizer of the model of a run folder or a Hugging Face folder; raises ValueError without a model."""
    from transformers import AutoConfig, AutoTokenizer

    folder = model_folder(run)
    try:
        return Opened(from_pretrained(AutoConfig, folder), from_pretrained(AutoTokenizer, folder))
    except CustomCodeRefused:
        raise
    except Exception as error:  # of the hub, json, config or tokenizer
        expected = "expected a run folder with the model/ that a run writes at its end"
        reason = cannot_load(folder, error)
        raise ValueError(
            f"there is no trained model in {run!r}: {expected} ({reason}){meant_run(Path(run))}"
        ) from error


def load(run: str) -> "tuple[MaskedDiffusionLM, PreTrainedTokenizerBase]":
    """The masked language model of a run or a Hugging Face folder, and its tokenizer; ValueError for no such model."""
    from tiryns.runner.models.encoder import load_encoder
    from tiryns.runner.models.pretraining.diffusion import MaskedDiffusionLM

    config, tokenizer = open_model(run)
    check_language_model(run, config)
    special = set(tokenizer.all_special_ids)
    ordinary = np.array([i for i in range(len(tokenizer)) if i not in special])
    return MaskedDiffusionLM(
        load_encoder(run, {}, tokenizer, new_vocabulary=False), ordinary
    ).eval(), tokenizer


def check_language_model(run: str, config: Any) -> None:
    """Raises ValueError unless the config of a run's model is that of a language model."""
    classes = config.architectures or []
    if "ElectraForPreTraining" in classes or Path(model_folder(run), DISCRIMINATOR).exists():
        raise ValueError(
            f"the model in {run!r} is a discriminator, which finds replaced tokens and fills in no masks: its generator "
            "does, in model/generator where objective.export_generator was true"
        )
    if generates(config) or is_language_model(config):
        return
    from transformers import MODEL_FOR_MASKED_LM_MAPPING, AutoModelForMaskedLM

    from tiryns.runner.models.architectures.registered import has_class
    from tiryns.runner.models.weights import load_trained

    if not classes or type(config) not in MODEL_FOR_MASKED_LM_MAPPING or any(map(has_class, classes)):
        raise ValueError(f"the model in {run!r} is a {', '.join(classes)}, not a language model")

    own = ", ".join(classes)
    try:  # the weights of a class of the user's own need the head of a masked language model
        read_as = type(load_trained(AutoModelForMaskedLM, model_folder(run))).__name__
    except ValueError as error:
        raise ValueError(f"the model in {run!r} is a {own}, not a language model: {error}") from error
    log.warning(
        "the model in %s is a %s, which transformers does not have: it is read as a %s", run, own, read_as
    )


def generates(config: "PretrainedConfig") -> bool:
    """Whether a config is that of a model that guesses next tokens: a decoder, or an encoder trained causally."""
    decoders = ("ForCausalLM", "LMHeadModel")
    return bool(objective_of(config)) or any(name.endswith(decoders) for name in config.architectures or [])


def is_language_model(config: "PretrainedConfig") -> bool:
    """Whether a config is that of a masked language model of transformers."""
    return any(name.endswith(("ForMaskedLM", "ForPreTraining")) for name in config.architectures or [])


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
    from tiryns.runner.models.pretraining.diffusion import infill

    ids, attention_mask = _masked_batch(model, tokenizer, texts)
    mask_id = int(tokenizer.mask_token_id)
    filled = infill(model, ids, attention_mask, mask_id, num_steps, temperature, order, seed)
    return tokenizer.batch_decode(filled.cpu(), skip_special_tokens=True)


def likeliest(
    model: "MaskedDiffusionLM", tokenizer: "PreTrainedTokenizerBase", texts: list[str], k: int
) -> list[PredictionRow]:
    """The `k` likeliest tokens of each mask and their probabilities, while the other masks stay; errors as of `fill`."""
    from tiryns.runner.models.pretraining.diffusion import mask_probabilities

    ids, attention_mask = _masked_batch(model, tokenizer, texts)
    masked = ids == int(tokenizer.mask_token_id)
    shares, tokens = mask_probabilities(model, ids, attention_mask, masked).topk(
        min(k, int((~model.special).sum()))
    )
    counts = masked.sum(1).tolist()
    return [
        {
            "predicted": [[tokenizer.decode([i]) for i in mask] for mask in own.tolist()],
            "probability": p.tolist(),
        }
        for own, p in zip(tokens.split(counts), shares.split(counts), strict=True)
    ]


def _masked_batch(
    model: "MaskedDiffusionLM", tokenizer: "PreTrainedTokenizerBase", texts: list[str]
) -> "tuple[Tensor, Tensor]":
    """Token ids and attention mask [B, T] of texts, and the model, on a GPU if there is one; errors as of `fill`."""
    import torch

    mask = str(tokenizer.mask_token)
    batch = tokenizer([t.replace(MASK, mask) for t in texts], padding=True, return_tensors="pt")
    ids, longest = batch["input_ids"], model.pretrained.config.max_position_embeddings
    if ids.shape[1] > longest:
        found = f"the text has {ids.shape[1]} tokens"
        raise ValueError(f"{found}, more than the {longest} that the model can take")
    if not (ids == int(tokenizer.mask_token_id)).any(dim=1).all():
        raise ValueError(f"there is nothing to fill in: write {MASK} in the place of a token")
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    return ids.to(model.special.device), batch["attention_mask"].to(model.special.device)


class Masks(OfTexts):
    """A language model, which fills in masks."""

    name, at_once = "infill", 256

    def __init__(self, run: str, changes: Settings) -> None:
        super().__init__(changes)
        self.model, self.tokenizer = load(run)

    def predict(self, rows: Rows, options: PredictOptions, number: int, figures: bool = False) -> Kept:
        """The texts filled in, or the likeliest tokens; the batches after the first have seeds of their own."""
        kept, texts = self.texts(rows)
        if options.top_k is not None:
            found = likeliest(self.model, self.tokenizer, texts, options.top_k) if texts else []
            return Kept(kept, [{"text": text} | one for text, one in zip(texts, found, strict=True)])
        seed = derive_seed(options.seed, number) % 2**63 if number else options.seed
        sampling = (options.steps, options.temperature, options.order, seed)
        filled = fill(self.model, self.tokenizer, texts, *sampling) if texts else []
        pairs = zip(texts, filled, strict=True)
        return Kept(kept, [{"text": text, "predicted": predicted} for text, predicted in pairs])
