"""Vectors of texts, by a model that was trained for them or a folder of sentence-transformers."""

from collections.abc import Mapping
from typing import Any

from transformers import AutoModel

from tiryns.runner.data.read.rows import Rows
from tiryns.runner.inference.frozen.encoder import FrozenEncoder
from tiryns.runner.inference.kinds import Kept, OfTexts, PredictOptions
from tiryns.runner.inference.passes import as_trained
from tiryns.runner.models.embedding.folder import Embedding
from tiryns.runner.models.positions import longest_text
from tiryns.runner.models.weights import load_weights
from tiryns.runner.run.model_folder import model_folder


class Vectors(OfTexts):
    """An encoder with its pooling and prompts: `encode` of sentence-transformers, computed as in training."""

    name, at_once = "vectors", 2048  # a multiple of the samples that an evaluation sorts by length

    def __init__(self, run: str, embedding: Embedding, tokenizer: Any, changes: Mapping[str, Any]) -> None:
        super().__init__(changes)
        pretrained, _ = load_weights(AutoModel, model_folder(run))  # without a pooler, where it has none
        bounds = [embedding.max_length, tokenizer.model_max_length, longest_text(pretrained)]
        longest = min(bound for bound in bounds if bound)
        embedding = embedding._replace(max_length=longest)
        self.model = FrozenEncoder(pretrained, tokenizer, embedding, as_trained(run))
        self.computation = self.model.computation

    def predict(self, rows: Rows, options: PredictOptions, number: int) -> Kept:
        """The `embedding` of each text, a list of numbers."""
        kept, texts = self.texts(rows)
        width = self.model.model.pretrained.config.hidden_size
        if options.dimensions is not None and not 1 <= options.dimensions <= width:
            raise ValueError(
                f"dimensions={options.dimensions}: expected 1 to {width}, the size of the vectors"
            )
        self.model.computation = self.computation.bounded(options.tokens or None)
        vectors = self.model.embed(texts, prompt=options.prompt)[:, : options.dimensions] if texts else []
        pairs = zip(texts, vectors, strict=True)
        return Kept(kept, [{"text": text, "embedding": vector.tolist()} for text, vector in pairs])
