import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForMaskedLM

from tests.objectives.samples import MASK, SPECIAL, VOCABULARY, collator, documents, flat
from tiryns.runner.objectives.rows import IGNORED

LENGTHS = [5, 9, 3, 12, 2, 7, 7, 4]


def test_the_input_is_left_alone_and_every_ordinary_token_is_a_target() -> None:
    tokenized = flat(documents(LENGTHS))
    ids = tokenized["input_ids"].copy()
    batch = collator("enhanced_mlm")(tokenized)
    real = batch["attention_mask"].bool()
    assert batch["input_ids"][real].numpy().tolist() == ids.tolist()
    assert batch["labels"][real].numpy().tolist() == np.where(np.isin(ids, SPECIAL), IGNORED, ids).tolist()
    assert batch["weight"] == np.count_nonzero(~np.isin(ids, SPECIAL))


def test_the_encoder_reads_a_masked_copy() -> None:
    objective = collator("enhanced_mlm", encoder_mlm_probability=0.3)
    batch = objective(flat(documents([300] * 100)))
    assert objective.targets_per_token(0.5) == 1.3
    rows, positions = batch["encoder_input_ids"].flatten(), batch["encoder_target_positions"]
    assert batch["input_ids"].flatten()[positions].equal(batch["encoder_targets"])
    assert len(positions) / batch["weight"] == pytest.approx(0.3, abs=0.01)
    assert float((rows[positions] == MASK).double().mean()) == pytest.approx(0.8, abs=0.02)
    assert MASK not in batch["input_ids"]


def test_the_encoder_has_a_rate_of_its_own_in_validation() -> None:
    texts = flat(documents([300] * 100), evaluation=True)
    batch = collator("enhanced_mlm", encoder_mlm_probability=0.5, validation_mlm_probability=0.2)(texts)
    assert len(batch["encoder_targets"]) / batch["weight"] == pytest.approx(0.2, abs=0.01)
    unmasked = collator("enhanced_mlm", encoder_mlm_probability=0.0, validation_mlm_probability=0.2)(texts)
    assert not any(name.startswith("encoder") for name in unmasked)


@pytest.mark.parametrize(
    ("settings", "factors"),
    [
        ({"encoder_loss_weight": 1.0, "encoder_mlm_probability": 0.25}, (1 / 2, 2.0)),
        ({"encoder_loss_weight": 3.0, "encoder_mlm_probability": 0.5}, (1 / 4, 1.5)),
        ({"encoder_loss_weight": 1.0, "encoder_mlm_probability": 0.0}, (1.0, 0.0)),
        ({"encoder_loss_weight": 0.0, "encoder_mlm_probability": 0.3}, (1.0, 0.0)),
    ],
)
def test_losses_are_weighed_one_to_the_encoders_weight_per_target(
    settings: dict[str, float], factors: tuple[float, float]
) -> None:
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    make = collator("enhanced_mlm", **settings)
    with torch.no_grad():
        sums = make.task_model(BertForMaskedLM(config))(make(flat(documents([60] * 4))))
    decoder, encoder = (float(sums.get(f"{side}_loss", sums["loss"])) for side in ("decoder", "encoder"))
    assert float(sums["loss"]) == pytest.approx(factors[0] * decoder + factors[1] * encoder)


def test_seeds_differ_between_tokens_samples_and_epochs() -> None:
    texts, make = documents([50] * 40), collator("enhanced_mlm")
    seeds = np.concatenate([make(flat(texts, epoch=e))["row_seeds"].numpy().ravel() for e in range(3)])
    assert len(np.unique(seeds)) == len(seeds)
