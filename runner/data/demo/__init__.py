"""Data that is made here, for tests and first steps: nothing to download.

- `stdlib_text`: the documentation of the standard library as documents.
- `stdlib_tasks`: labelled examples from its sources, for each finetuning task.
- `scenes`: drawn shapes with captions and questions.
"""
