"""`tiryns ladder`: the best rate of each width, the law of the loss, and a prediction of the next size before it is run.

- `command`: the command and its sweeps; `rungs`: what the runs of a folder say, in lines and on a page.
"""
