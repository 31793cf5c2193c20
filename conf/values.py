"""What a setting may be, where its type does not say so: choices, and numbers within bounds.

`runner.checks` holds a config against it before anything heavy is imported; `--info` and the JSON schema show it.
"""

from typing import Any, NamedTuple


class Choice(NamedTuple):
    """One of a few words."""

    words: tuple[str, ...]
    numbers: bool = False
    """Whether a whole number does as well."""

    def problem(self, value: Any) -> str | None:
        """What is wrong with a value, in words; None where nothing is."""
        if value in self.words or (self.numbers and isinstance(value, int)):
            return None
        return f"there are: {', '.join(self.words)}"

    def __str__(self) -> str:
        return " | ".join(self.words) + (" | a number" if self.numbers else "")


class Bounds(NamedTuple):
    """A number from `low` to `high`; `open_low` and `open_high` leave the bound itself out."""

    low: float
    high: float = float("inf")
    open_low: bool = False
    open_high: bool = False
    whole: bool = False

    def problem(self, value: Any) -> str | None:
        """What is wrong with a value, in words; None where nothing is."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"expected {self}"
        too_low = value <= self.low if self.open_low else value < self.low
        too_high = value >= self.high if self.open_high else value > self.high
        if too_low or too_high or value != value or (self.whole and value != int(value)):
            return f"it must be {self}"
        return None

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        if self.high == float("inf"):
            return f"{kind} above {self.low:g}" if self.open_low else f"{kind}, {self.low:g} or more"
        brackets = "(["[not self.open_low], ")]"[not self.open_high]
        return f"{kind} in {brackets[0]}{self.low:g}, {self.high:g}{brackets[1]}"


COUNT, AT_LEAST_0, WHOLE_FROM_0 = Bounds(1, whole=True), Bounds(0), Bounds(0, whole=True)
POSITIVE, SHARE = Bounds(0, open_low=True), Bounds(0, 1)
KINDS = Choice(("constant", "linear", "cosine", "exponential", "inverse_sqrt", "inverse-sqrt"))

ALLOWED: dict[str, Choice | Bounds] = {
    "mode": Choice(("train", "inspect")),
    "data.task": Choice(("classification", "token_classification", "question_answering")),
    "data.text_unit": Choice(("paragraph", "line", "file")),
    "data.tokenizer_kind": Choice(("wordpiece", "bpe")),
    "data.vocab_size": COUNT,
    "data.max_length": Bounds(3, whole=True),
    "data.long_documents": Choice(("truncate", "sentences", "tokens")),
    "data.validation_documents": AT_LEAST_0,
    "data.problem_type": Choice(("auto", "single_label", "multi_label", "regression")),
    "data.format": Choice(("auto", "csv", "tsv", "jsonl", "json", "parquet", "conll", "conllu", "squad")),
    "data.doc_stride": WHOLE_FROM_0,
    "data.too_long": Choice(("error", "truncate", "skip")),
    "data.max_undecodable": WHOLE_FROM_0,
    "data.layout": Choice(("auto", "packed", "padded", "single")),
    "data.micro_batch_tokens": COUNT,
    "data.micro_batch_size": COUNT,
    "data.num_workers": WHOLE_FROM_0,
    "objective.mlm_probability": Bounds(0, 1, open_low=True),
    "objective.decoder_masking": SHARE,
    "objective.encoder_mlm_probability": SHARE,
    "objective.encoder_loss_weight": AT_LEAST_0,
    "objective.pooling": Choice(("cls", "mean")),
    "objective.num_steps": Bounds(2, whole=True),
    "objective.sampling_eps": Bounds(0, 1, open_low=True, open_high=True),
    "objective.noise_eps": Bounds(0, 1, open_high=True),
    "objective.min_masked": COUNT,
    "objective.max_masked": COUNT,
    "objective.evaluation_copies": COUNT,
    "objective.max_answer_tokens": COUNT,
    "sampler.global_batch_size": COUNT,
    "sampler.pool_batches": COUNT,
    "sampler.image_patches": WHOLE_FROM_0,
    "model.hidden_size": COUNT,
    "model.num_hidden_layers": COUNT,
    "model.num_attention_heads": COUNT,
    "model.intermediate_size": COUNT,
    "model.max_position_embeddings": COUNT,
    "model.dropout": Bounds(0, 1, open_high=True),
    "module.max_grad_norm": AT_LEAST_0,
    "optimizer.lr": AT_LEAST_0,
    "optimizer.weight_decay": AT_LEAST_0,
    "optimizer.layer_decay": Bounds(0, 1, open_low=True),
    "scheduler.warmup_kind": KINDS,
    "scheduler.training_kind": KINDS,
    "scheduler.cooldown_kind": KINDS,
    "scheduler.warmup_steps": AT_LEAST_0,
    "scheduler.training_steps": Bounds(-1),
    "scheduler.cooldown_steps": AT_LEAST_0,
    "trainer.max_steps": Bounds(-1, whole=True),
    "trainer.max_epochs": POSITIVE,
    "trainer.accelerator": Choice(("auto", "cpu", "gpu", "cuda", "mps")),
    "trainer.num_nodes": COUNT,
    "trainer.strategy": Choice(("auto", "ddp", "fsdp")),
    "trainer.tensor_parallel_size": COUNT,
    "trainer.precision": Choice(
        ("auto", "32-true", "32", "bf16-mixed", "16-mixed", "bf16-true", "16-true", "64-true", "64")
    ),
    "trainer.validate_every": WHOLE_FROM_0,
    "trainer.validation_batches": AT_LEAST_0,
    "trainer.log_every": COUNT,
    "checkpoint.every_steps": WHOLE_FROM_0,
    "checkpoint.every_minutes": AT_LEAST_0,
    "checkpoint.keep_last": COUNT,
    "checkpoint.mode": Choice(("min", "max")),
    "callback.throughput.window": COUNT,
    "callback.throughput.peak_tflops": POSITIVE,
    "callback.progress.refresh_per_second": POSITIVE,
    "callback.progress.seconds_per_line": POSITIVE,
    "callback.divergence.factor": Bounds(1, open_low=True),
    "callback.divergence.window": COUNT,
    "callback.early_stopping.patience": COUNT,
    "callback.early_stopping.min_delta": AT_LEAST_0,
    "callback.early_stopping.mode": Choice(("min", "max")),
    "logger.wandb.offline": Choice(("auto", "true", "false")),
}
"""By the setting's name; none (null) is allowed wherever the setting's type allows it."""
