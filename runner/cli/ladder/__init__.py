"""`tiryns ladder`: the best rate of each width, the law of the loss, and a prediction of the next size before it is run.

- `command`: the command and its sweeps; `rungs`: the results of the runs in a folder, as lines and as a page.
"""
