"""Subcommands that take a trained model.

- `predict`: predicts for a text or a file; `evaluate`: measures a model on labelled files, or on text.
- `reading`: the options of both for reading a file, and the output of `predict`.
- `mine`: adds hard negatives to pairs of texts.
- `probe`: measures frozen features on labelled data, as `mode=probe`.
- `push`: copies an exported model to a folder or the hub; `onnx`: adds its graph, compared with torch.
- `consolidate`: exports the model of any checkpoint.
- `average`: one model from the weights of several; `soups`: averages of finetuned models, measured as their runs were.
"""
