import pytest
import torch

from tests.models.every_encoder import tiny_model
from tests.models.tiny import OWN, tiny
from tests.objectives.samples import collator, documents, flat
from tiryns.runner.models import SparseMaskedLM
from tiryns.runner.models.pretraining.sparse_head import rows_at

LENGTHS = [30, 12, 12, 5]
KNOWN = ("bert", "modernbert", "roberta", "electra", "distilbert", "eurobert", "ernie", *OWN)


def tokens_through(model: SparseMaskedLM, packed: bool) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Hidden states of the targets, narrowed and whole, and the rows that the last matrices of the network saw."""
    batch = collator("mlm")(flat(documents(LENGTHS), packed=packed))
    layers = [m for m in model.pretrained.base_model.modules() if isinstance(m, torch.nn.ModuleList)]
    seen: list[int] = []
    matrices = [m for m in layers[-1][-1].modules() if isinstance(m, torch.nn.Linear)]
    hooks = [m.register_forward_hook(lambda m, i, o: seen.append(i[0].shape[:-1].numel())) for m in matrices]
    narrowed = model.encode(batch, batch["target_positions"])
    for hook in hooks:
        hook.remove()
    rows = [rows_at(hidden, batch["target_positions"]) for hidden in (narrowed, model.encode(batch))]
    return rows[0], rows[1], seen.count(len(batch["targets"]))


@pytest.mark.rows(8)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("architecture", KNOWN)
def test_targets_have_the_hidden_states_of_a_whole_pass(architecture: str, packed: bool) -> None:
    model = SparseMaskedLM(tiny(architecture))
    if packed:
        model.pack_rows()
    narrowed, whole, matrices = tokens_through(model, packed)
    torch.testing.assert_close(narrowed, whole, atol=2e-6, rtol=0)
    assert matrices >= 2


@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
def test_gradients_are_those_of_a_whole_pass(architecture: str) -> None:
    batch = collator("mlm")(flat(documents(LENGTHS)))
    narrowed, whole = SparseMaskedLM(tiny(architecture)), SparseMaskedLM(tiny(architecture))
    whole.last_layer.remove()
    for model in (narrowed, whole):
        model(batch)["loss"].backward()
    for one, other in zip(narrowed.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("architecture", ["bert", "luke"])  # luke cuts off what is behind the length of a row
def test_there_may_be_more_targets_than_tokens_in_a_row(architecture: str) -> None:
    model, batch = SparseMaskedLM(tiny_model(architecture, "mlm")), collator("mlm")(flat(documents([8] * 20)))
    positions = batch["target_positions"]
    assert len(positions) > batch["input_ids"].shape[1]
    narrowed, whole = (
        rows_at(hidden, positions) for hidden in (model.encode(batch, positions), model.encode(batch))
    )
    torch.testing.assert_close(narrowed, whole, atol=2e-6, rtol=0)


@pytest.mark.parametrize("architecture", ["albert", "mobilebert", "fnet"])
def test_other_architectures_are_left_alone(architecture: str) -> None:
    model = SparseMaskedLM(tiny(architecture))
    narrowed, whole, _ = tokens_through(model, packed=False)
    assert torch.equal(narrowed, whole)
