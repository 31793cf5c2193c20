"""A run evaluated twice on the same rows, by torch and by onnxruntime, in fp32 and padded rows."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tiryns.runner.cli.models.evaluate import progress
from tiryns.runner.cli.models.onnx.graph import SPANS, Network, Session, complete_rows
from tiryns.runner.config.run_config import recorded_config
from tiryns.runner.data.batches import GatheredSequences
from tiryns.runner.data.labelled.examples import TaskSequences
from tiryns.runner.evaluation.statistics.intervals import Weights, bootstrap
from tiryns.runner.inference.answering import sees_images
from tiryns.runner.inference.labelled import Labels, task_of
from tiryns.runner.inference.language.figures import DocumentSequences, LanguageModel
from tiryns.runner.inference.language.infill import generates, open_model
from tiryns.runner.inference.passes import Measured
from tiryns.runner.loop.assembly import make_data
from tiryns.runner.models.embedding.contrastive import ContrastiveModel
from tiryns.runner.models.finetuning import QuestionAnswerer, SequenceClassifier, TokenClassifier
from tiryns.runner.models.pretraining.sparse_head import SparseMaskedLM
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.patches.transformers import takes_attention
from tiryns.runner.run.folder import Run
from tiryns.runner.tasks.multiple_choice.model import MultipleChoiceModel

KINDS = (SparseMaskedLM, SequenceClassifier, TokenClassifier, QuestionAnswerer, ContrastiveModel)
"""Task models that can be computed from the outputs of a graph."""

TOKENS = 4096
"""Most tokens of a micro-batch, as the graph of a language model gives the logits of all tokens."""

TOLERANCE = 1e-4
"""Allowed difference of an output in fp32, relative to the largest output if that is above 1."""

Forward = Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]]
"""A function from the arguments of a model to the outputs of a graph by name."""

Opened = Labels | LanguageModel


def open_for_graph(run: str) -> Opened:
    """Returns the model of a run, computed in fp32 and padded rows; raises ValueError for models without a graph."""
    parts = open_model(run)
    kinds = "masked language models, classifiers of texts or words, models for ranking or questions, and sentence vectors"
    problem = f"--format onnx exports {kinds}, and the model in {run!r} is none: leave it out"
    if sees_images(parts.config) or generates(parts.config):
        raise ValueError(problem)
    task = task_of(run, parts.config.architectures or [])
    model = LanguageModel(run, parts, {}) if task is None else Labels(run, task, parts)
    if not isinstance(model.model, KINDS) or isinstance(model.model, MultipleChoiceModel):
        raise ValueError(problem)
    if takes_attention(model.model.pretrained):
        model.model.pretrained.set_attn_implementation("eager")
    tokens = min(model.computation.micro_batch_tokens or TOKENS, TOKENS)
    plain = model.computation._replace(precision="32-true", layout="padded", micro_batch_tokens=tokens)
    model.computation = plain.set_up(model.collator, model.model)
    return model


def rows_of_run(run: Path, model: Opened, allowed: list[str]) -> dict[str, TaskSequences]:
    """Returns the test sets of a run by name, then its validation sets; raises ValueError for a run without rows."""
    if not (run / "config.yaml").is_file():
        raise ValueError(f"--format onnx measures on a run's rows; {str(run)!r} is no run: name a run folder")
    data = make_data(recorded_config(run, allowed), Run(run).status.get("resolved"))
    sets: dict[str, Any] = {}
    if data.serves_global_batches:
        data.prepare_data()
        sets = {f"test/{name}": one for name, one in data.test.items()}
        sets |= {f"val/{name}": one for name, one in data.validation.items()}
    if not sets:
        raise ValueError(f"--format onnx measures on validation or test rows, and {str(run)!r} has none")
    of_text = isinstance(model, LanguageModel)
    return {name: as_documents(sequences) if of_text else sequences for name, sequences in sets.items()}


def as_documents(sequences: GatheredSequences) -> DocumentSequences:
    """Returns the sequences of a set of text, each as a document."""
    ids, lengths = sequences.gather(np.arange(len(sequences)))
    cut = [ids[start:stop] for start, stop in pairwise(np.cumsum([0, *lengths]))]
    return DocumentSequences(cut, list(range(len(cut))), [0] * len(cut))


def measure(model: Opened, sequences: Any, name: str, forward: Forward | None = None) -> Measured[object]:
    """Measures a set as the run did; the network is computed by torch, or by a graph if `forward` is given."""
    with use_forward(model.model, forward) if forward else nullcontext():
        return model.measure(sequences, progress(name))


@contextmanager
def use_forward(model: TaskModel, forward: Forward) -> Iterator[None]:
    """Makes a graph compute the network of a task's model in the block."""
    network: Any = model.pretrained
    body = network.base_model
    if isinstance(model, ContrastiveModel):
        body.forward = lambda **rows: (forward(rows)["last_hidden_state"],)
    elif isinstance(model, SparseMaskedLM):  # logits pass as hidden states, through a head that does nothing
        body.forward = lambda **rows: (forward(rows)["logits"],)
        network.forward = lambda **_: SimpleNamespace(logits=network.base_model()[0])
    else:
        network.forward = lambda **rows: SimpleNamespace(**forward(rows))
    try:
        yield
    finally:
        for part in (body, network):
            vars(part).pop("forward", None)


class Agreement:
    """Computes a graph, and compares each output with the output of torch."""

    def __init__(self, session: Session, network: Network) -> None:
        self.session, self.network = session, network
        self.largest = 0.0
        """The largest difference so far, relative to its micro-batch's largest output if that is above 1."""

    def __call__(self, rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns the outputs of the graph by name."""
        outputs = self.session(rows)
        with torch.no_grad():
            references = self.network(*complete_rows(rows, self.network.inputs))
        mask = rows["attention_mask"].bool().cpu()
        for name, other in zip(self.network.outputs, references, strict=True):
            of_tokens = name in SPANS or other.dim() == 3
            one, other = (value[mask] if of_tokens else value for value in (outputs[name].cpu(), other))
            difference = float((one - other).abs().max() / other.abs().max().clamp_min(1.0))
            self.largest = max(self.largest, difference) if difference == difference else math.inf
        return outputs


def difference_intervals(before: Measured[object], after: Measured[object]) -> dict[str, list[float]]:
    """Returns the 95 % interval of each metric, `after` minus `before`, by paired bootstrap; empty if it is unknown."""
    first, second = before.statistic(), after.statistic()
    if first is None or second is None or first[1] != second[1]:
        return {}

    def differences(weights: Weights) -> dict[str, Weights]:
        old, new = first[0](weights), second[0](weights)
        return {name: new[name] - old[name] for name in old if name in before.figures}

    return {name: ends.tolist() for name, ends in bootstrap(differences, first[1]).items()}
