import pytest
import torch
from torch.nn import functional

from tests.models.tiny import ARCHITECTURES, tiny
from tests.objectives.samples import VOCABULARY, collator, documents, flat
from tests.support.precision import assert_close, assert_gradients_close, gradients
from tiryns.runner.models import SparseMaskedLM
from tiryns.runner.models.pretraining import sparse_head
from tiryns.runner.models.pretraining.sparse_head import rows_at

LENGTHS = [9, 4, 12, 2]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_logits_of_targets_are_those_of_the_whole_model(architecture: str) -> None:
    pretrained = tiny(architecture)
    batch = collator("mlm")(flat(documents(LENGTHS)))
    model = SparseMaskedLM(pretrained)
    whole = pretrained(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    ours = model.logits(rows_at(model.encode(batch), batch["target_positions"]))
    assert ours.shape == (len(batch["targets"]), VOCABULARY)
    assert torch.equal(ours, whole.flatten(0, 1)[batch["target_positions"]])


def test_loss_and_gradient_are_those_of_plain_cross_entropy() -> None:
    batch = collator("mlm")(flat(documents(LENGTHS)))
    ours, plain = tiny(), tiny()
    SparseMaskedLM(ours)(batch)["loss"].backward()
    logits = plain(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), reduction="sum").backward()
    assert_gradients_close(gradients(ours), gradients(plain))


def test_the_head_sees_targets_alone() -> None:
    model = SparseMaskedLM(tiny())
    batch = collator("mlm")(flat(documents(LENGTHS)))
    seen = []
    model.pretrained.get_output_embeddings().register_forward_hook(lambda m, i, out: seen.append(out.numel()))
    model(batch)
    assert sum(seen) == len(batch["targets"]) * VOCABULARY


@pytest.mark.parametrize("rows_at_once", [1, 3, 1000])
def test_chunks_change_neither_loss_nor_gradient(rows_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = collator("mlm", mlm_probability=1.0)(flat(documents(LENGTHS)))
    whole, chunked = SparseMaskedLM(tiny()), SparseMaskedLM(tiny())
    expected = whole(batch)
    expected["loss"].backward()
    monkeypatch.setattr(sparse_head, "LOGITS_AT_ONCE", rows_at_once * VOCABULARY)
    largest = 0

    def note(module: object, inputs: object, out: torch.Tensor) -> None:
        nonlocal largest
        largest = max(largest, out.numel())

    chunked.pretrained.get_output_embeddings().register_forward_hook(note)
    out = chunked(batch)
    out["loss"].backward()
    assert largest <= rows_at_once * VOCABULARY
    assert_close(out["loss"], expected["loss"])
    assert out["correct"] == expected["correct"]
    assert_gradients_close(gradients(chunked), gradients(whole))


def test_the_model_is_left_as_it_was() -> None:
    pretrained = tiny()
    names, encoder = list(pretrained.state_dict()), pretrained.base_model
    model = SparseMaskedLM(pretrained)
    model(collator("mlm")(flat(documents(LENGTHS))))
    with pytest.raises(RuntimeError):
        model.logits(torch.zeros(3, 7))
    assert list(pretrained.state_dict()) == names
    assert pretrained.base_model is encoder


def test_figures_of_no_target_are_numbers() -> None:
    figures = SparseMaskedLM(tiny()).figures({"loss": 0.0, "correct": 0.0, "weight": 0.0})
    assert figures == {"loss": 0.0, "accuracy": 0.0, "perplexity": 1.0}
