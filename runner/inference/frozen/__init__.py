"""What a model's frozen features are worth, without training it: `mode=probe`.

- `probes`: what is measured for each kind of data, of the features that `vectors` makes.
- `mteb_tasks`: tasks of mteb, through the same encoder.
"""
