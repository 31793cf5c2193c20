"""Each architecture computes its published formulas: here once more in float64, one token and one pair at a time."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.models.tiny import tiny
from tests.objectives.samples import VOCABULARY

pytestmark = pytest.mark.fp32  # the formulas are in float64

LENGTH = 41


def normed(x: Tensor, eps: float, norm: Any = None) -> Tensor:
    """A layer norm of one token, with the weights of a module if given."""
    centred = x - x.mean()
    scaled = centred / math.sqrt(float((centred**2).mean()) + eps)
    return scaled if norm is None else scaled * norm.weight + norm.bias


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def tanh_gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def linear(matrix: Any, x: Tensor) -> Tensor:
    return matrix.weight @ x + (0 if matrix.bias is None else matrix.bias)


def mixed(score: Callable[[int, int, int], Any], values: list[Tensor], num_heads: int) -> list[Tensor]:
    """Attention from the score of head, query and key."""
    found, size = [], len(values[0]) // num_heads
    for i in range(len(values)):
        parts = []
        for head in range(num_heads):
            weights = torch.stack([score(head, i, j) for j in range(len(values))]).exp()
            own = [value[head * size : (head + 1) * size] for value in values]
            parts.append(sum(w * v for w, v in zip(weights, own, strict=True)) / weights.sum())
        found.append(torch.cat(parts))
    return found


def crammed_bert(model: Any, ids: list[int]) -> list[Tensor]:
    body, config = model.model, model.config
    eps, width, heads = config.layer_norm_eps, config.hidden_size, config.num_attention_heads
    size, table = width // heads, body.embeddings.tok_embeddings.weight
    states = []
    for place, token in enumerate(ids):
        x = table[token].clone()
        for k in range(0, width, 2):
            angle = place / 10000 ** (k / width)
            x[k] += body.embeddings.position_scale[0] * math.sin(angle)
            x[k + 1] += body.embeddings.position_scale[0] * math.cos(angle)
        states.append(normed(x, eps, body.embeddings.norm))
    for layer in body.layers:
        qkv = [linear(layer.attn.Wqkv, normed(x, eps, layer.attn_norm)) for x in states]

        def score(head: int, i: int, j: int, qkv: list[Tensor] = qkv) -> Tensor:
            at = slice(head * size, (head + 1) * size)
            return qkv[i][:width][at] @ qkv[j][width : 2 * width][at] / math.sqrt(size)

        out = mixed(score, [each[2 * width :] for each in qkv], heads)
        states = [x + linear(layer.attn.Wo, y) for x, y in zip(states, out, strict=True)]
        wide = [linear(layer.mlp.Wi, normed(x, eps, layer.mlp_norm)) for x in states]
        half = config.intermediate_size
        states = [
            x + linear(layer.mlp.Wo, gelu(y[half:]) * y[:half]) for x, y in zip(states, wide, strict=True)
        ]
    return [table @ normed(x, eps, body.final_norm) for x in states]


def mosaic_bert(model: Any, ids: list[int]) -> list[Tensor]:
    body, config = model.model, model.config
    eps, width, heads = config.layer_norm_eps, config.hidden_size, config.num_attention_heads
    size, table, half = width // heads, body.embeddings.tok_embeddings.weight, config.intermediate_size
    types = body.embeddings.type_embeddings.weight
    slopes = {3: [1 / 16, 1 / 256, 1 / 4], 2: [1 / 16, 1 / 256]}[heads]
    states = [normed(table[token] + types[0], eps, body.embeddings.norm) for token in ids]
    for layer in body.layers:
        qkv = [linear(layer.attn.Wqkv, x) for x in states]

        def score(head: int, i: int, j: int, qkv: list[Tensor] = qkv) -> Tensor:
            at = slice(head * size, (head + 1) * size)
            product = qkv[i][:width][at] @ qkv[j][width : 2 * width][at] / math.sqrt(size)
            return product - slopes[head] * abs(i - j)

        out = mixed(score, [each[2 * width :] for each in qkv], heads)
        states = [
            normed(x + linear(layer.attn.Wo, y), eps, layer.attn_norm)
            for x, y in zip(states, out, strict=True)
        ]
        wide = [linear(layer.mlp.Wi, x) for x in states]
        states = [
            normed(x + linear(layer.mlp.Wo, gelu(y[:half]) * y[half:]), eps, layer.mlp_norm)
            for x, y in zip(states, wide, strict=True)
        ]
    head = model.head
    return [table @ normed(gelu(linear(head.dense, x)), eps, head.norm) + model.decoder.bias for x in states]


def bucket(distance: int, half: int, longest: int) -> int:
    if abs(distance) <= half:
        return distance
    far = min(abs(distance), longest - 1)
    step = math.ceil(math.log(far / half) / math.log((longest - 1) / half) * (half - 1) - 1e-9)
    return int(math.copysign(half + step, distance))


def gpt_bert(model: Any, ids: list[int]) -> list[Tensor]:
    body, config = model.model, model.config
    eps, width, heads = config.layer_norm_eps, config.hidden_size, config.num_attention_heads
    size, table, half = width // heads, body.embeddings.tok_embeddings.weight, config.intermediate_size
    count = config.position_bucket_size
    distances = {
        d: normed(
            body.embeddings.bucket_embeddings.weight[
                bucket(d, count // 2, config.max_position_embeddings) + count - 1
            ],
            eps,
            body.embeddings.bucket_norm,
        )
        for d in range(1 - len(ids), len(ids))
    }
    states = [normed(table[token], eps) for token in ids]
    outputs = [states]
    for layer in body.layers:
        attn = layer.attn
        qk = [linear(attn.Wqk, normed(x, eps)) for x in states]
        vg = [linear(attn.Wvg, normed(x, eps)) for x in states]
        far = {d: linear(attn.Wqk, x) for d, x in distances.items()}

        def score(head: int, i: int, j: int, qk: list[Tensor] = qk, far: dict[int, Tensor] = far) -> Tensor:
            query = slice(head * size, (head + 1) * size)
            key = slice(width + head * size, width + (head + 1) * size)
            q, k, at = qk[i][query], qk[j][key], far[i - j]
            return (q @ k + q @ at[key] + k @ at[query]) / math.sqrt(3 * size)

        out = mixed(score, [each[:width] for each in vg], heads)
        out = [normed(y * gelu(each[width:]), eps) for y, each in zip(out, vg, strict=True)]
        outputs.append([x + linear(attn.Wo, y) for x, y in zip(states, out, strict=True)])
        states = [sum(w * y for w, y in zip(layer.after_attn, each, strict=True)) for each in zip(*outputs)]  # noqa: B905
        wide = [linear(layer.mlp.Wi, normed(x, eps)) for x in states]
        wide = [normed(y[:half] * tanh_gelu(y[half:]), eps) for y in wide]
        outputs.append([x + linear(layer.mlp.Wo, y) for x, y in zip(states, wide, strict=True)])
        states = [sum(w * y for w, y in zip(layer.after_mlp, each, strict=True)) for each in zip(*outputs)]  # noqa: B905
    return [
        table @ normed(gelu(linear(model.head.dense, normed(x, eps))), eps) + model.decoder.bias
        for x in states
    ]


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    ("formulas", "sizes"),
    [
        (crammed_bert, {}),
        (mosaic_bert, {}),
        (mosaic_bert, {"hidden_size": 24, "num_attention_heads": 3}),
        (gpt_bert, {"position_bucket_size": 8, "max_position_embeddings": 30}),
        (gpt_bert, {}),
    ],
)
def test_logits_are_those_of_the_formulas(
    formulas: Callable[..., list[Tensor]], sizes: dict[str, Any]
) -> None:
    model = tiny(formulas.__name__, **sizes).double()
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        if parameter.ndim < 2:  # norms, biases, scales and weights of outputs are not 1 and 0
            parameter.data += 0.2 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    ids = torch.randint(5, VOCABULARY, (LENGTH,), generator=generator)
    with torch.no_grad():
        found = model(input_ids=ids[None]).logits[0]
        expected = torch.stack(formulas(model, ids.tolist()))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6 if formulas is crammed_bert else 1e-10)
    assert expected.std() > 0.1
