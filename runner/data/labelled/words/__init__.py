"""Words with labels: what readers of such data share, and several columns of labels at once.

- `spans`: the words of a row and their labels, or entities by their characters; `annotations`: the unit that the places
  of these are counted in, and tasks of Label Studio's export.
- `tags`: the schemes of tags of entities, and their decoding.
- `joint_tagging`: a label for each word in each of several columns.
"""
