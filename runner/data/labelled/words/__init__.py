"""Words with labels: code that readers of words share, and several columns of labels at once.

- `spans`: the words of a row with labels, or entities by character offsets; `annotations`: the unit of these offsets,
  and the tasks of Label Studio's export.
- `tags`: the schemes of tags of entities, and their decoding.
- `joint_tagging`: a label for each word in each of several columns.
"""
