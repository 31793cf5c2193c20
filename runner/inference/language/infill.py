"""Fills in the masks of texts by the sampler of masked diffusion, and continues texts with causal language models."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import (
    MODEL_FOR_MASKED_LM_MAPPING,
    AutoConfig,
    AutoModelForMaskedLM,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedTokenizerBase,
)

from tiryns.conf.values import Settings
from tiryns.runner import log
from tiryns.runner.config.loading import CustomCodeRefused, cannot_load, from_pretrained
from tiryns.runner.data.read.rows import Rows
from tiryns.runner.evaluation.files import PredictionRow
from tiryns.runner.inference.kinds import Kept, OfTexts, PredictOptions
from tiryns.runner.inference.passes import device_here
from tiryns.runner.models.architectures.registered import has_class
from tiryns.runner.models.encoder import load_encoder
from tiryns.runner.models.head import LANGUAGE_MODEL
from tiryns.runner.models.positions import longest_text
from tiryns.runner.models.pretraining.causal import CausalLM
from tiryns.runner.models.pretraining.diffusion import MaskedDiffusionLM, infill, mask_logits
from tiryns.runner.models.pretraining.replaced_tokens import DISCRIMINATOR
from tiryns.runner.models.weights import load_trained
from tiryns.runner.models.wrapped import objective_of
from tiryns.runner.order.keyed import derive_seed, token_bits
from tiryns.runner.run.files import meant_run
from tiryns.runner.run.model_folder import model_folder

MASK = "[MASK]"
"""How users write a mask in a text, whatever mask token the tokenizer has."""


class Opened(NamedTuple):
    """Config and tokenizer of a trained model."""

    config: PretrainedConfig
    tokenizer: PreTrainedTokenizerBase


def open_model(run: str) -> Opened:
    """Returns config and tokenizer of the model in a run folder or a Hugging Face folder; ValueError without a model."""
    folder = model_folder(run)
    try:
        return Opened(from_pretrained(AutoConfig, folder), from_pretrained(AutoTokenizer, folder))
    except CustomCodeRefused:
        raise
    except Exception as error:  # of the hub, json, config or tokenizer
        expectation = "expected a run folder with the model/ that a run writes at its end"
        reason = cannot_load(folder, error)
        raise ValueError(
            f"there is no trained model in {run!r}: {expectation} ({reason}){meant_run(Path(run))}"
        ) from error


def check_language_model(run: str, config: Any) -> None:
    """Raises ValueError if the config of a run's model is not the config of a language model."""
    classes = config.architectures or []
    if "ElectraForPreTraining" in classes or Path(model_folder(run), DISCRIMINATOR).exists():
        raise ValueError(
            f"the model in {run!r} is a discriminator, which finds replaced tokens and cannot fill in masks: "
            "its generator does, in model/generator of a run with objective.export_generator=true"
        )
    if generates(config) or is_language_model(config):
        return
    if not classes or type(config) not in MODEL_FOR_MASKED_LM_MAPPING or any(map(has_class, classes)):
        raise ValueError(f"the model in {run!r} is a {', '.join(classes)}, not a language model")
    names = ", ".join(classes)
    try:  # the weights of a class of the user's own need the head of a masked language model
        read_as = type(load_trained(AutoModelForMaskedLM, model_folder(run))).__name__
    except ValueError as error:
        raise ValueError(f"the model in {run!r} is a {names}, not a language model: {error}") from error
    log.warning(
        "the model in %s is a %s, which transformers does not have: it is read as a %s", run, names, read_as
    )


def generates(config: PretrainedConfig) -> bool:
    """Whether a config belongs to a model that predicts next tokens: a decoder, or an encoder trained causally."""
    decoders = ("ForCausalLM", "LMHeadModel")
    # a classifier that began with such an encoder may still name what it was before
    causal = bool(objective_of(config)) and is_language_model(config)
    return causal or any(name.endswith(decoders) for name in config.architectures or [])


def is_language_model(config: PretrainedConfig) -> bool:
    """Whether a config belongs to a masked language model of transformers."""
    return any(name.endswith(("ForMaskedLM", "ForPreTraining")) for name in config.architectures or [])


