"""The base classes of objectives. Letters in shapes: B or D samples, T tokens of a row, N tokens of all samples."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast, overload

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

import tiryns.conf  # noqa: F401  registers the options
from tiryns.conf.registry import OPTIONS
from tiryns.conf.values import check_choice, rules_of, suggest
from tiryns.runner.config.calling import parameters
from tiryns.runner.config.targets import locate
from tiryns.runner.data.micro_batch import Batch, FlatSamples, MicroBatch, TaskArguments
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.objectives import rows as layout
from tiryns.runner.objectives.rows import IGNORED, Places, Samples, Shape, lay_out, spread
from tiryns.runner.protocols import RunObjective


class Collator(RunObjective, ABC):
    """Makes a batch of tokenised samples with the targets of an objective: the `collate_fn` of a `DataLoader`.

    Samples have `input_ids` and optionally an `attention_mask`, lists or tensors of any length. A subclass defines the
    targets by `compute_labels`; a `label_column` becomes `labels`. A sample's integer `key` seeds its random choices;
    without a key torch's default generator does. A run calls the collator with `FlatSamples` and gets a `MicroBatch`.

    Example:
        >>> class Copy(Collator):
        ...     def compute_labels(self, tokenized):
        ...         return {"labels": tokenized["input_ids"].masked_fill(tokenized["attention_mask"] == 0, -100)}
        >>> batch = Copy(pad_token_id=0, mask_token_id=4, vocab_size=50)([{"input_ids": [7, 8]}, {"input_ids": [9]}])
        >>> batch["input_ids"].tolist(), batch["labels"].tolist()
        ([[7, 8], [9, 0]], [[7, 8], [9, -100]])
    """

    packs = False
    """Whether the objective's model takes packed rows as well."""

    nats_per_token: ClassVar[bool] = False
    """Whether the validation loss is in nats per token of the text: it is then compared with the unigram entropy and
    reported in bits per byte. Not inherited, as a subclass may add to the loss."""

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        cls.nats_per_token = bool(vars(cls).get("nats_per_token"))

    auto: ClassVar[str | None] = None
    """The class of transformers that gives a model the head to train, such as `AutoModelForTokenClassification`; None
    keeps the model's own head."""

    predicts_with: ClassVar[tuple[str, ...]] = ()
    """The settings that predictions depend on."""

    new_head = False
    """Whether a new head replaces the head that the model was trained with."""

    columns: tuple[str, ...] = ()
    """Columns of the samples that `compute_labels` reads besides the tokens; each has a value for each token."""

    options: Any = None
    """The settings of the objective, where `takes_options` gives them."""

    def __init__(
        self,
        pad_token_id: int,
        mask_token_id: int,
        vocab_size: int,
        text_column: str = "text",
        label_column: str | None = None,
        max_sequence_length: int = 1024,
        special_token_ids: Sequence[int] = (),
        extra_columns: Sequence[str] = (),
        tokenizer: object = None,
        token_counts: object = None,
        label_counts: object = None,
        **foreign: object,
    ) -> None:
        """`special_token_ids`, padding and mask are never targets, and never random replacements of a target.

        `extra_columns` such as `token_type_ids` are copied into the batch; each has a value for each token of a sample.
        `tokenizer` and both counts are for subclasses that need them. Raises ValueError for `foreign` arguments, which
        are unknown or belong to data for another objective, and for options that are not allowed.
        """
        name = type(self).__name__
        for wrong in foreign.keys() - TaskArguments.__annotations__.keys():
            raise ValueError(f"{name} has no argument {wrong!r}" + suggest(wrong, parameters(type(self))[0]))
        if foreign:
            raise ValueError(
                f"{name} does not train on this data, which comes with {', '.join(foreign)}; "
                "choose an objective that fits the data, such as objective=classification for data=classification"
            )
        for role, token in (("mask", mask_token_id), ("pad", pad_token_id)):
            if not 0 <= token < vocab_size:
                raise ValueError(f"{role}_token_id {token} is not in the vocabulary of {vocab_size}")
        self.pad_token_id, self.mask_token_id, self.vocab_size = pad_token_id, mask_token_id, vocab_size
        self.text_column, self.label_column = text_column, label_column
        self.max_sequence_length, self.extra_columns = max_sequence_length, tuple(extra_columns)
        self.is_special = np.zeros(vocab_size, dtype=bool)
        self.is_special[[*special_token_ids, pad_token_id, mask_token_id]] = True
        self.ordinary_ids = np.flatnonzero(~self.is_special)
        for name, rules in rules_of(self.options.__class__).items():
            value, rule = getattr(self.options, name), rules.get("allowed")
            if rule and value is not None and rule.problem(value):
                raise ValueError(f"objective.{name} must be {rule}, not {value!r}")

    @abstractmethod
    def compute_labels(self, tokenized: Batch) -> Batch:
        """Returns the model's `input_ids` and the targets, for padded rows [B, T]; does not change `tokenized`."""

    @overload
    def __call__(self, samples: Samples) -> Batch: ...

    @overload
    def __call__(self, samples: Mapping[str, Any]) -> MicroBatch: ...

    def __call__(self, samples: Any) -> Batch | MicroBatch:
        """Returns a batch of listed samples, int64 [B, T], T up to `max_sequence_length`; a micro-batch of flat samples.

        Raises ValueError for samples that cannot be laid out, naming the first of them.
        """
        if isinstance(samples, Mapping) and "lengths" in samples:
            return self.micro_batch(cast(FlatSamples, samples))
        if isinstance(samples, Mapping):
            raise ValueError(
                f"expected a list of samples, not a mapping of {', '.join(samples)}; "
                "compute_labels takes rows that are padded already"
            )
        return self.rows_of(samples)

    def rows_of(self, samples: Samples) -> Batch:
        """Returns the batch of a list of samples, padded to the longest of them, with its targets."""
        read = dict.fromkeys((*self.columns, *self.extra_columns))
        rows = layout.pad_samples(samples, self.pad_token_id, self.max_sequence_length, list(read))
        self.check_tokens(rows["input_ids"])
        if self.label_column is not None:
            rows |= self.labels_of_column(samples, rows["input_ids"].shape[1])
        with_labels = self.compute_labels(dict(rows))
        names = ("input_ids", "attention_mask", "labels", *self.extra_columns)
        working_columns = {"keys", *self.columns} - {*self.extra_columns}
        batch = {name: value for name, value in rows.items() if name in names}
        return batch | {name: value for name, value in with_labels.items() if name not in working_columns}

    def check_tokens(self, ids: Tensor) -> None:
        """Raises ValueError for a token outside the vocabulary."""
        for token in map(int, torch.aminmax(ids)) if ids.numel() else ():
            if not 0 <= token < self.vocab_size:
                raise ValueError(f"token {token} is not in the vocabulary of {self.vocab_size}")

    def labels_of_column(self, samples: Samples, width: int) -> Batch:
        """Returns `labels` from the label column of the samples: int64 or float32 [B], or [B, T] padded with -100."""
        assert self.label_column is not None
        values = layout.column_of(samples, self.label_column)
        lengths = [len(sample["input_ids"]) for sample in samples]
        return {"labels": layout.label_tensor(values, lengths, width)}

    def flat_labels(self, tokenized: FlatSamples) -> FlatSamples:
        """Returns the model's `input_ids` [N] and `labels` [N], -100 for no target; by default from `compute_labels`.

        A subclass may add `target_weights` [N] float32, the factor of each target's loss, and fields for `extra_fields`.
        """
        places, shape, extent = lay_out(tokenized["lengths"].astype(np.int64), packed=False)
        rows = {
            "input_ids": spread(tokenized["input_ids"], places, shape, self.pad_token_id),
            "keys": torch.from_numpy(tokenized["keys"].view(np.int64)),
            **extent,
        }
        with_labels = {"input_ids": rows["input_ids"], **self.compute_labels(rows)}
        ids, labels = (np.asarray(with_labels[name]).reshape(-1)[places] for name in ("input_ids", "labels"))
        return {"input_ids": ids, "labels": labels}

    def with_targets(self, tokenized: FlatSamples) -> FlatSamples:
        """Returns flat samples with their targets; fillers have no targets."""
        samples: FlatSamples = {**tokenized, **self.flat_labels(tokenized)}
        if tokenized.get("filler"):
            samples["labels"] = np.full_like(samples["labels"], IGNORED)
        return samples

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """Returns the module that maps micro-batches to the sum of their losses; ValueError unless overridden."""
        raise ValueError(f"{type(self).__name__} has no task_model, which says how a run trains with it")

    def model_arguments(self) -> dict[str, Any]:
        """Returns arguments for the target of the config's `model`, such as the head to build."""
        if self.auto is None:
            return {}
        from tiryns.runner.models.head import Head

        return {"head": Head(getattr(transformers, self.auto), self.head_config(), self.new_head)}

    def head_config(self) -> dict[str, object]:
        """Returns the fields of the model's config that the head needs, such as the names of the labels."""
        return {}

    def settings(self) -> dict[str, object]:
        """Returns the objective's settings that predictions depend on."""
        return {name: getattr(self.options, name) for name in self.predicts_with}

    def weight(self, labelled: FlatSamples) -> float:
        """Returns the divisor of the sum of the losses, summed over the global batch: here the number of targets."""
        return float(np.count_nonzero(labelled["labels"] != IGNORED))

    def extra_fields(self, labelled: FlatSamples, places: Places, shape: Shape) -> MicroBatch:
        """Returns the fields that the objective adds to a micro-batch with tokens at `places` in rows of `shape`."""
        return {}

    def micro_batch(self, tokenized: FlatSamples) -> MicroBatch:
        """Returns the `MicroBatch` of D flat samples, in rows padded to the longest sample or packed into one row."""
        samples = self.with_targets(tokenized)
        lengths = samples["lengths"].astype(np.int64)
        places, shape, extent = lay_out(lengths, bool(tokenized.get("packed")))
        is_target = samples["labels"] != IGNORED
        batch: MicroBatch = {
            "input_ids": spread(samples["input_ids"], places, shape, self.pad_token_id),
            **extent,
            "labels": spread(samples["labels"], places, shape, IGNORED),
            "target_positions": torch.from_numpy(places[is_target]),
            "targets": torch.from_numpy(samples["labels"][is_target]),
            "weight": self.weight(samples),
            "sample_keys": torch.from_numpy(samples["keys"].view(np.int64)),
        }
        if "target_weights" in samples:
            batch["target_weights"] = torch.from_numpy(samples["target_weights"][is_target])
        batch |= self.extra_fields(samples, places, shape)
        counts = not tokenized.get("filler")
        low, high = layout.sample_hashes(samples) if counts else (0, 0)
        return {
            **batch, "tokens": int(lengths.sum()) if counts else 0,
            "padded_tokens": shape[0] * shape[1] if counts else 0,
            "token_pairs": int((lengths**2).sum()) if counts else 0, "hash_low": low, "hash_high": high,
        }  # fmt: skip


