"""Encoders of transformers, built from their config classes or loaded with their weights."""

import json
from collections.abc import Mapping

from torch import nn
from transformers import AutoConfig, AutoTokenizer, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from tiryns.conf.model import Encoder, Pretrained
from tiryns.conf.values import Settings, suggest
from tiryns.runner import log
from tiryns.runner.config.calling import takes_settings
from tiryns.runner.config.loading import CustomCodeRefused, cannot_build, cannot_load, from_pretrained
from tiryns.runner.data.text.tokenizer import borrows_padding, knows_no_words
from tiryns.runner.models.adapters import adapt, check_separate, import_peft
from tiryns.runner.models.architectures.registered import ARCHITECTURES, register
from tiryns.runner.models.head import MASKED_LM, Head
from tiryns.runner.models.initial.schemes import initialise
from tiryns.runner.models.initial.tiling import tile
from tiryns.runner.models.initial.vocabulary import fit_vocabulary
from tiryns.runner.models.weights import head_inside_body
from tiryns.runner.run.errors import reason_of
from tiryns.runner.run.model_folder import model_folder

SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
"""Sizes of layers, as config classes name them."""

DROPOUT_FIELDS = (
    "hidden_dropout_prob", "attention_probs_dropout_prob", "attention_dropout", "embedding_dropout",
    "mlp_dropout", "dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop",
)  # fmt: skip
"""Fields of config classes that set a dropout rate."""


@takes_settings(Encoder)
def build_encoder(
    settings: Encoder,
    tokenizer: PreTrainedTokenizerBase | None,
    head: Head = MASKED_LM,
    model_kwargs: Settings | None = None,
) -> PreTrainedModel:
    """Returns an encoder with random weights, the objective's head, and the tokenizer's vocabulary and special tokens.

    Without a tokenizer `config` has vocabulary and tokens. `model_kwargs` (`attn_implementation`, ...) go to the model.

    Raises:
        ValueError: an unknown architecture or config field, sizes that do not fit together, or no vocabulary.
    """
    architecture, config = settings.architecture, settings.config
    size, heads = settings.hidden_size, settings.num_attention_heads
    known_names = (*MODEL_FOR_MASKED_LM_MAPPING_NAMES, *ARCHITECTURES)
    if head.decoders:
        known_names = (*known_names, *MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    if architecture not in known_names:
        kinds = "masked or causal" if head.decoders else "masked"
        raise ValueError(
            f"model.architecture={architecture!r} is no {kinds} language model of transformers"
            + suggest(architecture, known_names)
        )
    if size % heads:
        raise ValueError(f"model.hidden_size={size} is not divisible by model.num_attention_heads={heads}")
    if architecture in ARCHITECTURES:
        register()
    defaults = AutoConfig.for_model(architecture)
    fields: Settings = {name: getattr(settings, name) for name in (*SIZES, "max_position_embeddings")}
    fields |= {"n_inner": settings.intermediate_size} if hasattr(defaults, "n_inner") else {}
    fields |= {name: settings.dropout for name in DROPOUT_FIELDS if hasattr(defaults, name)}
    fields |= checked_fields(config, defaults)
    if tokenizer is not None:
        fields |= special_tokens(tokenizer, defaults)
        fields["vocab_size"] = max(fields["vocab_size"], config.get("vocab_size", 0))  # may be rounded up
    elif "vocab_size" not in config:
        raise ValueError("the size of the vocabulary is unknown: give a tokenizer, or vocab_size")
    else:
        fields |= special_ids_within(config, defaults)
    try:
        model_config = AutoConfig.for_model(architecture, **fields)
    except Exception as error:  # of the library's own validation
        raise cannot_build(architecture, fields, error) from error
    model = head.of(model_config).build(model_config, **(model_kwargs or {}))
    if settings.init != "default":
        if settings.tiled_from is not None:
            raise ValueError("model.init and model.tiled_from are two initialisations; set one of them")
        initialise(model, settings.init)
    if settings.tiled_from is not None:
        tile(model, _smaller(settings.tiled_from, tokenizer, head))
    return _train_borrowed(model, tokenizer)


def _train_borrowed(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None) -> PreTrainedModel:
    """Returns the model; lets the padding token's embedding be trained if this token also ends texts."""
    if isinstance(tokenizer, PreTrainedTokenizerBase) and borrows_padding(tokenizer):
        for module in model.modules():
            if isinstance(module, nn.Embedding) and module.padding_idx == tokenizer.pad_token_id:
                module.padding_idx = None
    return model


def _smaller(name_or_path: str, tokenizer: PreTrainedTokenizerBase | None, head: Head) -> PreTrainedModel:
    """Loads the smaller model of `tiled_from`; raises ValueError if its tokens differ from the tokenizer's."""
    model = load_encoder(name_or_path, {}, tokenizer, head, new_vocabulary=False)
    if tokenizer is not None and tokenizer_of_model(name_or_path).get_vocab() != tokenizer.get_vocab():
        raise ValueError(
            f"model.tiled_from: the model {name_or_path!r} has other tokens than the data's "
            f"tokenizer: set data.tokenizer={model_folder(name_or_path)}"
        )
    return model


def tokenizer_of_model(name_or_path: str) -> PreTrainedTokenizerBase:
    """Returns the tokenizer that is stored with a model; raises ValueError if it is missing or cannot be read."""
    path = model_folder(name_or_path)
    try:
        return from_pretrained(AutoTokenizer, path)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"the model {name_or_path!r} has no tokenizer to compare with: {reason_of(error)}"
        ) from error


