"""Distillation: a student learns from the outputs of a frozen teacher.

- `teacher`: loads and checks the teacher, which is no part of the student's state.
- `losses`: divergences of logits, distances of hidden states.
- `masked_lm`, `classifier`, `vectors`: the students; a classifier may keep its teacher's outputs on disk.
"""
