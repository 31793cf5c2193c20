"""Vision-language models of transformers, whose head reads only tokens that predict answers, and their written answers.

Letters in shapes: B rows, T tokens, M prompts or samples with a question, K written tokens.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.nn.utils.rnn import pad_sequence
from torch.utils.flop_counter import FlopCounterMode
from transformers import GenerationConfig, PreTrainedModel

from tiryns.runner import log
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.data.vision.images import EncodedImage
from tiryns.runner.models.flops import FlopCounts
from tiryns.runner.models.packed.rows import packed_row, set_up_packed_rows
from tiryns.runner.models.packed.trials import TOLERANCE, evaluating, relative_difference, trial_documents
from tiryns.runner.models.pretraining.sparse_head import SparseMaskedLM
from tiryns.runner.models.vision.image_arguments import ImageArguments
from tiryns.runner.order.permutation import permute
from tiryns.runner.patches.transformers import attention_of


class VisionLanguageModel(SparseMaskedLM):
    """Wraps any model of transformers for images and text that puts features of images in place of tokens.

    `images` of a micro-batch are the model's arguments for images, by its own names. `example` has the arguments and the
    tokens of one image.

    The vision tower runs only if there are images. Otherwise the tower, and the layers between it and the language
    model, get gradients of zero, so that updates do not depend on which micro-batch had images.
    """

    fillable = False

    def __init__(
        self,
        pretrained: PreTrainedModel,
        image_token_id: int,
        example: EncodedImage,
        pad_token_id: int,
        end_token_id: int,
    ) -> None:
        """Raises ValueError unless the model gives the example as many features as the example has image tokens."""
        super().__init__(pretrained)
        self.image_arguments = ImageArguments(pretrained, image_token_id, example.marks)
        self.image_token_id, self.pad_token_id, self.end_token_id = image_token_id, pad_token_id, end_token_id
        self.example = {name: torch.from_numpy(value) for name, value in example.inputs.items()}
        inside = {id(p) for p in [*self.core.parameters(), *pretrained.get_output_embeddings().parameters()]}
        self.vision_parameters = [p for p in pretrained.parameters() if id(p) not in inside]
        try:
            features, further = self.image_arguments.features(self.example)
        except (IndexError, RuntimeError, TypeError, ValueError) as error:
            shapes = ", ".join(f"{n} {tuple(value.shape)}" for n, value in self.example.items())
            raise ValueError(
                f"{type(pretrained).__name__} cannot read the images of the processor ({shapes}): {error}"
            ) from error
        places = example.ids.count(image_token_id)
        if len(features) != places:
            raise ValueError(
                f"{type(pretrained).__name__} gives an image {len(features)} features, but the text has {places} "
                "places for it: image size and patches of model and processor do not fit together"
            )
        # no feature depends on some parameters, such as those of the tower's last layers: they are frozen
        trainable = [p for p in self.vision_parameters if p.requires_grad]
        total = torch.stack([tensor.sum() for tensor in (features, *further)]).sum()
        gradients = torch.autograd.grad(total, trainable, allow_unused=True)
        without_gradient = [p for p, gradient in zip(trainable, gradients, strict=True) if gradient is None]
        for parameter in without_gradient:
            parameter.requires_grad_(False)
        if count := sum(p.numel() for p in without_gradient):
            log.info("%s parameters of the vision tower are frozen: no feature depends on them", f"{count:,}")

    @property
    def core(self) -> Any:
        """Returns the language model."""
        return self.pretrained.get_decoder()

    def forward(self, micro_batch: MicroBatch) -> dict[str, Tensor]:
        """Returns sums over the micro-batch: `loss` in nats, and in evaluation `correct` targets."""
        if "images" in micro_batch or not (self.training or isinstance(self, FSDPModule)):
            return super().forward(micro_batch)
        zero = self._zero_of_images()  # before the language model: ranks gather weights in one order
        result = super().forward(micro_batch)
        return {**result, "loss": result["loss"] + zero}

    def arguments(self, micro_batch: MicroBatch) -> dict[str, object]:
        arguments = super().arguments(micro_batch)
        return arguments | self.image_arguments.of_rows(micro_batch) | {"use_cache": False}

    def flop_counts(self) -> FlopCounts:
        """Returns the operations of the language model and, per image, those of the vision tower on the example."""
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            self.image_arguments.features(self.example)
        passes = 3.0 if any(p.requires_grad for p in self.vision_parameters) else 1.0
        return super().flop_counts()._replace(per_image=passes * counter.get_total_flops())

    def num_images(self, micro_batch: MicroBatch) -> float:
        """Returns the images of a micro-batch, in units of the example's size."""
        images = micro_batch.get("images") or {}
        return max((len(images[name]) / len(self.example[name]) for name in images), default=0.0)

    @torch.autocast("cpu", enabled=False)
    def pack_rows(self) -> None:
        """Sets the language model up for packed rows. Raises ValueError if samples in them see each other."""
        if self.image_arguments.prompts_are_marked:
            raise ValueError(
                f"{type(self.pretrained).__name__} attends in both directions within a prompt; set data.layout=padded"
            )
        text = trial_documents(self.core.config)
        samples = [s.masked_fill(s == self.image_token_id, max(0, self.image_token_id - 1)) for s in text]
        places = torch.full((len(self.image_arguments.features(self.example)[0]),), self.image_token_id)
        samples[-1:] = [torch.cat([samples[-1][:1], places, samples[-1]])] * 2
        other = {name: -value if value.is_floating_point() else value for name, value in self.example.items()}
        both = {name: torch.cat([value, other[name]]) for name, value in self.example.items()}
        sample_images: list[dict[str, Tensor]] = [{}] * (len(samples) - 2) + [self.example, other]
        with torch.no_grad(), evaluating(self):
            alone = []
            for ids, images in zip(samples, sample_images, strict=True):
                mask = torch.ones_like(ids)
                row: MicroBatch = {"input_ids": ids[None], "attention_mask": mask[None], "images": images}
                alone.append(self.encode(row)[0])
            self._attention = attention_of(self.core.config)
            self.position_offset = set_up_packed_rows(self.core)
            try:
                together = self.encode({**packed_row(samples), "images": both})[0]
            except Exception:  # models raise what they like
                together = torch.full((1, 1), torch.nan)
        difference = relative_difference(together, torch.cat(alone))
        if not difference <= TOLERANCE:
            self.core.set_attn_implementation(self._attention)
            self.position_offset = None
            raise ValueError(
                f"{type(self.pretrained).__name__}: hidden states of packed samples differ from those of "
                f"single samples (by {difference:.2g}, relative to the largest); set data.layout=padded"
            )

    def try_padding(self) -> str:
        """Returns an empty string: padding is on the right, which a language model does not read."""
        return ""

    @torch.no_grad()
    def generate(self, prompts: list[Tensor], images: Mapping[str, Tensor], max_new_tokens: int) -> Tensor:
        """Continues M prompts of token ids greedily; returns ids [M, K], padded after the end token.

        `images` are those of all prompts in order; K is `max_new_tokens`.
        """
        ids = pad_sequence(prompts, batch_first=True, padding_value=self.pad_token_id, padding_side="left")
        mask = pad_sequence([torch.ones_like(p) for p in prompts], batch_first=True, padding_side="left")
        ends = {"pad_token_id": self.pad_token_id, "eos_token_id": self.end_token_id}
        config = GenerationConfig(max_new_tokens=max_new_tokens, do_sample=False, num_beams=1, **ends)
        further = self.image_arguments.of_prompts(ids, images)
        if not images and isinstance(self, FSDPModule):
            self._zero_of_images()  # other ranks run the tower
        attention = attention_of(self.core.config)
        if self.position_offset is not None:  # the attention of packed rows takes no padding on the left
            self.core.set_attn_implementation(self._attention)
        try:
            new_ids = self.pretrained.generate(  # type: ignore[operator]
                input_ids=ids,
                attention_mask=mask,
                generation_config=config,
                synced_gpus=isinstance(self, FSDPModule),
                **further,
            )[:, ids.shape[1] :]
        finally:
            if self.position_offset is not None:
                self.core.set_attn_implementation(attention)
        missing = max_new_tokens - new_ids.shape[1]
        return nn.functional.pad(new_ids, (0, missing), value=self.pad_token_id)

    def describe(self) -> str:
        config, vision = self.pretrained.config, sum(p.numel() for p in self.vision_parameters)
        text = config.get_text_config()
        language = f"text {text.num_hidden_layers} layers of {text.hidden_size}"
        return f"{config.model_type}, {language}, vision {vision:,} parameters"

    def _zero_of_images(self) -> Tensor:
        """Returns zero, with gradients of zero for the parameters that images pass through.

        Ranks with sharded weights must run the tower together, so they run it on the example.
        """
        if isinstance(self, FSDPModule):
            device = self.pretrained.device
            example = {name: value.to(device) for name, value in self.example.items()}
            features, further = self.image_arguments.features(example)
            return torch.stack([tensor.sum() for tensor in (features, *further)]).sum() * 0.0
        entries = [p.flatten()[0] for p in self.vision_parameters if p.requires_grad]
        return torch.stack(entries).sum() * 0.0 if entries else torch.zeros((), device=self.pretrained.device)


