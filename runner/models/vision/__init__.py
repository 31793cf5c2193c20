"""Vision-language models.

- `image_text`: models with random weights, from the config classes of transformers.
- `vision_language`: the task model, which trains and writes answers.
- `image_arguments`: the arguments of a model for images, by its own names.
"""
