"""Rules of the code itself: sizes, docstrings, private names of libraries."""
