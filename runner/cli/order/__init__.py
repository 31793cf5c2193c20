"""`tiryns order`: which samples a run trains on, at which steps, without training.

- `command`: the command and its formats; `opened`: the samples of a run by step, their check against
  `order.txt`, the search for documents or rows that hold a text, and the comparison of two runs.
"""
