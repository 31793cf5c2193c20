"""Objectives of finetuning on labelled rows.

- `classification`: labels of texts; `token_classification`: labels of words; `question_answering`: answers in contexts.
- `joint_tagging`: several labels of words.
- `label_options`: the loss of labels and its settings; `finetuning`: what all of them share.
"""
