"""Sums of rows: padded rows, and the documents of a packed row."""

from typing import Any

import torch

from tiryns.runner.models.row_sums import num_rows, rows_of, summed_by_row

IDS = torch.zeros((3, 4), dtype=torch.long)
PADDED: Any = {"input_ids": IDS}
PACKED: Any = {"input_ids": IDS.view(1, 12), "cu_seqlens": torch.tensor([0, 3, 4, 12], dtype=torch.int32)}


def test_rows_of_positions() -> None:
    positions = torch.tensor([0, 2, 3, 4, 11])
    assert rows_of(PADDED, positions).tolist() == [0, 0, 0, 1, 2]
    assert rows_of(PACKED, positions).tolist() == [0, 0, 1, 2, 2]
    assert (num_rows(PADDED), num_rows(PACKED)) == (3, 3)


def test_values_are_summed_by_row_in_float64() -> None:
    rows = torch.tensor([2, 0, 2])
    found = summed_by_row(
        PADDED, rows, {"loss": torch.tensor([0.1, 2.0, 3.0]), "right": torch.tensor([True] * 3)}
    )
    assert found["right"].tolist() == [1.0, 0.0, 2.0]
    assert found["loss"].dtype == torch.float64
    assert found["loss"].tolist() == [2.0, 0.0, float(torch.tensor(0.1).double()) + 3.0]
