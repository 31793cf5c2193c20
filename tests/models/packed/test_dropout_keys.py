"""Dropout by keys: the same elements are dropped however samples are cut, laid out and computed again."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.models.tiny import tiny
from tests.objectives.samples import VOCABULARY, collator, documents, flat
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.encoder import DROPOUT_FIELDS
from tiryns.runner.models.packed.attention import padded_attention
from tiryns.runner.models.packed.dropout import replace_dropout
from tiryns.runner.models.packed.dropout_keys import DropoutKeys, bits, current_keys, dropout_keys, mix64
from tiryns.runner.models.pretraining import sparse_head
from tiryns.runner.order import keyed

pytestmark = (
    pytest.mark.fp32
)  # which elements are dropped shows where all else is equal but for its last digits
LENGTHS = [41, 7, 30, 30, 12, 5, 1]
WHOLE = [[0, 1, 2, 3, 4, 5, 6]]
CUT = [[6, 2], [0, 5, 3], [4, 1]]
SEED = 1234
MODELS: dict[str, dict[str, Any]] = {
    "bert": {}, "modernbert": {"local_attention": 16, "global_attn_every_n_layers": 2}, "distilbert": {},
    "albert": {}, "deberta-v2": {}, "crammed_bert": {}, "mosaic_bert": {}, "gpt_bert": {},
}  # fmt: skip
"""`albert` goes through one layer twice; `deberta-v2` has an attention of its own, so that its rows are padded."""

Pass = tuple[float, dict[str, Tensor]]


def dropping(architecture: str, objective: str = "mlm") -> Any:
    fields = MODELS[architecture] | dict.fromkeys(DROPOUT_FIELDS, 0.1)
    pretrained = tiny(architecture, **fields)
    return collator(objective).task_model(pretrained).train()


def passed(model: Any, cut: list[list[int]], packed: bool, seed: int | None = SEED, **sample: Any) -> Pass:
    """Loss and gradients over micro-batches of these samples; seed None leaves dropout to torch's generator."""
    texts, loss = documents(LENGTHS), 0.0
    model.zero_grad()
    torch.manual_seed(len(cut))
    for rows in cut:
        micro_batch = collator("mlm")(flat(texts, rows, packed=packed, **sample))
        if seed is None:
            del micro_batch["sample_keys"]
        with dropout_keys(micro_batch, seed or 0) as keys:
            found = model(micro_batch)["loss"]
            if keys is not None:
                keys.computing_again = True
            found.backward()
        loss += float(found.detach())
    return loss, {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def assert_equal(first: Pass, second: Pass) -> None:
    assert first[0] == pytest.approx(second[0], rel=2e-6)
    for name, gradient in first[1].items():
        torch.testing.assert_close(gradient, second[1][name], atol=2e-5, rtol=1e-4, msg=name)


@pytest.mark.rows(3)
@pytest.mark.usefixtures("also_in_fp64")
@pytest.mark.parametrize("architecture", MODELS)
def test_neither_cut_nor_layout_changes_what_is_dropped(architecture: str) -> None:
    model = dropping(architecture)
    one = passed(model, WHOLE, packed=False)
    assert_equal(one, passed(model, CUT, packed=False))
    without = passed(model.eval(), WHOLE, packed=False)
    assert abs(without[0] / one[0] - 1) > 1e-4, "something is dropped"
    model.train()
    for other in ({"seed": SEED + 1}, {"epoch": 1}, {"seed": None}):
        assert abs(passed(model, CUT, packed=False, **other)[0] / one[0] - 1) > 1e-4, other
    if architecture != "deberta-v2":
        model.pack_rows()
        assert_equal(one, passed(model, WHOLE, packed=True))
        assert_equal(one, passed(model, CUT, packed=True))


def test_a_head_that_is_computed_in_pieces_drops_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = dropping("gpt_bert")
    one = passed(model, WHOLE, packed=False)
    monkeypatch.setattr(sparse_head, "LOGITS_AT_ONCE", 3 * VOCABULARY)
    assert_equal(one, passed(model, WHOLE, packed=False))


def test_attention_of_second_derivatives_drops_the_same() -> None:
    model = dropping("bert")
    model.pack_rows()
    one = passed(model, WHOLE, packed=True)
    with sdpa_kernel(SDPBackend.MATH):
        assert_equal(one, passed(model, CUT, packed=True))


@pytest.mark.parametrize(
    ("architecture", "packed"),
    [("bert", True), ("modernbert", False), ("gpt_bert", True), ("mosaic_bert", False)],
)
def test_activations_computed_again_are_dropped_as_before(architecture: str, packed: bool) -> None:
    plain, again = dropping(architecture), dropping(architecture)
    again.recompute_activations()
    for model in (plain, again):
        if packed:
            model.pack_rows()
    assert_equal(passed(plain, CUT, packed), passed(again, CUT, packed))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_padded_attention_without_keys_is_transformers_own(dtype: torch.dtype) -> None:
    model = dropping("bert").eval()
    batch = collator("mlm")(flat(documents(LENGTHS)))
    with torch.autocast("cpu", dtype, enabled=dtype == torch.bfloat16), dropout_keys(batch, SEED):
        ours = float(model(batch)["loss"].detach())
    model.pretrained.set_attn_implementation("eager")
    assert ours == pytest.approx(
        float(model(batch)["loss"].detach()), rel=1e-6 if dtype == torch.float32 else 1e-2
    )


def test_causal_rows_and_shared_keys_drop_from_what_they_would_see() -> None:
    model = dropping("bert")
    attention = model.pretrained.bert.encoder.layer[0].attention.self
    attention.num_key_value_groups = 2
    query, key = torch.randn(2, 4, 9, 8), torch.randn(2, 2, 9, 8)
    value = torch.eye(9)[None, None].expand(2, 2, 9, 9)
    batch: MicroBatch = {"sample_keys": torch.tensor([3, 4]), "input_ids": torch.zeros(2, 9)}
    with dropout_keys(batch, SEED):
        dropped = padded_attention(attention, query, key, value, None, 0.3, is_causal=True)[0].transpose(1, 2)
    plain = padded_attention(attention, query, key, value, None, 0.0, is_causal=True)[0].transpose(1, 2)
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], plain[kept] / 0.7, rtol=1e-4, atol=1e-6)
    assert not dropped.triu(1).any()
    assert float((dropped == 0).float().mean()) > float((plain == 0).float().mean()) + 0.05