def check_same_tokens(name_or_path: str, tokenizer: PreTrainedTokenizerBase) -> None:
    """Raises ValueError if most tokens have other ids in the tokenizer of the model; a model without one passes."""
    path = model_folder(name_or_path)
    if path == getattr(tokenizer, "name_or_path", None):
        return
    try:
        model_tokenizer = tokenizer_of_model(name_or_path)
    except Exception:  # the library raises a dozen kinds: there is none to compare with
        return
    if knows_no_words(model_tokenizer):
        return
    model_tokens, tokens = model_tokenizer.get_vocab(), tokenizer.get_vocab()
    same = sum(model_tokens.get(token) == number for token, number in tokens.items())
    if same < len(tokens) / 2:
        raise ValueError(
            f"only {same:,} of the tokenizer's {len(tokens):,} tokens have the ids that the model {name_or_path!r} was "
            f"trained with; set data.tokenizer={path}, or model.new_vocabulary=true, which fits the embeddings"
        )


@takes_settings(Pretrained, part="adapter")
def load_encoder(
    name_or_path: str,
    config: Settings,
    tokenizer: PreTrainedTokenizerBase | None,
    head: Head = MASKED_LM,
    *,
    new_vocabulary: bool,
    settings: Pretrained,
) -> PreTrainedModel:
    """Loads an encoder with its weights and the objective's head from a hub name, a folder, or a run folder.

    `new_vocabulary` fits the embeddings to the tokenizer (`runner.models.initial.vocabulary`). If `settings.adapter` is
    set, the encoder's weights are frozen, and low-rank matrices are trained beside them as the other `adapter_`
    settings say (`runner.models.adapters`). If the folder holds only an adapter, its base model is merged with it first.

    Raises:
        ValueError: the model cannot be loaded or is quantized, its vocabulary is too small for the tokenizer or has other
            tokens, or the adapter settings do not fit the model.
    """
    path = model_folder(name_or_path)
    if settings.adapter is not None:
        import_peft()  # soon, as weights may be large
        if settings.adapter_export == "separate":
            check_separate(path, new_vocabulary)
    try:
        original = from_pretrained(AutoConfig, path)
    except Exception as error:  # of the hub, json or the config
        raise cannot_load(name_or_path, error) from error
    if quantization := getattr(original, "quantization_config", None):
        method = dict(quantization).get("quant_method") if isinstance(quantization, Mapping) else quantization
        raise ValueError(
            f"the model {name_or_path!r} is quantized (quantization_config: {method} in its config.json), and such "
            "weights cannot be trained: name the unquantized model that it was made from"
        )
    changes = checked_fields(config, original)
    lacks_padding = original.get_text_config() is original and getattr(original, "pad_token_id", 0) is None
    if tokenizer is not None and lacks_padding:
        changes = {"pad_token_id": tokenizer.pad_token_id, **changes}  # heads of decoders look for it in rows
    try:
        model = head.of(original).load(path, original, changes)
    except CustomCodeRefused as error:
        raise cannot_load(name_or_path, error) from error
    if new_vocabulary and tokenizer is not None:
        counts = fit_vocabulary(model, tokenizer_of_model(name_or_path), tokenizer)
        model.config.update(special_tokens(tokenizer, model.config))
        log.info("a new vocabulary: %s", ", ".join(f"{count:,} {kind}" for kind, count in counts.items()))
    elif tokenizer is not None:
        check_same_tokens(name_or_path, tokenizer)
    vocab_size = model.config.get_text_config().vocab_size
    if tokenizer is not None and vocab_size < len(tokenizer):
        raise ValueError(
            f"the model {name_or_path!r} has a vocabulary of {vocab_size}, too small for the tokenizer's "
            f"{len(tokenizer)}; use the tokenizer of that model, data.tokenizer={path}, or model.new_vocabulary=true"
        )
    if settings.adapter is not None:
        adapt(model, settings, path, list(head_inside_body(model).values()))
    return _train_borrowed(model, tokenizer)


