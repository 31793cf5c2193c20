"""Statistics of figures: how far a figure, or the difference of two, may be chance.

- `intervals`: percentile bootstrap over samples.
"""
