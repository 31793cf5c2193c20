"""`tiryns plan`: data, samples, lengths, parameter groups, learning rate and costs of a run, which it does not train.

- `content`: the parts of the plan, as numbers.
- `nominal`: the plan of a run whose data is not given, with hours on GPUs of other types, and `nominal_run` the run.
- `shown`: the same for people, or as JSON.
"""