class FlatCollator(Collator):
    """A collator that computes targets on flat tokens, for padded and packed rows alike.

    Example:
        >>> class Copy(FlatCollator):
        ...     def flat_labels(self, tokenized):
        ...         return {"input_ids": tokenized["input_ids"], "labels": tokenized["input_ids"]}
        >>> batch = Copy(pad_token_id=0, mask_token_id=4, vocab_size=50)([{"input_ids": [7, 8]}, {"input_ids": [9]}])
        >>> batch["labels"].tolist()
        [[7, 8], [9, -100]]
    """

    @abstractmethod
    def flat_labels(self, tokenized: FlatSamples) -> FlatSamples:
        """Returns the model's `input_ids` [N] and `labels` [N]; see `Collator.flat_labels`."""

    def compute_labels(self, tokenized: Batch) -> Batch:
        """Returns the results of `flat_labels` for padded rows [B, T]. Raises ValueError for an unknown token."""
        ids = torch.as_tensor(tokenized["input_ids"])
        self.check_tokens(ids)
        mask = tokenized.get("attention_mask")
        real = torch.as_tensor(torch.ones_like(ids) if mask is None else mask).cpu().numpy() > 0
        flat = self.flat_samples(tokenized, real)
        return self.rows({**flat, **self.flat_labels(flat)}, np.flatnonzero(real), real.shape)

    def flat_samples(self, tokenized: Batch, real: NDArray[np.bool_]) -> FlatSamples:
        """Returns the `real` [B, T] tokens of padded rows as flat samples; torch's generator draws missing keys."""
        column = tokenized.get("keys")
        tensor = torch.randint(2**62, (len(real),)) if column is None else torch.as_tensor(column).cpu()
        keys = tensor.numpy().view(np.uint64)
        return {
            "input_ids": layout.flat_column(tokenized, "input_ids", real).astype(np.int64),
            "lengths": real.sum(1).astype(np.int32),
            "keys": keys,
            "batch_key": int(np.bitwise_xor.reduce(keys)),
        }

    def rows(self, labelled: FlatSamples, places: Places, shape: Shape) -> Batch:
        """Returns `input_ids` and `labels` in rows of `shape`, with the tokens at `places`."""
        return {
            "input_ids": spread(labelled["input_ids"], places, shape, self.pad_token_id),
            "labels": spread(labelled["labels"], places, shape, IGNORED),
        }


def get_collator_cls(objective: str) -> type[Collator]:
    """Returns the collator class of an objective by its config name; ValueError, with all names, for an unknown name.

    Example:
        >>> get_collator_cls("mlm").__name__
        'MaskedLanguageModelingCollator'
    """
    options = OPTIONS["objective"]
    check_choice("objective", objective, options)
    target = locate(options[objective]._target_, "objective")  # type: ignore[attr-defined]
    assert isinstance(target, type)
    return target
