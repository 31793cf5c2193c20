"""`tiryns push RUN TARGET --format onnx`: the model as an ONNX graph beside its weights, and its cost in metrics.

- `graph`: exports a model of transformers, quantizes it, and computes it by onnxruntime.
- `proof`: evaluates a run by torch and by onnxruntime on the same rows, with paired intervals.
- `written`: adds graph, metrics and digests to a pushed folder.
"""
