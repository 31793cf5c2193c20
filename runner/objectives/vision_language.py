"""Vision-language finetuning: answers are predicted token by token from the images and the text before."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from tiryns.conf.objective.labelled import VisionLanguage
from tiryns.runner.data.micro_batch import Batch, FlatSamples, MicroBatch
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.objectives.base import FlatCollator
from tiryns.runner.objectives.labelled import finetuning
from tiryns.runner.objectives.options import takes_options
from tiryns.runner.objectives.rows import IGNORED, Places, Shape


class VisionLanguageCollator(FlatCollator):
    """Makes batches of conversations about images; labels come from the data, and images are in the samples' order.

    Each label is moved to the token before, which predicts it.

    Example:
        >>> collator = VisionLanguageCollator(0, 0, 50, image_token_id=49)
        >>> flat = {
        ...     "input_ids": np.array([5, 6, 7]), "labels": np.array([-100, -100, 7]), "lengths": np.array([3]),
        ...     "undecodable": np.array([False]),
        ... }
        >>> collator.flat_labels(flat)["labels"].tolist()
        [-100, 7, -100]
    """

    packs = True
    auto = "AutoModelForImageTextToText"

    @takes_options(VisionLanguage)
    def __init__(
        self,
        image_token_id: int | None = None,
        image_example: Any = None,
        end_token_id: int = 0,
        **shared: Any,
    ) -> None:
        """`image_example` is an `EncodedImage`. Raises ValueError for data other than conversations about images."""
        super().__init__(**shared)
        if image_token_id is None:
            raise ValueError(
                "objective=vision_language needs conversations about images, such as data=shapes or data=image_text"
            )
        self.image_token_id, self.image_example = image_token_id, image_example
        self.end_token_id = end_token_id

    def flat_samples(self, tokenized: Batch, real: NDArray[np.bool_]) -> FlatSamples:
        """Raises ValueError: only a data module gives samples with images."""
        raise ValueError(
            "VisionLanguageCollator makes batches of the samples of a data module, such as "
            "runner.data.energon.module.EnergonMultiModalDataModule; it takes no list of samples"
        )

    def flat_labels(self, tokenized: FlatSamples) -> FlatSamples:
        """Returns labels [N] moved to the token before; none if undecodable. A sample's first token is never a target."""
        labels = np.append(tokenized["labels"][1:], IGNORED)
        labels[np.repeat(tokenized["undecodable"], tokenized["lengths"])] = IGNORED
        return {"input_ids": tokenized["input_ids"], "labels": labels}

    def extra_fields(self, labelled: FlatSamples, places: Places, shape: Shape) -> MicroBatch:
        """Returns `samples`, `prompt_lengths`, `image_counts` [D], `undecodable` samples, and fields for images."""
        samples = finetuning.sample_numbers(labelled)
        broken = torch.from_numpy(labelled["undecodable"])
        fields: MicroBatch = {
            "samples": samples.masked_fill(broken, -1),
            "undecodable": samples[broken & (samples >= 0)],
            "prompt_lengths": torch.from_numpy(labelled["prompt_lengths"]),
            "image_counts": torch.from_numpy(labelled["image_counts"]),
        }
        if labelled["images"]:
            fields["images"] = {n: torch.from_numpy(value) for n, value in labelled["images"].items()}
            fields["image_rows"] = {n: torch.from_numpy(value) for n, value in labelled["image_rows"].items()}
        return fields

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """Returns the model with its head on the tokens that predict answers."""
        from tiryns.runner.models.vision.vision_language import VisionLanguageModel

        return VisionLanguageModel(
            pretrained, image_token_id=self.image_token_id, example=self.image_example,
            pad_token_id=self.pad_token_id, end_token_id=self.end_token_id,
        )  # fmt: skip