def trained_labels(name_or_path: str) -> int | None:
    """Returns the number of labels in the config of a model; None if it cannot be read."""
    try:
        return int(from_pretrained(AutoConfig, model_folder(name_or_path)).num_labels)
    except (OSError, ValueError):
        return None


def special_tokens(
    tokenizer: PreTrainedTokenizerBase, config: PretrainedConfig | None = None
) -> dict[str, int | None]:
    """Returns vocabulary size and special token ids by config field; `mask_token_id` only if `config` has this field."""
    names = ["pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"]
    names += ["mask_token_id"] if hasattr(config, "mask_token_id") else []
    return {"vocab_size": len(tokenizer), **{name: getattr(tokenizer, name, None) for name in names}}


def special_ids_within(config: Settings, base: PretrainedConfig) -> dict[str, None]:
    """Maps fields of an architecture's special tokens to None, to unset those with ids beyond the config's `vocab_size`.

    Raises ValueError if `config` itself sets an id beyond `vocab_size`.
    """
    size, ids = int(config["vocab_size"]), {n: v for n, v in vars(base).items() if n.endswith("_token_id")}
    beyond = [n for n, v in {**ids, **config}.items() if n in ids and isinstance(v, int) and v >= size]
    for name in beyond:
        if name in config:
            raise ValueError(
                f"model.config.{name}={config[name]} is beyond the vocabulary: expected 0 to {size - 1}, or a larger "
                "model.config.vocab_size"
            )
    return {name: None for name in beyond if _may_be_unset(base, name)}


def _may_be_unset(config: object, name: str) -> bool:
    """Whether a field may be None: some config classes refuse None even for ids that no part of the model reads."""
    try:
        type(config)(**{name: None})
    except Exception:  # of the library that checks the fields
        return False
    return True


def checked_fields(changes: Settings, config: PretrainedConfig, where: str = "model.config") -> Settings:
    """Returns `changes` of the setting `where`; raises ValueError for a dtype, and for a field that the config lacks."""
    for name in changes:
        if name in ("dtype", "torch_dtype"):
            raise ValueError(f"{where}.{name}: trainer.precision decides the type of weights; leave it out")
        if not hasattr(config, name):
            raise ValueError(
                f"{where}.{name}: {type(config).__name__} has no such field"
                + suggest(name, json.loads(config.to_json_string(False)))
            )
    return changes
