import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import PreTrainedModel

from tests.models.tiny import OWN, tiny
from tests.objectives.samples import collator, documents, flat
from tests.support.vision import tiny_vision
from tiryns.runner.data.batches import share_of
from tiryns.runner.data.micro_batch import MicroBatch, Share
from tiryns.runner.models.flops import count_flops, peak_flops, step_flops
from tiryns.runner.models.pretraining.sparse_head import SparseMaskedLM
from tiryns.runner.models.task_model import TaskModel


@pytest.mark.parametrize("architecture", ["bert", "modernbert", "roberta", "electra", *OWN])
def test_counts_are_those_of_the_operators(architecture: str) -> None:
    model = tiny(architecture, attn_implementation="eager", position_bucket_size=2)
    model.set_attn_implementation("eager")
    rows, length = 2, 13
    ids = torch.randint(5, 50, (rows, length))
    with FlopCounterMode(display=False) as counter:
        model(input_ids=ids).logits.sum().backward()
    counts = count_flops(model)
    ours = counts.step(rows * length, rows * length**2, rows * length)
    assert ours == pytest.approx(counter.get_total_flops(), rel=0.12)


def eager(seed: int) -> PreTrainedModel:
    model = tiny("bert", seed, attn_implementation="eager")
    model.set_attn_implementation("eager")
    return model


class WithGenerator(SparseMaskedLM):
    """A task model of two networks and a matrix beside them, all of which run on every token."""

    def __init__(self) -> None:
        super().__init__(eager(0))
        self.generator, self.bridge = SparseMaskedLM(eager(1)), nn.Linear(32, 32)

    def forward(self, micro_batch: MicroBatch) -> dict[str, torch.Tensor]:
        guessed = self.generator(micro_batch)["loss"] + self.bridge(self.encode(micro_batch)).sum()
        return {"loss": super().forward(micro_batch)["loss"] + guessed}


def both_counts(model: TaskModel, share: Share) -> tuple[float, float]:
    """FLOPs of a share, by our count and by that of the operators."""
    with FlopCounterMode(display=False) as counter:
        for micro_batch in share["micro_batches"]:
            model(micro_batch)["loss"].backward()
    return step_flops(model, model.flop_counts(), share), counter.get_total_flops()


def test_every_network_of_a_task_model_counts() -> None:
    batch = collator("mlm")(flat(documents([24] * 8)))
    share = share_of([batch])
    model = WithGenerator()
    model.last_layer.remove()
    model.generator.last_layer.remove()
    ours, theirs = both_counts(model, share)
    encoder = count_flops(model.pretrained)
    assert ours > 2 * encoder.step(share["tokens"], share["token_pairs"], len(batch["targets"]))
    again = encoder.step(share["tokens"], share["token_pairs"], 0)  # the bridge's own pass over the encoder
    assert ours + again == pytest.approx(theirs, rel=0.1)


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_decoder_and_both_heads_of_enhanced_mlm_count(rate: float) -> None:
    make = collator("enhanced_mlm", encoder_mlm_probability=rate)
    batch = make(flat(documents([24] * 8)))
    share = share_of([batch])
    model = make.task_model(eager(0))
    ours, theirs = both_counts(model, share)
    assert ours == pytest.approx(theirs, rel=0.1)
    alone = count_flops(model.pretrained).step(share["tokens"], share["token_pairs"], len(batch["targets"]))
    assert ours > 1.3 * alone


def test_the_vision_tower_counts_for_each_image() -> None:
    vision = tiny_vision("llava_tiny")
    share: Share = {"micro_batches": vision.share(packed=False)}
    share |= {"tokens": 0, "token_pairs": 0}
    for micro_batch in share["micro_batches"]:
        share["tokens"] += int(micro_batch["attention_mask"].sum())
        share["token_pairs"] += int((micro_batch["attention_mask"].sum(1) ** 2).sum())
    model, counts = vision.model, vision.model.flop_counts()
    with FlopCounterMode(display=False) as counter:
        model.pretrained.model.get_image_features(**share["micro_batches"][0]["images"])
    images = sum(len(m["images"]["pixel_values"]) for m in share["micro_batches"])
    assert images > 0
    assert counts.per_image * images == pytest.approx(3 * counter.get_total_flops())
    text_alone = counts._replace(per_image=0.0)
    difference = step_flops(model, counts, share) - step_flops(model, text_alone, share)
    assert difference == pytest.approx(counts.per_image * images)


def test_peaks_are_of_half_precision_and_known_devices() -> None:
    assert peak_flops("NVIDIA H200", "bf16-mixed") == 989e12
    assert peak_flops("NVIDIA H100 PCIe", "16-mixed") == 756e12
    assert peak_flops("NVIDIA L40S", "bf16-true") == 362e12
    assert peak_flops("NVIDIA H200", "32-true") is None
    assert peak_flops("Abacus 3", "bf16-mixed") is None
