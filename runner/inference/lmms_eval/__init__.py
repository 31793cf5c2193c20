"""A vision-language model that was trained here, on tasks of lmms-eval.

- `model`: the model in lmms-eval's protocol; imported where lmms-eval is installed, as `tasks` is.
- `tasks`: finds tasks, runs them in lmms-eval's evaluator, and reads its figures.
- `plugin`: the name by which the command `lmms-eval` knows the model.
"""
