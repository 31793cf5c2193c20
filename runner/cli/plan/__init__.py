"""`tiryns plan`: data, samples, lengths, parameter groups, learning rate and costs of a run, which it does not train.

- `content`: the parts of the plan, as numbers; `nominal`: the plan of a run without its data, with hours on GPUs.
- `shown`: the plan for people, or as JSON.
"""
