"""Pretraining with a plain `lightning.Trainer`."""

from typing import Any, Literal, cast

import torch
from torch import Tensor
from transformers import AutoConfig, PreTrainedModel

from iolaus.conf.values import suggest
from iolaus.runner.data.micro_batch import MicroBatch
from iolaus.runner.data.text.tokenizer import load_tokenizer
from iolaus.runner.models import build_encoder
from iolaus.runner.modules.automatic import AutomaticModule, Batch
from iolaus.runner.objectives import get_collator_cls
from iolaus.runner.objectives.layout import IGNORED
from iolaus.runner.optim import get_scheduler
from iolaus.runner.run.model_folder import model_folder

OBJECTIVES = ("mlm", "enhanced_mlm", "diffusion")

WarmupKind = Literal["constant", "linear", "cosine", "exponential"]
CooldownKind = Literal["constant", "linear", "cosine", "exponential", "inverse-sqrt"]

SPECIAL_IDS = (
    "pad_token_id",
    "mask_token_id",
    "bos_token_id",
    "eos_token_id",
    "cls_token_id",
    "sep_token_id",
)


class PretrainingModule(AutomaticModule):
    """Trains an encoder with random weights on one of the pretraining objectives.

    `model_config_kwargs`: `architecture` (bert if it is not given) and fields of its config class; those left out keep
    their defaults there, but without dropout. Vocabulary and special tokens are those of the tokenizer; without one
    `vocab_size` must be given, and for diffusion `mask_token_id`. `objective_kwargs` are settings of the objective that
    concern its model, such as `pooling` of enhanced_mlm; those of masking belong to the data module's collator.

    Example:
        >>> sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
        >>> module = PretrainingModule(model_config_kwargs={**sizes, "vocab_size": 100}, compile_model=False)
        >>> ids = torch.tensor([[7, 4, 9]])
        >>> batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.tensor([[-100, 8, -100]])}
        >>> bool(module.training_step(batch, 0) > 0)
        True
    """

    def __init__(
        self,
        learning_rate: float | None = 1e-5,
        weight_decay: float | None = 1e-3,
        compile_model: bool | None = True,
        pretrained_tokenizer_name_or_path: str | None = None,
        optimizer_class: str | None = "adamw",
        optimizer_quantized: bool = False,
        optimizer_kwargs: dict[str, Any] | None = None,
        scheduler_warmup_kind: WarmupKind | None = "linear",
        scheduler_warmup_steps: int | None = 1000,
        scheduler_warmup_decay: float = 0.1,
        scheduler_training_kind: WarmupKind = "constant",
        scheduler_training_steps: int = -1,
        scheduler_training_decay: float = 1.0,
        scheduler_cooldown_kind: CooldownKind = "linear",
        scheduler_cooldown_steps: int = 0,
        scheduler_cooldown_decay: float = 0.0,
        objective: Literal["mlm", "enhanced_mlm", "diffusion"] = "mlm",
        gradient_checkpointing: bool = False,
        model_config_kwargs: dict[str, Any] | None = None,
        model_kwargs: dict[str, Any] | None = None,
        objective_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if objective not in OBJECTIVES:
            raise ValueError(
                f"objective={objective!r}; there are: {', '.join(OBJECTIVES)}"
                + suggest(objective, OBJECTIVES)
            )
        tokenizer = None
        if pretrained_tokenizer_name_or_path is not None:
            tokenizer = load_tokenizer(model_folder(pretrained_tokenizer_name_or_path))
        pretrained = new_encoder(model_config_kwargs or {}, tokenizer, model_kwargs or {})
        collator = _collator(
            objective, pretrained, tokenizer, model_config_kwargs or {}, objective_kwargs or {}
        )
        super().__init__(
            collator.task_model(pretrained),
            compile_model=bool(compile_model),
            gradient_checkpointing=gradient_checkpointing,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
            optimizer_quantized=optimizer_quantized,
            tokenizer=tokenizer,
        )
        self.save_hyperparameters()
        self.collator = collator
        self.warmup = {
            "warmup_kind": scheduler_warmup_kind or "linear",
            "warmup_steps": (scheduler_warmup_steps or 0) if scheduler_warmup_kind else 0,
            "warmup_decay": scheduler_warmup_decay,
        }
        self.training_phase = {
            "training_kind": scheduler_training_kind,
            "training_steps": scheduler_training_steps,
            "training_decay": scheduler_training_decay,
        }
        self.cooldown = {
            "cooldown_kind": scheduler_cooldown_kind,
            "cooldown_steps": scheduler_cooldown_steps,
            "cooldown_decay": scheduler_cooldown_decay,
        }

    def configure_optimizers(self) -> Any:
        """The optimizer, and the three phases of its rate; without a length of its own training lasts to the cool-down.

        Raises:
            ValueError: a cool-down, or a training phase that falls, of which nobody knows the end.
        """
        optimizer = self.make_optimizer()
        phases: dict[str, Any] = {**self.warmup, **self.training_phase, **self.cooldown}
        endless = phases["training_kind"] in ("constant", "exponential") and not phases["cooldown_steps"]
        if phases["training_steps"] == -1 and not endless and (steps := self.num_steps()) is not None:
            phases["max_steps"] = steps
        scheduler = get_scheduler(optimizer, **phases)
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]

    def micro_batch(self, batch: Batch) -> MicroBatch:
        """The batch with its targets one after the other; seeds of an enhanced decoder that it lacks are drawn."""
        if self.hparams["objective"] == "enhanced_mlm" and "row_seeds" not in batch:
            made = self.collator.compute_labels({n: v for n, v in batch.items() if n != "labels"})
            batch = {**batch, **{n: _moved(v, batch) for n, v in made.items() if n not in batch}}
        labels = batch["labels"].flatten()
        positions = (labels != IGNORED).nonzero()[:, 0]
        micro_batch = cast(MicroBatch, {"weight": float(len(positions)), **batch})
        micro_batch |= {"target_positions": positions, "targets": labels[positions]}
        if "target_weights" in batch:
            micro_batch["target_weights"] = batch["target_weights"].flatten()[positions]
        return micro_batch

    def on_validation_start(self) -> None:
        """Starts the sums over the validation sets, with the weights to evaluate."""
        self._sums: dict[int, dict[str, Tensor]] = {}
        self.begin_evaluation()

    def validation_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> Tensor:
        """The mean loss per target of a batch, which is added to the sums of its set."""
        loss, micro_batch, output = self._mean_loss(batch)
        if self.in_loop:
            sums = self._sums.setdefault(dataloader_idx, {})
            weight = torch.as_tensor(micro_batch["weight"], dtype=torch.float64)
            for name, value in {**output, "weight": weight}.items():
                sums[name] = sums.get(name, 0) + value.detach().double().to(loss.device)
        return loss

    def on_validation_epoch_end(self) -> None:
        """Logs the model's figures (loss, accuracy, ...) of every set, over all ranks."""
        for number, name in enumerate(self.set_names("val")):
            if number in self._sums:
                totals = self.sum_over_ranks({n: float(v) for n, v in self._sums[number].items()})
                figures = self.model.figures(totals)
                self.publish({f"{name}/{n}": value for n, value in figures.items()})


