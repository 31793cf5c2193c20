"""Metrics of a model's frozen features, without training it: `mode=probe`.

- `probes`: the measurements for each kind of data, on the features that `vectors` makes.
- `mteb_tasks`: tasks of mteb, through the same encoder.
"""
