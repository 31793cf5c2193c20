"""Words with labels: what readers of such data share, and several columns of labels at once.

- `fields`: the words of a row, and their labels; `spans`: entities by their characters; `offsets`: the unit that their
  places are counted in; `label_studio`: tasks of its export.
- `tags`: the schemes of tags of entities, and their decoding.
- `running_text`: tokenizers that read a word as running text has it.
- `joint_tagging`: a label for each word in each of several columns.
"""
