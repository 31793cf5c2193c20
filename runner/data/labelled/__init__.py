"""Labelled rows for finetuning.

- `examples`: `ExampleReader` and `TaskSequences`, the base classes of the readers of tasks and of their samples.
- `classification`, `token_classification`, `question_answering`: one task each.
- `lists`: lists of candidates, for ranking and multiple choice.
- `words`: words with several columns of labels, and entities by their characters.
- `labels`: names and numbers of labels, `labels_from_zero` by an earlier rule; `spelling`: how labels are written;
  `columns`: the columns that a user will have meant, and hidden labels.
- `finetuning`: `FinetuningData`, the data module that serves a task; `measured`: what is measured and not trained on.
"""
