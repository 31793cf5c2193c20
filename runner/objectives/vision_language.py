"""Vision-language finetuning: answers are predicted token by token, given the images and all that stands before.

Letters in shapes: D samples, T tokens of a row.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from iolaus.runner.models.task_model import TaskModel
from iolaus.runner.objectives.base import FlatCollator
from iolaus.runner.objectives.finetuning import check_length, sample_numbers
from iolaus.runner.objectives.layout import IGNORED, Flat


class VisionLanguageCollator(FlatCollator):
    """Lays out conversations whose labels the data brings along; the images follow one another as the samples do.

    `labels` of the micro-batch stand where they are predicted from, one token before their own place.
    """

    packs = True
    auto = "AutoModelForImageTextToText"

    def __init__(
        self,
        image_token_id: int | None = None,
        image_example: Any = None,
        end_token_id: int = 0,
        **collator: Any,
    ) -> None:
        """`image_example` is an EncodedImage. Raises ValueError for data that is no conversations about images."""
        super().__init__(**collator)
        if image_token_id is None:
            raise ValueError(
                "objective=vision_language needs conversations about images, such as data=shapes or data=image_text"
            )
        self.image_token_id, self.image_example = image_token_id, image_example
        self.end_token_id = end_token_id

    def flat_samples(self, tokenized: dict[str, Any], real: NDArray[np.bool_]) -> Flat:
        """Raises ValueError: images come with the samples of a data module alone."""
        raise ValueError(
            "VisionLanguageCollator makes batches of what a data module encodes, such as "
            "runner.data.energon.module.EnergonMultiModalDataModule; it takes no list of samples"
        )

    def flat_labels(self, tokenized: Flat) -> Flat:
        """Labels [N] moved to the token before their own; the first token of a sample never has one."""
        labels = np.append(tokenized["labels"][1:], IGNORED)
        labels[np.repeat(tokenized["undecodable"], tokenized["lengths"])] = IGNORED
        return {"input_ids": tokenized["input_ids"], "labels": labels}

    def extra_fields(
        self, labelled: Flat, places: NDArray[np.int64], shape: tuple[int, int]
    ) -> dict[str, Any]:
        """`samples`, `prompt_lengths` and `image_counts` [D], samples that are `undecodable` [u], and, unless there are
        no images, `images` and `image_rows` (see `runner.data.vision.image_inputs.join_images`).
        """
        samples = sample_numbers(labelled)
        broken = torch.from_numpy(labelled["undecodable"])
        found: dict[str, Any] = {
            "samples": samples.masked_fill(broken, -1),
            "undecodable": samples[broken & (samples >= 0)],
            "prompt_lengths": torch.from_numpy(labelled["prompt_lengths"]),
            "image_counts": torch.from_numpy(labelled["image_counts"]),
        }
        for name in ("images", "image_rows") if labelled["images"] else ():
            found[name] = {n: torch.from_numpy(value) for n, value in labelled[name].items()}
        return found

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """The model with its head on the tokens that predict answers."""
        from iolaus.runner.models.vision.vision_language import VisionLanguageModel

        check_length(pretrained, self.max_sequence_length)
        return VisionLanguageModel(
            pretrained,
            image_token_id=self.image_token_id,
            example=self.image_example,
            pad_token_id=self.pad_token_id,
            end_token_id=self.end_token_id,
        )
