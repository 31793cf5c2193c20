"""Statistics of figures.

- `paired`: the difference of two settings over pairs of equal seeds, tested while the pairs come in.
"""