def new_encoder(fields: dict[str, Any], tokenizer: Any, model_kwargs: dict[str, Any]) -> PreTrainedModel:
    """An encoder with random weights: sizes as `fields` say, else as its architecture's config class has them.

    Raises:
        ValueError: an unknown architecture or field, or neither a tokenizer nor `vocab_size`.
    """
    fields = {name: value for name, value in fields.items() if name != "mask_token_id"}
    architecture = fields.pop("architecture", "bert")
    try:
        known = AutoConfig.for_model(architecture)
    except ValueError as error:
        raise ValueError(f"architecture={architecture!r} is none of transformers") from error
    hidden = fields.pop("hidden_size", known.hidden_size)
    return build_encoder(
        architecture=architecture,
        hidden_size=hidden,
        num_hidden_layers=fields.pop("num_hidden_layers", known.num_hidden_layers),
        num_attention_heads=fields.pop("num_attention_heads", known.num_attention_heads),
        intermediate_size=fields.pop("intermediate_size", getattr(known, "intermediate_size", 4 * hidden)),
        max_position_embeddings=fields.pop(
            "max_position_embeddings", getattr(known, "max_position_embeddings", 512)
        ),
        dropout=fields.pop("dropout", 0.0),
        config={**fields.pop("config", {}), **fields},
        tokenizer=tokenizer,
        model_kwargs=model_kwargs,
    )


def _collator(
    objective: str,
    pretrained: PreTrainedModel,
    tokenizer: Any,
    fields: dict[str, Any],
    objective_kwargs: dict[str, Any],
) -> Any:
    """The objective's collator over the model's vocabulary, which knows what the model is trained as."""
    config = pretrained.config.get_text_config()
    if tokenizer is not None:
        ids = {"pad_token_id": tokenizer.pad_token_id, "mask_token_id": tokenizer.mask_token_id}
        special = tokenizer.all_special_ids
        pretrained.config.mask_token_id = tokenizer.mask_token_id
    else:
        if objective == "diffusion" and fields.get("mask_token_id") is None:
            raise ValueError(
                "objective=diffusion needs to know the mask: give pretrained_tokenizer_name_or_path, or mask_token_id "
                "among model_config_kwargs"
            )
        pad = config.pad_token_id or 0
        ids = {"pad_token_id": pad, "mask_token_id": fields.get("mask_token_id", pad)}
        special = [fields[name] for name in SPECIAL_IDS if fields.get(name) is not None]
    longest = getattr(config, "max_position_embeddings", None) or 512
    return get_collator_cls(objective)(
        **ids,
        vocab_size=config.vocab_size,
        special_token_ids=special,
        max_sequence_length=longest,
        **objective_kwargs,
    )


def _moved(value: Any, batch: Batch) -> Any:
    return value.to(batch["input_ids"].device) if isinstance(value, Tensor) else value