def keys_of(samples: list[int], length: int, seed: int = SEED) -> DropoutKeys:
    batch: MicroBatch = {"sample_keys": torch.tensor(samples), "input_ids": torch.zeros(len(samples), length)}
    return DropoutKeys(batch, seed)


def test_hash_is_that_of_the_keyed_generator() -> None:
    numbers = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 1000)
    theirs = keyed.mix64(numbers.astype(np.uint64)).astype(np.int64)
    assert np.array_equal(mix64(torch.from_numpy(numbers.copy())).numpy(), theirs)
    stream = keyed.token_bits(np.array([77], dtype=np.uint64), np.array([3])).view(np.int16)
    assert bits(torch.tensor([77]), 10).tolist() == [stream[:10].tolist()]


def test_bits_are_even_and_independent_of_sample_place_module_and_feature() -> None:
    modules = nn.Sequential(*[nn.Dropout(0.5) for _ in range(2)])
    replace_dropout(modules)
    shape = torch.Size((2, 128, 256))
    of = [keys_of([5, 6], 128).of_elements(module, shape) for module in (modules[0], modules[0], modules[1])]
    of.append(keys_of([5, 6], 128, SEED + 1).of_elements(modules[0], shape))
    assert torch.equal(of[0], of[1])  # type: ignore[arg-type]
    first, _, other, next_step = (part.double() for part in of if part is not None)
    pairs = {
        "module": (first, other), "step": (first, next_step), "sample": (first[0], first[1]),
        "place": (first[:, 1:], first[:, :-1]), "feature": (first[..., 1:], first[..., :-1]),
        "word": (first[..., 4:], first[..., :-4]), "place and feature": (first[:, 1:, 1:], first[:, :-1, :-1]),
    }  # fmt: skip
    for name, (one, two) in pairs.items():
        correlation = float(torch.corrcoef(torch.stack([one.flatten(), two.flatten()]))[0, 1])
        assert abs(correlation) < 0.025, f"{name}: more than four standard deviations"
    counts = torch.histc(first, 16, -(2**15), 2**15)
    expected = first.numel() / 16
    assert float(((counts - expected) ** 2 / expected).sum()) < 45, "chi squared of 15 degrees of freedom"


def test_weights_of_attention_have_bits_by_head_query_and_key() -> None:
    keys = keys_of([5, 6], 17)
    queries = keys.of_queries(nn.Identity()).view(2, 17)
    whole = keys.of_weights(queries, 4, 17)
    assert whole.shape == (2, 4, 17, 17)
    assert torch.equal(whole[:, :2, :9, :6], keys.of_weights(queries[:, :9], 2, 6)), (
        "shorter rows, fewer heads"
    )
    assert len(whole.unique()) > 0.95 * whole.numel(), "2,312 of 65,536"


def test_each_call_of_a_module_has_bits_of_its_own_and_the_backward_pass_finds_them_again() -> None:
    keys, module, shape = keys_of([5], 8), nn.Dropout(0.5), torch.Size((1, 8, 12))
    there = [keys.of_elements(module, shape) for _ in range(3)]
    keys.computing_again = True
    back = [keys.of_elements(module, shape) for _ in range(3)]
    assert all(torch.equal(one, two) for one, two in zip(there, reversed(back), strict=True))  # type: ignore[arg-type]
    assert not torch.equal(there[0], there[1])  # type: ignore[arg-type]


def test_tensors_that_are_not_of_samples_are_left_to_the_generator() -> None:
    keys, module = keys_of([5, 6, 7], 8), nn.Dropout(0.5)
    assert keys.of_elements(module, torch.Size((5, 12))) is None
    pooled, tokens = keys.of_elements(module, torch.Size((3, 12))), keys_of([5, 6, 7], 8).tokens.view(3, 8)
    assert pooled is not None
    assert torch.equal(keys.samples, tokens[:, 0])
    assert current_keys() is None
    with dropout_keys({"input_ids": torch.zeros(1, 4)}, SEED) as without:
        assert without is None
