"""Losses between a student's outputs and a teacher's, in fp32.

Letters in shapes: N targets, V vocabulary or classes, H width of hidden states.
"""

import torch
from torch import Tensor
from torch.nn import functional

from tiryns.runner.widening import widen


def divergence(student: Tensor, teacher: Tensor, temperature: float, top_k: int | None = None) -> Tensor:
    """Returns T^2 KL(teacher || student) [N] of logits [N, V], both softened by T (arXiv 1503.02531, section 2).

    T^2 keeps the scale of the gradient as T changes. With `top_k` the teacher's distribution covers only its `top_k`
    likeliest tokens; the student's distribution covers all tokens.

    Example:
        >>> logits = torch.tensor([[1.0, 2.0, 3.0]])
        >>> divergence(logits, logits, 2.0).tolist(), bool(divergence(logits, -logits, 2.0) > 0)
        ([0.0], True)
    """
    teacher_logits, logs = widen(teacher) / temperature, (widen(student) / temperature).log_softmax(-1)
    if top_k is not None and top_k < teacher_logits.shape[-1]:
        teacher_logits, indices = teacher_logits.topk(top_k)
        logs = logs.gather(-1, indices)
    teacher_logs = teacher_logits.log_softmax(-1)
    return temperature**2 * functional.kl_div(logs, teacher_logs, reduction="none", log_target=True).sum(-1)


def binary_divergence(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Returns the divergence [N] of multi-label predictions: T^2 times the mean of each label's KL over logits [N, V].

    Example:
        >>> round(binary_divergence(torch.tensor([[0.0]]), torch.tensor([[2.0]]), 1.0).item(), 4)
        0.3278
    """
    student_logs, teacher_logs = (
        torch.stack([functional.logsigmoid(x), functional.logsigmoid(-x)], -1)
        for x in (widen(student) / temperature, widen(teacher) / temperature)
    )
    each = functional.kl_div(student_logs, teacher_logs, reduction="none", log_target=True).sum(-1)
    return temperature**2 * each.mean(-1)


def cosine_distance(student: Tensor, teacher: Tensor) -> Tensor:
    """Returns 1 - cos [N] of hidden states [N, H] (DistilBERT, arXiv 1910.01108, section 3).

    Example:
        >>> cosine_distance(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]])).tolist()
        [1.0]
    """
    return 1 - functional.cosine_similarity(widen(student), widen(teacher), dim=-1)


def matching_layers(student: int, teacher: int) -> list[tuple[int, int]]:
    """Returns pairs of student and teacher layers at the same relative depth, counted from 1, for two numbers of layers.

    Example:
        >>> matching_layers(3, 12)
        [(1, 4), (2, 8), (3, 12)]
        >>> matching_layers(2, 3)
        [(1, 2), (2, 3)]
    """
    return [(i, -(-i * teacher // student)) for i in range(1, student + 1)]
