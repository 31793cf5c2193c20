"""Vision-language models: built, told of images, and trained on answers."""
