"""Words with labels: what readers of such data share, and several columns of labels at once.

- `fields`: the words of a row, and their labels; `spans`: entities by their characters.
- `joint_tagging`: a label for each word in each of several columns.
"""
