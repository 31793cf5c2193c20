"""What frozen features of texts tell, by methods that train no encoder.

- `classifiers`: logistic regression on features, and their nearest neighbours, chosen on validation examples.
- `ranking`: cosines of pairs of texts, and the ranks of passages for queries.

Letters in shapes: D examples, H features, C classes, Q queries, P passages.
"""
