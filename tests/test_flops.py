import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from runner.flops import count_flops, peak_flops
from tests.models.tiny import tiny


@pytest.mark.parametrize("architecture", ["bert", "modernbert", "roberta", "electra"])
def test_counts_are_those_of_the_operators(architecture: str) -> None:
    model = tiny(architecture, attn_implementation="eager")
    model.set_attn_implementation("eager")
    rows, length = 2, 13
    ids = torch.randint(5, 50, (rows, length))
    with FlopCounterMode(display=False) as counter:
        model(input_ids=ids).logits.sum().backward()
    counts = count_flops(model)
    ours = counts.step(rows * length, rows * length**2, rows * length)
    assert ours == pytest.approx(counter.get_total_flops(), rel=0.12)


def test_peaks_are_of_half_precision_and_known_devices() -> None:
    assert peak_flops("NVIDIA H200", "bf16-mixed") == 989e12
    assert peak_flops("NVIDIA H100 PCIe", "16-mixed") == 756e12
    assert peak_flops("NVIDIA L40S", "bf16-true") == 362e12
    assert peak_flops("NVIDIA H200", "32-true") is None
    assert peak_flops("Abacus 3", "bf16-mixed") is None


@pytest.mark.parametrize(
    ("device", "teraflops"),
    [
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H200", 989),
        ("NVIDIA B200", 2250),
        ("NVIDIA L4", 121),
        ("NVIDIA L40S", 362),
        ("NVIDIA GeForce RTX 4090", 165.2),
        ("NVIDIA GeForce RTX 5090", 209.5),
        ("AMD Instinct MI300X", 1307),
    ],
)
def test_peaks_of_the_makers(device: str, teraflops: float) -> None:
    assert peak_flops(device, "bf16-mixed") == pytest.approx(teraflops * 1e12)
