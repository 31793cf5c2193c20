"""Data that is made here, for tests and first steps: text and tasks of the standard library, drawn scenes."""
