"""Labelled rows for finetuning.

- `examples`: `ExampleReader` and `TaskSequences`, the base classes of the readers of tasks and of their samples.
- `classification`, `token_classification`, `question_answering`: one task each.
- `lists`: lists of candidates, for ranking and multiple choice.
- `words`: words with several columns of labels, and entities by character offsets.
- `labels`: names and numbers of labels; `labels_from_zero`: the rule of earlier versions; `spelling`: how labels are
  written; `columns`: the columns that the user probably meant, and hidden labels.
- `finetuning`: `FinetuningData`, the data module that serves a task; `measured`: data for evaluation alone.
"""
