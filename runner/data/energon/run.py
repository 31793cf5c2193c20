"""An energon data set as the data of a run: tokenizer and images as its model has them, global batches for its step."""

import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from iolaus.conf.data import energon as options
from iolaus.conf.trainer import check_length
from iolaus.runner.config.settings import takes_settings
from iolaus.runner.data.energon.batches import EvaluationPass, GlobalBatchStream
from iolaus.runner.data.energon.errors import ErrorCollector
from iolaus.runner.data.energon.examples import Examples, ReadConversations
from iolaus.runner.data.energon.module import EnergonMultiModalDataModule
from iolaus.runner.data.energon.source import count_samples, samples_in_order
from iolaus.runner.data.energon.tasks import ConversationTaskEncoder
from iolaus.runner.data.micro_batch import Collate, CollatorArguments
from iolaus.runner.data.vision.conversation_encoder import ConversationEncoder
from iolaus.runner.data.vision.conversations import ConversationReader
from iolaus.runner.data.vision.processors import VisionProcessor, conversation_texts, find_processor

VALIDATION = "validation"
"""The name of the validation set."""


class EnergonData(EnergonMultiModalDataModule):
    """The streams of `EnergonMultiModalDataModule` as global batches of `global_batch_size` samples (rows, if packed).

    A global batch is `micro_batch_size` x replicas x micro-batches. Its order is energon's own: which samples are in it
    depends on the layout too, so a run resumes only in the layout of its checkpoint.
    """

    task_name = "vision_language"

    @takes_settings(options.Energon)
    def __init__(self, settings: options.Energon) -> None:
        super().__init__(
            settings.path,
            None,
            None,
            seq_length=settings.max_length,
            micro_batch_size=settings.micro_batch_size,
            global_batch_size=settings.global_batch_size,
            num_workers=settings.num_workers,
            num_val_workers=settings.num_val_workers,
            shuffle_buffer_size=settings.shuffle_buffer_size,
            max_samples_per_sequence=settings.max_samples_per_sequence,
            row_length=settings.row_length,
            packing_buffer_size=settings.packing_buffer_size,
            max_bad_samples=settings.max_bad_samples,
            allow_dataset_code=settings.allow_dataset_code,
            **settings.train_options,
        )
        self.settings, self.layout = settings, settings.layout
        self.read_row = ConversationReader(settings.columns, settings.caption_prompt)
        self.validation: dict[str, Examples] = {}
        self.test: dict[str, Any] = {}
        self.vision: VisionProcessor | None = None
        self.start = 0

    def prepare_data(self) -> None:
        """Checks the data set, loads tokenizer and image processor, and reads the validation conversations.

        Raises:
            ValueError: no energon data set, one that brings code, or samples that are no conversations (they are named).
        """
        if self.vision is not None:
            return
        super().prepare_data()
        self.num_samples = count_samples(self.path, "train")
        self.vision = find_processor(self.settings, self._texts)
        self.tokenizer, self.image_processor = self.vision.tokenizer, self.vision.processor.image_processor
        if count_samples(self.path, "val"):
            found = samples_in_order(self.path, "val", ReadConversations(self.read_row))
            self.validation = {VALIDATION: Examples(found, self.make_encoder())}

    @property
    def preprocessor(self) -> Any:
        """The processor of texts and images, which a model is exported with."""
        assert self.vision is not None, "prepare_data comes first"
        return self.vision.processor

    @property
    def validation_names(self) -> list[str]:
        """The validation set, if there is one."""
        return list(self.validation)

    @property
    def test_names(self) -> list[str]:
        """No test sets: an energon data set has no such split."""
        return []

    def make_encoder(self) -> ConversationEncoder:
        """The encoder of the model's processor."""
        assert self.vision is not None, "prepare_data comes first"
        return self.vision.encoder(self.seq_length, self.settings.too_long)

    def make_task_encoder(self, split: str, errors: ErrorCollector) -> ConversationTaskEncoder:
        """Micro-batches as the objective lays them out."""
        held_out = self.validation[VALIDATION].numbers if split == "val" else None
        return ConversationTaskEncoder(
            encoder=self.make_encoder(),
            reader=self.read_row,
            collate=self.collator,
            row_length=self.row_length,
            errors=errors,
            numbers=held_out,
            packed=self.layout == "packed",
        )

    def collator_arguments(self) -> CollatorArguments:
        """The arguments of the objective's collator that the data decides."""
        return self.make_encoder().collator_arguments(self.read_row)

    def known_task(self) -> dict[str, Any]:
        """Settings saved beside an exported model, for predictions."""
        return {"data": self.read_row.settings()}

    def connect(
        self,
        make_sampler: Callable[..., Any],
        collator: Collate,
        max_steps: int,
        max_epochs: float | None,
        seed: int,
        accept_changes: bool,
    ) -> int:
        """Takes the objective; returns the number of global batches of the run.

        Raises:
            ValueError: a sampler was chosen, or the length of the run is not given, or not for packed rows.
        """
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
        """Passes over the training split so far, as far as this replica's share tells."""
        return self.skip_budget.samples * self.data_parallel().size / self.num_samples

    def train_dataloader(self) -> GlobalBatchStream:
        """Global batches from the stream's position in the checkpoint."""
        num_micro = self.num_micro_batches(self.data_parallel().size)
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
        """Resumes the stream from a checkpoint; from the beginning if it does not fit and changes are accepted.

        Raises:
            ValueError: the checkpoint is of another layout or other data, and they are not.
        """
        super().load_state_dict(state)
        self.start = state["global_batches"]

    def state_dict(self) -> dict[str, Any]:
        """The number of consumed global batches, and the states of all replicas' streams; a collective operation."""
        assert self.trainer is not None
        return {"global_batches": self.trainer.global_step, **super().state_dict()}

    def baselines(self) -> dict[str, float]:
        """No figures: the metrics contain the baseline, over the same samples."""
        return {}

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

    def num_micro_batches(self, replicas: int) -> int:
        """Micro-batches of a replica's share of a global batch. Raises ValueError where they do not come out even."""
        together = self.micro_batch_size * replicas
        if self.global_batch_size % together:
            raise ValueError(
                f"a global batch of {self.global_batch_size} is not a multiple of data.micro_batch_size="
                f"{self.micro_batch_size} x {replicas} ranks; change sampler.global_batch_size or one of them"
            )
        return self.global_batch_size // together

    def _texts(self) -> Iterator[str]:
        """The first training samples, to train a tokenizer on."""
        found = samples_in_order(self.path, "train", ReadConversations(self.read_row))
        return conversation_texts(
            item.conversation for item in islice(found, self.settings.tokenizer_samples)
        )
