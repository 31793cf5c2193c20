"""`iolaus plan`: data, samples, lengths, parameter groups, learning rate and costs of a run, which it does not train.

- `content`: the parts of the plan, as numbers; `phases`: those of its phases.
- `shown`: the same for people, or as JSON.
"""
