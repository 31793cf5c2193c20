"""What a model's frozen features are worth, without training it: `mode=probe`.

- `encoder`: an encoder, and features of texts and of words.
- `probes`: what is measured for each kind of data; `mteb_tasks`: tasks of mteb, through the same encoder.
"""
