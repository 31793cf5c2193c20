"""Arguments of models of images and text, by each model's own names.

Letters in shapes: B rows, T tokens of a row.
"""

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.packed.rows import repack, unpacked

TOWER_OUTPUTS = ("last_hidden_state", "pooler_output", "hidden_states", "attentions")
"""Outputs of a vision tower that, unlike `deepstack_features`, are not further inputs of the language model."""


class ImageArguments:
    """The arguments of a model that puts features of images in place of tokens.

    `marks` names an argument that is 1 at `image_token_id` and 0 elsewhere. If it is None, `token_type_ids` is 0 in
    prompts, in which all tokens see each other, and 1 in answers (PaliGemma).
    """

    def __init__(self, pretrained: PreTrainedModel, image_token_id: int, marks: str | None) -> None:
        """Raises ValueError for a model that joins text and images in another way."""
        model: Any = pretrained.base_model
        if not hasattr(model, "get_image_features"):
            raise ValueError(
                f"{type(pretrained).__name__} does not put features of images in place of tokens, as is needed here; "
                "LLaVA, Idefics 3, SmolVLM, Qwen-VL, InternVL, Gemma 3 and others do"
            )
        self.model, self.image_token_id = model, image_token_id
        self._forward = {*inspect.signature(model.forward).parameters}
        self._tower = {*inspect.signature(model.get_image_features).parameters}
        rope_index = getattr(model, "get_rope_index", None)
        self._rope_index = rope_index and {*inspect.signature(rope_index).parameters}
        self._marks = marks if marks in self._forward else None
        self.prompts_are_marked = marks is None and "token_type_ids" in self._forward

    def of_rows(self, micro_batch: MicroBatch) -> dict[str, Tensor]:
        """Returns further arguments for a micro-batch of either layout."""
        ids, images = micro_batch["input_ids"], micro_batch.get("images", {})
        kwargs = self._of_images(ids, images)
        if "cu_seqlens" in micro_batch and self._rope_index is not None:
            # positions [3, 1, T] in time, height and width, the same as those of each sample alone
            rows, mask = (unpacked(row, micro_batch, 0) for row in (ids, torch.ones_like(ids)))
            rope_arguments = {**self._of_images(rows, images), "input_ids": rows, "attention_mask": mask}
            positions, _ = self.model.get_rope_index(**_select(rope_arguments, self._rope_index))
            kwargs["position_ids"] = repack(positions.permute(1, 2, 0), micro_batch).permute(2, 0, 1)
        if self.prompts_are_marked:
            # 0 up to the first place of each row that predicts a target, 1 after it
            targets = micro_batch["target_positions"]
            rows, places = targets // ids.shape[1], targets % ids.shape[1]
            first = ids.new_full((len(ids),), ids.shape[1]).scatter_reduce(0, rows, places, "amin")
            kwargs["token_type_ids"] = (torch.arange(ids.shape[1], device=ids.device) > first[:, None]).long()
        return kwargs

    def of_prompts(self, ids: Tensor, images: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns further arguments for prompts [B, T] of generation."""
        if hasattr(self.model, "rope_deltas"):
            self.model.rope_deltas = None  # else prompts without images take those of former ones
        marks = {"token_type_ids": torch.zeros_like(ids)} if self.prompts_are_marked else {}
        return self._of_images(ids, images) | marks

    def features(self, images: Mapping[str, Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Returns the language model's inputs: features [all image tokens, width], and further tensors of some models."""
        outputs = self.model.get_image_features(**_select(images, self._tower))
        features = torch.cat([f.reshape(-1, f.shape[-1]) for f in getattr(outputs, "pooler_output", outputs)])
        further = outputs.items() if hasattr(outputs, "items") else ()
        return features, [t for name, part in further if name not in TOWER_OUTPUTS for t in _tensors(part)]

    def _of_images(self, ids: Tensor, images: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns arguments for images, and the marks of their positions among ids [B, T]."""
        marks = {} if self._marks is None else {self._marks: (ids == self.image_token_id).long()}
        return _select(images, self._forward) | marks


def _select(tensors: Mapping[str, Tensor], names: set[str]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in tensors.items() if name in names}


def _tensors(part: object) -> list[Tensor]:
    """Returns all floating-point tensors of a nested list."""
    if isinstance(part, Tensor):
        return [part] if part.is_floating_point() else []
    return [t for inner in part for t in _tensors(inner)] if isinstance(part, list | tuple) else []
