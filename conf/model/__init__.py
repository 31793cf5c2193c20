"""Models: encoders of text, and vision-language models."""

from conf.model import text, vision

__all__ = ["text", "vision"]
