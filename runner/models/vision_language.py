"""Vision-language models of transformers: answers from images and text, with the head on the tokens that predict them.

Letters in shapes: B rows, T tokens, M prompts, K tokens written, n images, C channels, H and W pixels.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.nn.utils.rnn import pad_sequence
from transformers import GenerationConfig, PreTrainedModel

from runner.predictions import AnswerPredictions, Predictions

from .packed_rows import TOLERANCE, packed_row, set_up_packed_rows, trial_documents
from .sparse_head import SparseMaskedLM

log = logging.getLogger("iolaus")


class VisionLanguageModel(SparseMaskedLM):
    """Wraps any model of transformers for images and text that gives every image the same number of features.

    The vision tower runs only where there are images; then its parameters, and those that bring features into the
    language model, still get gradients, of zero: whether a micro-batch had images must not show in the update.
    """

    def __init__(
        self,
        pretrained: PreTrainedModel,
        image_token_id: int,
        image_places: int,
        pixel_shape: Sequence[int],
        pad_token_id: int,
        end_token_id: int,
    ) -> None:
        """Raises ValueError where the model does not give an image `[C, H, W]` as many features as `image_places`."""
        super().__init__(pretrained)
        self.image_token_id, self.pad_token_id, self.end_token_id = image_token_id, pad_token_id, end_token_id
        self.blank = torch.full((1, *pixel_shape), 0.01)
        inside = {id(p) for p in [*self.core.parameters(), *pretrained.get_output_embeddings().parameters()]}
        self.vision_parameters = [p for p in pretrained.parameters() if id(p) not in inside]
        self.batched_images = False
        features = self._first_features()
        if len(features) != image_places:
            raise ValueError(
                f"{type(pretrained).__name__} gives an image {len(features)} features, but the text has {image_places} "
                "places for it: image size and patches of model and processor do not fit together"
            )
        self._leave_unread(features)

    @property
    def core(self) -> Any:
        """The language model."""
        return self.pretrained.get_decoder()

    def forward(self, micro_batch: dict[str, Any]) -> dict[str, Tensor]:
        """Sums over the micro-batch: `loss` in nats, and (when evaluating) `correct` targets."""
        if "pixel_values" in micro_batch or not (self.training or isinstance(self, FSDPModule)):
            return super().forward(micro_batch)
        nothing = self._nothing_seen()  # before the language model: ranks gather weights in one order
        result = super().forward(micro_batch)
        return {**result, "loss": result["loss"] + nothing}

    def arguments(self, micro_batch: dict[str, Any]) -> dict[str, Any]:
        """The model's arguments for rows of either layout, with their images if they have any."""
        found = super().arguments(micro_batch) | {"use_cache": False}
        if "pixel_values" in micro_batch:
            found["pixel_values"] = self._pixels(micro_batch["pixel_values"])
        return found

    def pack_rows(self) -> None:
        """Sets the language model up for packed rows; images have a tower of their own, which stays as it is.

        Raises:
            ValueError: samples in one row have other hidden states than alone, with or without images.
        """
        samples = [self._without_images(s) for s in trial_documents(self.core.config)]
        places = torch.full((len(self._features(self.blank)),), self.image_token_id)
        samples[-1:] = [torch.cat([samples[-1][:1], places, samples[-1]])] * 2
        pixels = torch.cat([self.blank, -self.blank])
        shown = [None] * (len(samples) - 2) + [pixels[:1], pixels[1:]]
        before, training = self.core.config._attn_implementation, self.training
        self.eval()
        try:
            with torch.no_grad():
                alone = [self.encode(_row_alone(s, p))[0] for s, p in zip(samples, shown, strict=True)]
                self.position_offset = set_up_packed_rows(self.core)
                self._attention = before
                together = self.encode({**packed_row(samples), "pixel_values": pixels})[0]
        finally:
            self.train(training)
        expected = torch.cat(alone)
        difference = float((together - expected).abs().max() / expected.abs().max())
        if not difference <= TOLERANCE:
            self.core.set_attn_implementation(before)
            raise ValueError(
                f"{type(self.pretrained).__name__} makes something else of packed samples (by {difference:.2g}, relative "
                "to the largest); set data.layout=padded"
            )

    @torch.no_grad()
    def generate(self, prompts: list[Tensor], pixel_values: Tensor | None, max_new_tokens: int) -> Tensor:
        """What the model goes on to write after M prompts of token ids, choosing the likeliest token each time.

        `pixel_values` [n, C, H, W] are the images of all prompts in order. Returns ids [M, K] with K = `max_new_tokens`,
        padding behind the end token.
        """
        turned = pad_sequence(
            [p.flip(0) for p in prompts], batch_first=True, padding_value=self.pad_token_id
        ).flip(1)
        lengths = torch.tensor([len(p) for p in prompts], device=turned.device)
        behind = torch.arange(turned.shape[1] - 1, -1, -1, device=turned.device)
        config = GenerationConfig(
            max_new_tokens=max_new_tokens,
            do_sample=False,
            num_beams=1,
            pad_token_id=self.pad_token_id,
            eos_token_id=self.end_token_id,
        )
        images = (
            {}
            if pixel_values is None or not len(pixel_values)
            else {"pixel_values": self._pixels(pixel_values)}
        )
        if not images and isinstance(self, FSDPModule):
            self._nothing_seen()  # as the other ranks' images go through the tower
        with self._padded_attention():
            written = self.pretrained.generate(  # type: ignore[operator]
                input_ids=turned,
                attention_mask=(behind < lengths[:, None]).long(),
                generation_config=config,
                synced_gpus=isinstance(self, FSDPModule),
                **images,
            )[:, turned.shape[1] :]
        missing = max_new_tokens - written.shape[1]
        return nn.functional.pad(written, (0, missing), value=self.pad_token_id)

    def predictions(self, sequences: Any) -> Predictions:
        """An empty collection of answers for a data set."""
        return AnswerPredictions(sequences)

    def describe(self) -> str:
        """Architecture and sizes in a few words."""
        config = self.pretrained.config
        sizes = [
            f"{name} {part.num_hidden_layers} layers of {part.hidden_size}"
            for name, part in (("vision", config.vision_config), ("text", config.get_text_config()))
        ]
        return f"{config.model_type}, {', '.join(sizes)}"

    @contextmanager
    def _padded_attention(self) -> Iterator[None]:
        """Within it the language model takes rows padded on the left."""
        if self.position_offset is None:
            yield
            return
        packed = self.core.config._attn_implementation
        self.core.set_attn_implementation(self._attention)
        try:
            yield
        finally:
            self.core.set_attn_implementation(packed)

    def _pixels(self, pixels: Tensor) -> Tensor:
        return pixels[None] if self.batched_images else pixels

    def _features(self, pixels: Tensor) -> Tensor:
        """What the language model is given of images: features [all of them, width]."""
        found = self.pretrained.get_image_features(self._pixels(pixels))  # type: ignore[operator]
        found = getattr(found, "pooler_output", found)
        return torch.cat([features.reshape(-1, features.shape[-1]) for features in found])

    def _first_features(self) -> Tensor:
        """Features of a blank image; finds out whether the model wants images [n, C, H, W] or [1, n, C, H, W]."""
        for self.batched_images in (False, True):
            try:
                return self._features(self.blank)
            except (IndexError, RuntimeError, ValueError) as error:
                reason = error
        raise ValueError(
            f"{type(self.pretrained).__name__} takes no images of {' x '.join(map(str, self.blank.shape[1:]))}: {reason}"
        )

    def _leave_unread(self, features: Tensor) -> None:
        """Keeps from training what features do not depend on, such as the tower's layers behind the one that is read."""
        open_ones = [p for p in self.vision_parameters if p.requires_grad]
        gradients = torch.autograd.grad(features.sum(), open_ones, allow_unused=True)
        unread = [p for p, gradient in zip(open_ones, gradients, strict=True) if gradient is None]
        for parameter in unread:
            parameter.requires_grad_(False)
        if unread:
            count = sum(p.numel() for p in unread)
            log.info("%s parameters of the vision tower are behind what is read of it", f"{count:,}")

    def _nothing_seen(self) -> Tensor:
        """Zero, with a gradient of zero for all that images would go through.

        Where weights are in shards all ranks must run the tower together, so a blank image goes through it.
        """
        if isinstance(self, FSDPModule):
            return self._features(self.blank.to(self.pretrained.device)).sum() * 0.0
        trained = [p.flatten()[0] for p in self.vision_parameters if p.requires_grad]
        return torch.stack(trained).sum() * 0.0 if trained else torch.zeros((), device=self.pretrained.device)

    def _without_images(self, ids: Tensor) -> Tensor:
        return ids.masked_fill(ids == self.image_token_id, max(0, self.image_token_id - 1))


def _row_alone(ids: Tensor, pixels: Tensor | None) -> dict[str, Any]:
    row = {"input_ids": ids[None], "attention_mask": torch.ones_like(ids)[None]}
    return row if pixels is None else {**row, "pixel_values": pixels}
