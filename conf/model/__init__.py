"""Models: encoders of text, those at published sizes, and vision-language models."""

from tiryns.conf.model import published, text, vision

__all__ = ["published", "text", "vision"]
