"""What frozen features of texts tell, by methods that train no encoder.

- `linear`: multinomial logistic regression on features, whose L2 penalty is chosen on validation examples.
- `neighbours`: the nearest neighbours of features by cosine, whose number is chosen in the same way.
- `ranking`: cosines of pairs of texts, and the ranks of passages for queries.

Letters in shapes: D examples, H features, C classes, Q queries, P passages.
"""
