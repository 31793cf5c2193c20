"""Objectives of finetuning on labelled rows.

- `classification`: labels of texts; `token_classification`: labels of words; `question_answering`: answers in contexts.
- `finetuning`: what all of them share, such as the loss of labels and its settings.
"""
