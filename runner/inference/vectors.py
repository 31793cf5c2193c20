"""Vectors of texts: by a model trained for them, a folder of sentence-transformers, or a model of other vectors."""

from transformers import AutoModel, PreTrainedTokenizerBase

from tiryns.conf.registry import TASKS
from tiryns.conf.values import Settings
from tiryns.runner.data.pairs.reader import Pair
from tiryns.runner.evaluation.files import PredictionRow
from tiryns.runner.inference.frozen.encoder import FrozenEncoder
from tiryns.runner.inference.kinds import OfTexts, PredictOptions
from tiryns.runner.inference.labelled import Labels, saved_task
from tiryns.runner.inference.language.infill import Opened
from tiryns.runner.inference.passes import as_trained, passes
from tiryns.runner.models.embedding.folder import PASSAGE, Embedding
from tiryns.runner.models.positions import longest_text
from tiryns.runner.models.weights import load_weights
from tiryns.runner.run.model_folder import model_folder
from tiryns.runner.tasks import get_task
from tiryns.runner.tasks.contrastive import Contrastive


class Vectors(OfTexts):
    """An encoder with its pooling and prompts: `encode` of sentence-transformers, computed as in training."""

    name, at_once = "vectors", 2048  # a multiple of the samples that an evaluation sorts by length

    def __init__(
        self, run: str, embedding: Embedding, tokenizer: PreTrainedTokenizerBase, changes: Settings
    ) -> None:
        super().__init__(changes)
        pretrained, _ = load_weights(AutoModel, model_folder(run))  # without a pooler, where it has none
        bounds = [embedding.max_length, tokenizer.model_max_length, longest_text(pretrained)]
        embedding = embedding._replace(max_length=min(bound for bound in bounds if bound))
        self.model = FrozenEncoder(pretrained, tokenizer, embedding, as_trained(run))
        self.computation = self.model.computation

    def of_texts(self, texts: list[str], options: PredictOptions, number: int) -> list[PredictionRow]:
        """The `embedding` of each text, a list of numbers."""
        width = self.model.model.pretrained.config.hidden_size
        if options.dimensions is not None and not 1 <= options.dimensions <= width:
            raise ValueError(
                f"dimensions={options.dimensions}: expected 1 to {width}, the size of the vectors"
            )
        self.model.computation = self.computation.bounded(options.tokens or None)
        vectors = self.model.embed(texts, prompt=options.prompt)[:, : options.dimensions] if texts else []
        return [{"embedding": vector.tolist()} for vector in vectors]


def encoding_task(run: str) -> Contrastive | None:
    """The task that a run has learnt other vectors than single ones for; None for other models."""
    saved = saved_task(run)
    task = get_task(saved["data"]["task"]) if saved and saved["data"]["task"] in TASKS else None
    return task if isinstance(task, Contrastive) and not task.single else None


class Encoded(OfTexts):
    """What the task of a run says of the vectors of each text, as a query or as a passage."""

    name, at_once = "vectors", 2048  # a multiple of the samples that an evaluation sorts by length

    def __init__(self, run: str, task: Contrastive, opened: Opened, changes: Settings) -> None:
        super().__init__(changes)
        self.trained, self.task = Labels(run, task, opened), task
        self.model = self.trained.model

    def of_texts(self, texts: list[str], options: PredictOptions, number: int) -> list[PredictionRow]:
        """The `embedding` of each text. Raises ValueError for a prompt of neither, and for fewer dimensions."""
        if options.prompt not in (None, "query", *PASSAGE):
            raise ValueError(f"prompt={options.prompt} is none of the model's: expected query or passage")
        if options.dimensions is not None:
            raise ValueError("dimensions: vectors of this model cannot be cut")
        if not texts:
            return []
        column = 0 if options.prompt == "query" else 1
        both = [(text, "") if column == 0 else ("", text) for text in texts]
        pairs = [Pair("", *each, negatives=[], score=float("nan"), match=None, where="") for each in both]
        trained, made = self.trained, [PredictionRow()] * len(texts)
        length = trained.collator.max_sequence_length
        sequences = trained.reader.tokenize(pairs, trained.tokenizer, length, training=False)
        computation = trained.computation.bounded(options.tokens or None)
        for passed in passes(trained.model, trained.collator, sequences, computation):
            vectors = passed.output["rows"][:, column].cpu()
            for place, vector in zip(passed.micro_batch["samples"].tolist(), vectors, strict=True):
                made[place] = {"embedding": self.task.shown(vector, trained.tokenizer)}
        return made
