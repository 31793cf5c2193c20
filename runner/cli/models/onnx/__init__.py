"""`tiryns push RUN TARGET --format onnx`: the model as an ONNX graph beside its weights, and what that costs.

- `graph`: exports a model of transformers, quantizes it, and computes it by onnxruntime.
- `proof`: evaluates a run by torch and by onnxruntime on the same rows, with paired intervals.
- `written`: adds graph, figures and digests to a pushed folder.
"""
