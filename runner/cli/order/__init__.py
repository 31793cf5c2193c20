"""`tiryns order`: which samples a run trains on, at which steps, without training.

- `command`: the command and its formats; `opened`: a run's data and sampler, its check against `order.txt`, what became
  of the documents or rows that hold a text, and two runs.
"""
