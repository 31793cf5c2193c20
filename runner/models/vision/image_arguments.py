"""What models of images and text want to be told of images, each by its own names.

Letters in shapes: B rows, T tokens of a row.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from iolaus.runner.data.micro_batch import MicroBatch
from iolaus.runner.models.packed.rows import packed_again, unpacked

OF_THE_TOWER = ("last_hidden_state", "pooler_output", "hidden_states", "attentions")
"""What a vision tower may tell of itself beside what the language model is given of it (such as `deepstack_features`)."""


class ImageArguments:
    """The arguments of a model that puts features of images in place of tokens.

    `marks` names the one that is 1 at `image_token_id` and 0 elsewhere, for models that want one. Without it
    `token_type_ids` tells prompts, whose tokens see each other, from answers (PaliGemma).
    """

    def __init__(self, pretrained: PreTrainedModel, image_token_id: int, marks: str | None) -> None:
        """Raises ValueError for a model that joins text and images otherwise."""
        model: Any = pretrained.base_model
        if not hasattr(model, "get_image_features"):
            raise ValueError(
                f"{type(pretrained).__name__} does not put features of images in place of tokens, as is needed here; "
                "LLaVA, Idefics 3, SmolVLM, Qwen-VL, InternVL, Gemma 3 and others do"
            )
        self.model, self.image_token_id = model, image_token_id
        self._takes, self._sees = _named(model.forward), _named(model.get_image_features)
        places = getattr(model, "get_rope_index", None)
        self._places = None if places is None else _named(places)
        self._marks = marks if marks in self._takes else None
        self.prompts_are_marked = marks is None and "token_type_ids" in self._takes

    def of_rows(self, micro_batch: MicroBatch) -> dict[str, Tensor]:
        """Those for a micro-batch of either layout, beside what any model is told of it."""
        ids, images = micro_batch["input_ids"], micro_batch.get("images", {})
        found = self._of_images(ids, images)
        if "cu_seqlens" in micro_batch and self._places is not None:
            found["position_ids"] = self._positions(self._places, micro_batch, images)
        if self.prompts_are_marked:
            found["token_type_ids"] = _is_answer(ids, micro_batch["target_positions"])
        return found

    def of_prompts(self, ids: Tensor, images: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Those for prompts [B, T] to write on from."""
        if hasattr(self.model, "rope_deltas"):
            self.model.rope_deltas = None  # else prompts without images take those of former ones
        marked = {"token_type_ids": torch.zeros_like(ids)} if self.prompts_are_marked else {}
        return self._of_images(ids, images) | marked

    def features(self, images: Mapping[str, Tensor]) -> tuple[Tensor, list[Tensor]]:
        """What the language model is given of images: features [all of them, width], and what else it takes for some."""
        found = self.model.get_image_features(**_some(images, self._sees))
        features = torch.cat([f.reshape(-1, f.shape[-1]) for f in getattr(found, "pooler_output", found)])
        further = found.items() if hasattr(found, "items") else ()
        return features, [t for name, part in further if name not in OF_THE_TOWER for t in _tensors(part)]

    def _of_images(self, ids: Tensor, images: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Those for images, and where among ids [B, T] they have their places."""
        marked = {} if self._marks is None else {self._marks: (ids == self.image_token_id).long()}
        return _some(images, self._takes) | marked

    def _positions(self, names: set[str], micro_batch: MicroBatch, images: Mapping[str, Tensor]) -> Tensor:
        """Positions [3, 1, T] in time, height and width of packed samples, each as it has them alone."""
        ids = unpacked(micro_batch["input_ids"], micro_batch, 0)
        mask = unpacked(torch.ones_like(micro_batch["input_ids"]), micro_batch, 0)
        given = {**self._of_images(ids, images), "input_ids": ids, "attention_mask": mask}
        found, _ = self.model.get_rope_index(**_some(given, names))
        return packed_again(found.permute(1, 2, 0), micro_batch).permute(2, 0, 1)


def _some(tensors: Mapping[str, Tensor], names: set[str]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in tensors.items() if name in names}


def _named(function: Callable[..., Any]) -> set[str]:
    """The parameters that a function names."""
    return {p.name for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD}


def _tensors(part: Any) -> list[Tensor]:
    """All tensors with numbers in what may be nested."""
    if isinstance(part, Tensor):
        return [part] if part.is_floating_point() else []
    return [t for inner in part for t in _tensors(inner)] if isinstance(part, list | tuple) else []


def _is_answer(ids: Tensor, targets: Tensor) -> Tensor:
    """1 behind the first place [B, T] of each row that predicts a target, 0 up to there, int64; `targets` [N] are all."""
    rows, places = targets // ids.shape[1], targets % ids.shape[1]
    first = ids.new_full((len(ids),), ids.shape[1]).scatter_reduce(0, rows, places, "amin")
    return (torch.arange(ids.shape[1], device=ids.device) > first[:, None]).long()
