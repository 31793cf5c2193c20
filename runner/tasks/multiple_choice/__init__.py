"""Multiple choice: lists of candidates in one row, of which one is right.

- `model`: ranking with the listwise loss, also for heads that read all choices at once.
- `task`: the task, how labels identify the right choice, and its predictions.
"""
