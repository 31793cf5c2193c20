"""Sums of rows: padded rows, and the documents of a packed row."""

from typing import Any

import pytest
import torch

from tiryns.runner.models.wrapped import sum_by_row

IDS = torch.zeros((3, 4), dtype=torch.long)
PACKED: Any = {"input_ids": IDS.view(1, 12), "cu_seqlens": torch.tensor([0, 3, 4, 12], dtype=torch.int32)}


@pytest.mark.parametrize(
    ("rows", "owners"), [({"input_ids": IDS}, [0, 0, 0, 1, 2]), (PACKED, [0, 0, 1, 2, 2])]
)
def test_values_are_summed_by_row_in_float64(rows: Any, owners: list[int]) -> None:
    losses = torch.tensor([0.1, 2.0, 3.0, 4.0, 5.0])
    found = sum_by_row(rows, torch.tensor([0, 2, 3, 4, 11]), {"loss": losses, "right": losses > 0})
    assert found["right"].tolist() == [owners.count(row) for row in range(3)]
    assert found["loss"].dtype == torch.float64
    pairs = [*zip(owners, losses.double().tolist(), strict=True)]
    assert found["loss"].tolist() == [sum(loss for owner, loss in pairs if owner == row) for row in range(3)]
