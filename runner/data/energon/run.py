"""An energon data set as the data of a run, in global batches."""

import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from tiryns.conf.data import energon as options
from tiryns.conf.trainer import check_length
from tiryns.runner.config.settings import takes_settings
from tiryns.runner.data.energon.batches import EvaluationPass, GlobalBatchStream
from tiryns.runner.data.energon.errors import ErrorCollector
from tiryns.runner.data.energon.examples import Examples, ReadConversations
from tiryns.runner.data.energon.module import EnergonMultiModalDataModule
from tiryns.runner.data.energon.source import count_samples, fingerprint, samples_in_order
from tiryns.runner.data.energon.tasks import ConversationTaskEncoder
from tiryns.runner.data.micro_batch import Collate
from tiryns.runner.data.vision.conversations import ConversationReader
from tiryns.runner.data.vision.image_text import ConversationData
from tiryns.runner.data.vision.processors import conversation_texts, find_processor
from tiryns.runner.protocols import RunData

SHARED = (
    *("path", "micro_batch_size", "global_batch_size", "num_workers", "num_val_workers", "row_length"),
    *("shuffle_buffer_size", "max_samples_per_sequence", "packing_buffer_size", "max_bad_samples"),
    "allow_dataset_code",
)
"""Settings that the data module for Lightning takes by the same name."""


class EnergonData(ConversationData, EnergonMultiModalDataModule, RunData):
    """The streams of `EnergonMultiModalDataModule` as global batches of `global_batch_size` samples (rows, if packed).

    A global batch is `micro_batch_size` x replicas x micro-batches. Its samples depend on the layout too, so a run
    resumes only in the layout of its checkpoint. Example: `tiryns experiment=vlm_shapes_energon`
    """

    serves_global_batches = True
    settings: options.Energon

    @takes_settings(options.Energon)
    def __init__(self, settings: options.Energon) -> None:
        super().__init__(
            tokenizer=None,
            image_processor=None,
            seq_length=settings.max_length,
            **{name: getattr(settings, name) for name in SHARED},
            **settings.train_options,
        )
        self.settings, self.layout = settings, settings.layout
        self.read_row = ConversationReader(settings.columns, settings.caption_prompt)
        self.validation: dict[str, Examples] = {}
        self.test: dict[str, Any] = {}
        self.prepared = False
        self.start = 0

    def prepare_data(self) -> None:
        """Checks the data set, and reads processor and validation split; raises ValueError, naming bad samples."""
        if self.prepared:
            return
        super().prepare_data()
        self.num_samples = count_samples(self.path, "train")
        self.vision = find_processor(self.settings, self._texts)
        self.tokenizer, self.image_processor = self.vision.tokenizer, self.vision.processor.image_processor
        if count_samples(self.path, "val"):
            found = samples_in_order(self.path, "val", ReadConversations(self.read_row))
            self.validation = {"validation": Examples(found, self.make_encoder())}
        self.prepared = True

    @property
    def validation_names(self) -> list[str]:  # type: ignore[override]
        """The validation set, if there is one."""
        return list(self.validation)

    @property
    def test_names(self) -> list[str]:
        """None: an energon data set has no test split."""
        return []

    def make_task_encoder(self, split: str, errors: ErrorCollector) -> ConversationTaskEncoder:
        """The encoder of samples to micro-batches of the objective."""
        return ConversationTaskEncoder(
            encoder=self.make_encoder(),
            reader=self.read_row,
            collate=self.collator,
            row_length=self.row_length,
            errors=errors,
            numbers=self.validation["validation"].numbers if split == "val" else None,
            packed=self.layout == "packed",
        )

    def connect(
        self,
        make_sampler: Callable[..., Any],
        collator: Collate,
        max_steps: int,
        max_epochs: float | None,
        seed: int,
        accept_changes: bool,
    ) -> int:
        """Takes the collator; returns the run's global batches. Raises ValueError for a sampler or no length."""
        name = getattr(getattr(make_sampler, "func", make_sampler), "__name__", "")
        if name != "Shuffled":
            raise ValueError(
                f"the sampler {name} chooses samples by their number, but data=energon is a stream that shuffles by "
                "itself (data.shuffle_buffer_size): leave the sampler at its default, or use data=image_text"
            )
        check_length(max_steps, max_epochs)
        self.collator, self.seed, self.accept_changes = collator, seed, accept_changes
        if max_steps < 0:
            if self.packing_buffer_size is not None:
                raise ValueError(
                    "how many packed rows an epoch has only reading it would tell: give trainer.max_steps instead of "
                    "trainer.max_epochs, or set data.packing_buffer_size=null"
                )
            assert max_epochs is not None
            max_steps = math.ceil(max_epochs * self.num_samples / self.global_batch_size)
        self.max_steps = max_steps
        return max_steps

    def epoch_at(self, step: int) -> float:
        """Passes over the training split so far, estimated from this replica's share."""
        return self.skip_budget.samples * self.data_parallel().size / self.num_samples

    def train_dataloader(self) -> GlobalBatchStream:
        """Global batches from the position of the checkpoint on. Raises ValueError for one that cannot be divided."""
        replicas = self.data_parallel().size
        num_micro, rest = divmod(self.global_batch_size, self.micro_batch_size * replicas)
        if rest:
            raise ValueError(
                f"a global batch of {self.global_batch_size} is not a multiple of data.micro_batch_size="
                f"{self.micro_batch_size} x {replicas} ranks; change sampler.global_batch_size or one of them"
            )
        return GlobalBatchStream(self.stream(), num_micro, self.start, self.max_steps)

    def val_dataloader(self) -> list[EvaluationPass]:
        """One pass over the validation split, over all ranks."""
        if not self.validation:
            return []
        assert self.trainer is not None
        filler = self.make_task_encoder("val", ErrorCollector(0)).filler
        device = self.trainer.strategy.root_device
        return [EvaluationPass(self.evaluation(), filler, self.data_parallel(), device)]

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resumes the stream from a checkpoint; raises as `EnergonMultiModalDataModule.load_state_dict`."""
        super().load_state_dict(state)
        self.start = state["global_batches"]

    def state_dict(self) -> dict[str, Any]:
        """The number of global batches so far, and the state of the stream; a collective operation."""
        assert self.trainer is not None
        return {"global_batches": self.trainer.global_step, **super().state_dict()}

    def lineage(self) -> dict[str, Any]:
        """The fingerprint of the data set, and what else the order depends on, for the run's manifest."""
        return {"data": fingerprint(self.path), "order": {"workers": self.settings.num_workers}}

    def describe(self) -> dict[str, str]:
        """Counts for the summary at the start."""
        what = "samples" if self.packing_buffer_size is None else f"rows of up to {self.row_length} tokens"
        return {
            "source": f"energon data set {self.path}",
            "training": f"{self.num_samples:,} samples",
            **{name: f"{len(examples):,} samples" for name, examples in self.validation.items()},
            "vocabulary": f"{len(self.tokenizer):,} tokens",
            "global batch": f"{self.global_batch_size} {what}",
            "micro-batch": f"{self.micro_batch_size} of them, {self.layout}",
        }

    def _texts(self) -> Iterator[str]:
        """Texts of the first training samples, to train a tokenizer on."""
        found = samples_in_order(self.path, "train", ReadConversations(self.read_row))
        first = islice(found, self.settings.tokenizer_samples)
        return conversation_texts(item.conversation for item in first)
