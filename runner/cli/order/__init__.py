"""`tiryns order`: which samples a run trains on, at which steps, without training.

- `command`: the command and its formats; `opened`: a run's data and sampler, its check against `order.txt`, and two runs.
- `places`: the file and document or row of a sample; `finding`: the samples that hold a text.
"""
