"""What this project adds does what it says, and trains."""

from pathlib import Path

import pytest
import torch

import tiryns
from my_project.components import EveryNthCollator, Sheep, Surprise

SMALL = ["model.hidden_size=32", "model.intermediate_size=64", "data.vocab_size=200", "data.num_workers=0",
         "trainer=cpu", "trainer.max_steps=3", "trainer.validate_every=0"]  # fmt: skip


def test_every_nth_token_is_a_target() -> None:
    objective = EveryNthCollator(
        nth=3, pad_token_id=0, mask_token_id=4, vocab_size=20, special_token_ids=[0, 2, 3, 4]
    )
    rows = torch.tensor([[2, 10, 11, 12, 13, 14, 15, 3]])
    batch = objective.compute_labels({"input_ids": rows, "attention_mask": torch.ones_like(rows)})
    assert batch["input_ids"].tolist() == [[2, 10, 11, 4, 13, 14, 4, 3]]
    assert batch["labels"].tolist() == [[-100, -100, -100, 12, -100, -100, 15, -100]]


def test_nth_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match=r"objective\.nth=0"):
        tiryns.run("experiment=every_third", *SMALL, "objective.nth=0")


def test_sheep_are_the_same_each_time_they_are_read() -> None:
    sheep = Sheep(count=3)
    assert [*sheep.documents()] == [*sheep.documents()]
    assert len([*sheep.documents()]) == 3
    assert sheep.fingerprint() != Sheep(count=4).fingerprint()


def test_surprise_is_the_mean_of_what_the_labels_cost() -> None:
    metric = Surprise(num_labels=2)
    metric.update(torch.tensor([[0.5, 0.5], [0.25, 0.75]]), torch.tensor([0, 0]))
    assert metric.compute().item() == pytest.approx(1.5 * torch.tensor(2.0).log().item())


def test_recipe_trains_with_the_settings_of_this_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = tiryns.run("experiment=every_third", *SMALL)
    assert (run.status["state"], run.status["step"]) == ("done", 3)
    assert run.config.objective == {"_target_": "my_project.components.EveryNthCollator", "nth": 3}
    assert (run.config.data.source.count, run.config.optimizer.lr) == (400, 5e-4)
