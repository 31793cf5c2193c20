"""Pretraining with a plain `lightning.Trainer`."""

from typing import Any, Literal, cast

from lightning.pytorch.utilities import move_data_to_device
from transformers import AutoConfig, PreTrainedModel, PreTrainedTokenizerBase

from tiryns.conf.values import Settings, check_choice
from tiryns.runner.data.micro_batch import Batch, MicroBatch, tokenizer_arguments
from tiryns.runner.data.text.tokenizer import load_tokenizer
from tiryns.runner.evaluation.totals import add_sums
from tiryns.runner.loaders.pretraining import OBJECTIVES
from tiryns.runner.models import build_encoder
from tiryns.runner.models.architectures.registered import ARCHITECTURES, register
from tiryns.runner.models.encoder import SIZES
from tiryns.runner.models.task_model import Output
from tiryns.runner.modules.automatic.base import AutomaticModule
from tiryns.runner.objectives import get_collator_cls
from tiryns.runner.objectives.rows import IGNORED
from tiryns.runner.optim import get_scheduler
from tiryns.runner.run.model_folder import model_folder

WarmupKind = Literal["constant", "linear", "cosine", "exponential"]
CooldownKind = Literal["constant", "linear", "cosine", "exponential", "inverse-sqrt"]


class PretrainingModule(AutomaticModule):
    """Trains an encoder with random weights on one of the pretraining objectives.

    `model_config_kwargs`: `architecture` (default `bert`) and fields of its config class, whose defaults hold except for
    dropout, which is 0. Vocabulary and special tokens come from the tokenizer. Without a tokenizer, `vocab_size` is
    required; `diffusion` also requires `mask_token_id`. `objective_kwargs`: settings of the objective for its model, such
    as `pooling` of `enhanced_mlm`; settings of masking belong to the data module's collator.

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
        optimizer_kwargs: Settings | None = None,
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
        model_config_kwargs: Settings | None = None,
        model_kwargs: Settings | None = None,
        objective_kwargs: Settings | None = None,
    ) -> None:
        check_choice("objective", objective, OBJECTIVES)
        tokenizer = None
        if pretrained_tokenizer_name_or_path is not None:
            tokenizer = load_tokenizer(model_folder(pretrained_tokenizer_name_or_path))
        fields = model_config_kwargs or {}
        encoder = new_encoder(fields, tokenizer, model_kwargs or {})
        arguments = _collator_arguments(objective, encoder, tokenizer, fields)
        collator = get_collator_cls(objective)(**arguments, **(objective_kwargs or {}))
        model = collator.task_model(encoder)
        optimizer = (optimizer_class, learning_rate, weight_decay, optimizer_kwargs, optimizer_quantized)
        super().__init__(model, tokenizer, bool(compile_model), gradient_checkpointing, *optimizer)
        self.save_hyperparameters()
        self.objective, self.collator = objective, collator
        pairs = ((name.partition("scheduler_")[2], value) for name, value in self.hparams.items())
        self.phases = {name: value for name, value in pairs if name}
        steps = (scheduler_warmup_steps or 0) if scheduler_warmup_kind else 0
        self.phases |= {"warmup_kind": scheduler_warmup_kind or "linear", "warmup_steps": steps}

    def configure_optimizers(self) -> Any:
        """Returns the optimizer and a three-phase schedule; `training_steps=-1` trains until the cool-down begins.

        Raises ValueError if the run's end is unknown and there is a cool-down or a training phase that decays.
        """
        optimizer = self.make_optimizer()
        phases = dict(self.phases)
        endless = phases["training_kind"] in ("constant", "exponential") and not phases["cooldown_steps"]
        if phases["training_steps"] == -1 and not endless and (steps := self.num_steps()) is not None:
            phases["max_steps"] = steps
        scheduler = get_scheduler(optimizer, **phases)
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]

    def micro_batch(self, batch: Batch) -> MicroBatch:
        """Returns the batch with its targets in one flat tensor; draws the seeds of an enhanced decoder if missing."""
        if self.objective == "enhanced_mlm" and "row_seeds" not in batch:
            fields = self.collator.compute_labels({n: v for n, v in batch.items() if n != "labels"})
            batch = {**move_data_to_device(fields, batch["input_ids"].device), **batch}
        labels = batch["labels"].flatten()
        positions = (labels != IGNORED).nonzero()[:, 0]
        micro_batch = cast(MicroBatch, {"weight": float(len(positions)), **batch})
        micro_batch |= {"target_positions": positions, "targets": labels[positions]}
        if "target_weights" in batch:
            micro_batch["target_weights"] = batch["target_weights"].flatten()[positions]
        return micro_batch

    def add_batch(self, number: int, batch_idx: int, micro_batch: MicroBatch, output: Output) -> None:
        add_sums(self._sets.setdefault(number, {}), micro_batch, output)

    def set_figures(self, number: int) -> dict[str, float]:
        return self.model.figures(self.joined_sums(self._sets[number]))


def new_encoder(fields: Settings, tokenizer: object, model_kwargs: Settings) -> PreTrainedModel:
    """Returns an encoder with random weights; sizes that `fields` lacks are the defaults of its config class.

    Raises ValueError for an unknown architecture or field, or if both a tokenizer and `vocab_size` are missing.
    """
    fields = {name: value for name, value in fields.items() if name != "mask_token_id"}
    architecture = fields.pop("architecture", "bert")
    if architecture in ARCHITECTURES:
        register()
    try:
        defaults = AutoConfig.for_model(architecture)
    except ValueError as error:
        raise ValueError(f"architecture={architecture!r} is unknown to transformers") from error
    hidden = fields.get("hidden_size", defaults.hidden_size)
    usual = {"intermediate_size": 4 * hidden, "max_position_embeddings": 512}
    sizes = {
        name: fields.pop(name, getattr(defaults, name, usual.get(name)))
        for name in (*SIZES, "max_position_embeddings")
    }
    return build_encoder(
        architecture=architecture, **sizes, dropout=fields.pop("dropout", 0.0),
        config={**fields.pop("config", {}), **fields}, init="default", tiled_from=None, tokenizer=tokenizer,
        model_kwargs=model_kwargs,
    )  # fmt: skip


def _collator_arguments(
    objective: str, encoder: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None, fields: Settings
) -> Settings:
    """Returns the collator's arguments that follow from the tokenizer, else from the fields of the model's config."""
    config, arguments = encoder.config.get_text_config(), Settings()
    if tokenizer is not None:
        arguments |= tokenizer_arguments(tokenizer)
        encoder.config.mask_token_id = tokenizer.mask_token_id
    else:
        if objective == "diffusion" and fields.get("mask_token_id") is None:
            raise ValueError(
                "objective=diffusion needs to know the mask: give pretrained_tokenizer_name_or_path, or mask_token_id "
                "among model_config_kwargs"
            )
        pad = config.pad_token_id or 0
        arguments |= {"pad_token_id": pad, "mask_token_id": fields.get("mask_token_id", pad)}
        special = (fields.get(f"{role}_token_id") for role in ("pad", "mask", "bos", "eos", "cls", "sep"))
        arguments["special_token_ids"] = [number for number in special if number is not None]
    longest = getattr(config, "max_position_embeddings", None) or 512
    return {**arguments, "vocab_size": config.vocab_size, "max_sequence_length": longest}
