"""How a model is kept in shards: replicas, what is gathered ahead and kept, and in which precision weights travel."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.testing._internal.distributed.fake_pg import FakeStore

from tests.models.tiny import tiny
from tests.objectives.samples import collator, documents, flat
from tiryns.runner.loop.sharding import Layout, shard, split_matrices, with_replicas
from tiryns.runner.models import SparseMaskedLM

NAMES = ("data_parallel", "tensor_parallel")


@pytest.fixture
def mesh() -> Iterator[DeviceMesh]:
    """A mesh of this process alone."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1, 1), mesh_dim_names=NAMES)
    torch.distributed.destroy_process_group()


def sharded(mesh: DeviceMesh, layout: Layout) -> tuple[SparseMaskedLM, list[Any]]:
    """A model in shards, and its layers."""
    model = SparseMaskedLM(tiny("bert", num_hidden_layers=3))
    shard(model, mesh, layout)
    encoder: Any = model.pretrained.base_model
    return model, list(encoder.encoder.layer)


def both_passes(model: SparseMaskedLM) -> None:
    model(collator("mlm")(flat(documents([9, 5, 12]))))["loss"].backward()


def weight_of(layer: Any) -> torch.Tensor:
    found: torch.Tensor = layer.attention.self.query.weight
    return found


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_weights_are_computed_with_as_they_travel(mesh: DeviceMesh, dtype: torch.dtype | None) -> None:
    model, layers = sharded(mesh, Layout(param_dtype=dtype))
    seen = []
    layers[1].attention.self.query.register_forward_pre_hook(lambda part, _: seen.append(part.weight.dtype))
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype is not None):
        both_passes(model)
    assert seen == [dtype or torch.float32]
    trained = [p for p in model.parameters() if p.grad is not None]
    assert len(trained) > 40
    assert (
        {p.dtype for p in trained} == {p.grad.dtype for p in trained if p.grad is not None} == {torch.float32}
    )


@pytest.mark.parametrize("layers", [1, 2])
def test_matrices_that_are_split_give_the_loss_of_whole_ones(mesh: DeviceMesh, layers: int) -> None:
    batch = collator("mlm")(flat(documents([9, 5, 12])))
    model = SparseMaskedLM(tiny("eurobert", num_hidden_layers=layers))
    whole = model(batch)["loss"]
    split_matrices(model, mesh["tensor_parallel"])
    encoder: Any = model.pretrained.base_model
    assert isinstance(encoder.layers[0].mlp.up_proj.weight, DTensor)
    torch.testing.assert_close(model(batch)["loss"], whole)


@pytest.mark.parametrize("reshard", [True, False])
def test_whole_weights_are_kept_for_the_backward_pass_where_asked(mesh: DeviceMesh, reshard: bool) -> None:
    model, layers = sharded(mesh, Layout(reshard=reshard))
    in_shards = []

    def look(*_: Any) -> None:
        in_shards.append([isinstance(weight_of(layer), DTensor) for layer in layers])

    layers[2].attention.self.query.register_forward_hook(look)
    both_passes(model)
    assert in_shards == [[reshard, reshard, False]]
    assert all(isinstance(weight_of(layer), DTensor) for layer in layers), "after the backward pass"


@pytest.mark.parametrize("count", [0, 1, 2])
def test_layers_are_gathered_ahead_in_both_passes(
    mesh: DeviceMesh, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    asked: list[tuple[nn.Module, str, list[nn.Module]]] = []
    for way in ("forward", "backward"):

        def note(layer: nn.Module, ahead: list[nn.Module], way: str = way) -> None:
            asked.append((layer, way, ahead))

        monkeypatch.setattr(FSDPModule, f"set_modules_to_{way}_prefetch", note)
    _, layers = sharded(mesh, Layout(prefetch=count))
    places = {layer: number for number, layer in enumerate(layers)}
    found = {(places[layer], way): [places[a] for a in ahead] for layer, way, ahead in asked}
    expected = {
        0: {},
        1: {
            (0, "forward"): [1], (1, "forward"): [2], (2, "forward"): [],
            (0, "backward"): [], (1, "backward"): [0], (2, "backward"): [1],
        },
        2: {
            (0, "forward"): [1, 2], (1, "forward"): [2], (2, "forward"): [],
            (0, "backward"): [], (1, "backward"): [0], (2, "backward"): [1, 0],
        },
    }  # fmt: skip
    assert found == expected[count]


def test_neighbours_share_a_replica() -> None:
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
    try:
        found = with_replicas(init_device_mesh("cpu", (4, 2), mesh_dim_names=NAMES), 2)
        assert found.mesh.tolist() == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
        assert found.mesh_dim_names == ("replicas", "shards", "tensor_parallel")
        assert found["replicas", "shards"].mesh.tolist() == [[0, 2], [4, 6]]
    finally:
        torch.distributed.destroy_process_group()