class Masks(OfTexts):
    """A language model, which fills in masks."""

    name, at_once = "infill", 256

    def __init__(self, run: str, parts: Opened, changes: Settings) -> None:
        super().__init__(changes)
        config, self.tokenizer = parts
        check_language_model(run, config)
        ordinary = np.setdiff1d(np.arange(len(self.tokenizer)), self.tokenizer.all_special_ids)
        encoder = load_encoder(run, {}, self.tokenizer, new_vocabulary=False)
        self.model = MaskedDiffusionLM(encoder, ordinary).eval()

    def predict_texts(self, texts: list[str], options: PredictOptions, number: int) -> list[PredictionRow]:
        """Returns the filled-in texts, or with `top_k` the likeliest tokens; each batch after the first has its own seed.

        Raises ValueError for a text that has no mask or is too long.
        """
        if not texts:
            return []
        model, tokenizer, device = self.model, self.tokenizer, device_here()
        mask, mask_id = str(tokenizer.mask_token), int(tokenizer.mask_token_id)
        batch = tokenizer([t.replace(MASK, mask) for t in texts], padding=True, return_tensors="pt")
        ids, longest = batch["input_ids"], longest_text(model.pretrained)
        if longest is not None and ids.shape[1] > longest:
            problem = f"the text has {ids.shape[1]} tokens"
            raise ValueError(f"{problem}, more than the {longest} that the model can take")
        if not (ids == mask_id).any(dim=1).all():
            raise ValueError(f"there is nothing to fill in: write {MASK} in the place of a token")
        model.to(device)
        ids, attention_mask = ids.to(device), batch["attention_mask"].to(device)
        if options.top_k is not None:  # of each mask, while the other masks stay
            is_mask = ids == mask_id
            most = min(options.top_k, int((~model.special).sum()))
            shares, tokens = mask_logits(model, ids, attention_mask, is_mask).softmax(-1).topk(most)
            pairs = zip(*(each.split(is_mask.sum(1).tolist()) for each in (tokens, shares)), strict=True)
            guesses: list[PredictionRow] = []
            for likeliest, probabilities in pairs:
                words = [[tokenizer.decode([i]) for i in mask] for mask in likeliest.tolist()]
                guesses.append({"predicted": words, "probability": probabilities.tolist()})
            return guesses
        seed = derive_seed(options.seed, number) % 2**63 if number else options.seed
        sampling = (options.steps, options.temperature, options.order, seed)
        filled_ids = infill(model, ids, attention_mask, mask_id, *sampling).cpu()
        return [{"predicted": one} for one in tokenizer.batch_decode(filled_ids, skip_special_tokens=True)]


class Continuations(Masks):
    """A causal language model, which continues texts; a model of the hybrid objective also fills in masks."""

    name = "generation"

    def __init__(self, run: str, parts: Opened, changes: Settings) -> None:
        self.fills = str(objective_of(parts.config)).startswith("hybrid")
        if self.fills:
            super().__init__(run, parts, changes)
        else:
            OfTexts.__init__(self, changes)
        self.tokenizer = parts.tokenizer
        encoder = load_encoder(run, {}, self.tokenizer, LANGUAGE_MODEL, new_vocabulary=False)
        self.causal = CausalLM(encoder).eval()

    def predict(self, rows: Rows, options: PredictOptions, number: int, figures: bool = False) -> Kept:
        """Returns the continuation of each text, or the text with its masks filled in."""
        usable, predictions = [], []
        for place, row in enumerate(rows.rows, number * self.at_once):
            with rows.bad.row():
                text = row.text(self.text_column, "data.text_column")
                if self.fills and MASK in text:
                    [prediction] = self.predict_texts([text], options, place)
                elif options.top_k is not None:
                    raise ValueError(f"{row.where}: --top-k guesses masks, but this text is continued")
                else:
                    seed = derive_seed(options.seed, place)
                    prediction = {"predicted": self.continuation(text, options, seed)}
                predictions.append({"text": text, **prediction})
                usable.append(row)
        return Kept(usable, predictions)

    def continuation(self, text: str, options: PredictOptions, seed: int) -> str:
        """Returns the continuation of a text, up to the end token, `max_new_tokens` or the model's longest text.

        Temperature 0 takes the likeliest token; no special token is written. Raises ValueError for a text without
        tokens or a too long one, `max_new_tokens` below 1, or a negative temperature.
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
                f"the text has {len(ids)} tokens; with its continuation it must fit in {longest}: give a shorter one"
            )
        end = tokenizer.sep_token_id if tokenizer.eos_token_id is None else tokenizer.eos_token_id
        forbidden = sorted(special - {end})
        prompt_length = len(ids)
        for step in range(min(most, (longest or prompt_length + most) - prompt_length)):
            with torch.no_grad():
                row = torch.tensor([ids], device=device)
                last = torch.tensor([len(ids) - 1], device=device)
                states = self.causal.encode({"input_ids": row, "attention_mask": torch.ones_like(row)}, last)
                scores = self.causal.logits(states[0, -1:])[0].double().cpu().numpy()
            scores[forbidden] = -np.inf
            token = int(np.argmax(scores if temperature == 0 else perturb(scores / temperature, seed, step)))
            if token == end:
                break
            ids.append(token)
        texts = [str(tokenizer.decode(part, skip_special_tokens=True)) for part in (ids[:prompt_length], ids)]
        return texts[1][len(texts[0]) :]


def perturb(scores: NDArray[np.float64], seed: int, step: int) -> NDArray[np.float64]:
    """Returns scores [V] plus Gumbel noise keyed by seed, step and token: the argmax is a sample of the scores' softmax.

    Example:
        >>> scores = np.log([0.5, 0.25, 0.25])
        >>> found = [int(np.argmax(perturb(scores, seed, step=0))) for seed in range(2000)]
        >>> np.round(np.bincount(found) / 2000, 1).tolist()
        [0.5, 0.3, 0.2]
    """
    bits = token_bits(np.array([derive_seed(seed, step)], dtype=np.uint64), np.array([len(scores)]))
    uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return scores - np.log(-np.log(uniform))