class AnswerWriter(NamedTuple):
    """Writes answers of up to `max_new_tokens` tokens to `generated_samples` samples of a set (0: all), always the same.

    Example:
        >>> [sample for sample in range(6) if AnswerWriter(2, 32).asks(sample, 6)]
        [1, 2]
    """

    generated_samples: int
    max_new_tokens: int

    def asks(self, sample: int, size: int) -> bool:
        """Whether it writes an answer to a sample of a set of `size` samples."""
        return sample >= 0 and permute(sample, size, 0) < (self.generated_samples or size)

    def write(
        self, model: Any, micro_batch: MicroBatch, size: int, together: bool = False
    ) -> dict[str, Tensor]:
        """Returns `asked` [M], indices of samples in a set of `size` (-1: none), and `written` [M, K], their answers.

        Ranks that share weights must write `together`, also ranks without a sample to answer.
        """
        samples = micro_batch["samples"]
        indices = [i for i, sample in enumerate(samples.tolist()) if self.asks(sample, size)]
        numbers = samples[indices]
        if not indices and together:
            indices, numbers = [0], samples.new_tensor([-1])
        device = micro_batch["input_ids"].device
        answers = torch.empty((0, self.max_new_tokens), dtype=torch.int64, device=device)
        if indices:
            rows, lengths = sample_rows(micro_batch), micro_batch["prompt_lengths"].tolist()
            prompts = [rows[i][: lengths[i]] for i in indices]
            answers = model.generate(prompts, images_of(micro_batch, indices), self.max_new_tokens)
        return {"asked": numbers, "written": answers}


def sample_rows(micro_batch: MicroBatch) -> list[Tensor]:
    """Returns the tokens of each sample of a micro-batch; padded rows keep their padding."""
    ids = micro_batch["input_ids"]
    if "cu_seqlens" not in micro_batch:
        return list(ids)
    return list(ids[0].split(micro_batch["cu_seqlens"].diff().tolist()))


def images_of(micro_batch: MicroBatch, indices: list[int]) -> dict[str, Tensor]:
    """Returns the inputs of the vision tower for some samples' images; empty if they have none."""
    counts = micro_batch["image_counts"]
    if "images" not in micro_batch or not counts[indices].any():
        return {}
    numbers = torch.arange(int(counts.sum())).split(counts.tolist())
    image_indices = torch.cat([numbers[i] for i in indices]).tolist()
    images = {}
    for name, tensor in micro_batch["images"].items():
        parts = tensor.split(micro_batch["image_rows"][name].tolist())
        images[name] = torch.cat([parts[i] for i in image_indices])
    return images
