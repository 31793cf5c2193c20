"""Vision-language models.

- `image_text`: models with random weights, from the config classes of transformers.
- `vision_language`: the task model, for training and generation, and the answers that it writes to samples.
- `image_arguments`: the arguments of a model for images, by its own names.
"""
