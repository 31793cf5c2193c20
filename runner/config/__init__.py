"""What a config may say.

- `checks`: contradictions in a config, found before anything heavy is imported.
- `targets`: which classes and functions a config may name.
- `permissions`: settings that only the user may change.
- `custom_code`: models of transformers that bring code.
"""
