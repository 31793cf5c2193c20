"""Where training samples came from.

- `places`: the file and document or row of a sample.
- `holders`: the documents or rows that hold a text, with their samples.
"""
