"""Conversations about images: read, encoded for a model's processor, and served as global batches."""
