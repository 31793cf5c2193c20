"""What can be wrong with a command, a config or a file, each with words its message must have.

- `configs`: wrong words and settings, and the first inputs; `values`: numbers that no setting can have; `recipes`: YAML.
- `text`, `labelled`: files of text and of labelled rows; `text_messages`, `labelled_messages`: what is said of each.
- `models`: folders of tokenizers and models; `models_messages`: what is said of each.
- `images`: rows of images and text, images, and image bombs, with what is said of each.
- `runs`: run folders and checkpoints; `on_runs`: what commands say of them; `commands`: wrong arguments of subcommands.
"""
