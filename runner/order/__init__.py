"""Which samples make global batch k and how it is cut: keyed numbers, permutations, partition, packing."""
