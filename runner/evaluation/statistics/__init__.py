"""Statistics of metrics: whether a metric, or the difference of two values, may be chance.

- `intervals`: percentile bootstrap over samples.
- `paired`: the difference of two settings over pairs of equal seeds, tested while the pairs come in.
- `scaling_law`: the best rate of each width, and the law of the loss.
- `student`: Student's interval for a mean.
"""
