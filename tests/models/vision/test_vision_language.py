"""Vision-language models: the head on targets alone, packed rows, images only where there are any, generation."""

from typing import Any

import pytest
import torch

from tests.support.precision import assert_close, rounding
from tests.support.vision import TinyVision, tiny_vision
from tiryns.runner.models.packed.rows import choose_layout


@pytest.fixture(scope="module", params=["llava_tiny", "smolvlm_tiny"])
def vision(request: pytest.FixtureRequest) -> TinyVision:
    return tiny_vision(request.param)


@pytest.fixture(scope="module")
def padded_loss(vision: TinyVision) -> dict[str, float]:
    """Loss and figures of padded rows, before the model is set up for packed ones."""
    (batch,) = vision.share(packed=False)
    with torch.no_grad():
        return {name: float(value) for name, value in vision.model(batch).items()}


def test_labels_are_of_the_next_token_and_never_of_another_sample(vision: TinyVision) -> None:
    (batch,) = vision.share(packed=True)
    ids, labels, ends = batch["input_ids"][0], batch["labels"][0], batch["cu_seqlens"].tolist()
    targets = labels != -100
    assert torch.equal(labels[:-1][targets[:-1]], ids[1:][targets[:-1]])
    assert (labels[[end - 1 for end in ends[1:]]] == -100).all()
    assert not targets[ids == vision.model.image_token_id][:-1].all()
    assert batch["weight"] == float(targets.sum())


def test_packed_loss_and_gradient_are_those_of_padded_rows(
    vision: TinyVision, padded_loss: dict[str, float]
) -> None:
    model = vision.model
    (padded,), (packed,) = vision.share(packed=False), vision.share(packed=True)
    weight = next(p for p in model.vision_parameters if p.requires_grad and p.dim() > 1)
    (expected,) = torch.autograd.grad(model(padded)["loss"], weight)
    assert choose_layout("packed", vision.objective, model) == "packed"
    output = model(packed)
    (found,) = torch.autograd.grad(output["loss"], weight)
    assert float(output["loss"]) == pytest.approx(padded_loss["loss"], rel=rounding(1e-5, 1e-3))
    assert int(output["correct"]) == padded_loss["correct"]
    assert_close(found, expected, rtol=1e-3, atol=1e-6)


def test_vision_tower_does_not_run_without_images(vision: TinyVision) -> None:
    texts = [i for i in range(len(vision.data.train)) if not vision.data.train.image_counts[i]]
    model, calls = vision.model, []
    hook = model.vision_parameters[0]
    tower = next(
        m for n, m in model.pretrained.named_modules() if n.endswith(("vision_tower", "vision_model"))
    )
    handle = tower.register_forward_hook(lambda *_: calls.append(1))
    batch = text_batch(vision, texts[:4])
    assert "images" not in batch
    model.train()
    try:
        for p in model.parameters():
            p.grad = None
        model(batch)["loss"].backward()
    finally:
        model.eval()
        handle.remove()
    assert not calls
    assert hook.grad is not None, "an update must not depend on which micro-batch had images"
    assert not any(p.grad.any() for p in model.vision_parameters if p.requires_grad)


def text_batch(vision: TinyVision, indices: list[int]) -> Any:
    import numpy as np

    chosen = np.array(indices)
    ids, lengths = vision.data.train.gather(chosen)
    keys = np.zeros(len(chosen), dtype=np.uint64)
    packed = vision.model.position_offset is not None
    return vision.objective(
        {
            **vision.data.train.extras(chosen),
            "input_ids": ids,
            "lengths": lengths,
            "keys": keys,
            "packed": packed,
        }
    )


def test_places_and_features_must_agree() -> None:
    with pytest.raises(ValueError, match=r"gives an image 4 features, but the text has 16 places for it"):
        tiny_vision("llava_tiny", "data.image_places=16")


def test_layers_behind_the_features_are_not_trained() -> None:
    vision = tiny_vision("llava_tiny")
    frozen = {n for n, p in vision.model.named_parameters() if not p.requires_grad}
    assert frozen == {f"pretrained.model.vision_tower.post_layernorm.{n}" for n in ("weight", "bias")}
