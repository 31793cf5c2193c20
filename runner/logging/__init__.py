"""Where metrics go: `metrics.csv`, Weights & Biases, TensorBoard."""
