"""Multiple choice: lists of candidates in one row, of which one is right.

- `model`: ranking, of which this is a case with the listwise loss, for heads that read all choices at once as well.
- `task`: the task, how labels tell the choice that is right, and its predictions.
"""
