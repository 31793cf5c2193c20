"""Models: encoders of text, and vision-language models."""

from iolaus.conf.model import text, vision

__all__ = ["text", "vision"]
