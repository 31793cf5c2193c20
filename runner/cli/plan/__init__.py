"""`tiryns plan`: data, samples, lengths, parameter groups, learning rate and costs of a run, which it does not train.

- `content`: the parts of the plan, as numbers; `nominal`: those of a run whose data is not given, with hours on GPUs.
- `shown`: the same for people, or as JSON.
"""
