"""Distillation: a student learns from the outputs of a frozen teacher.

- `teacher`: loads and checks the teacher, which is no part of the student's state.
- `losses`: divergences of logits, distances of hidden states, and their weights.
- `cache`: a teacher's outputs for all training samples, kept on disk.
- `masked_lm`, `classifier`, `vectors`: the students.
"""
