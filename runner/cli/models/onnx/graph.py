"""A model of transformers as an ONNX graph: exported by torch, quantized and computed by onnxruntime.

Letters in shapes: B rows, T tokens.
"""

import inspect
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from tiryns.runner.models.embedding.folder import Embedding
from tiryns.runner.models.embedding.pooling import pool
from tiryns.runner.models.packed.rows import padded_rows
from tiryns.runner.models.packed.trials import in_one_line, trial_documents
from tiryns.runner.patches.transformers import takes_attention

OPSET = 18
"""Operator set of the graph: the oldest that torch writes without conversion."""

LARGEST_FILE = 2**31 - 2**24
"""Most bytes of weights inside a graph; larger weights go into a file beside it, as protobuf holds at most 2 GiB."""

SPANS = ("start_logits", "end_logits")


class Network(nn.Module):
    """A model in evaluation mode, in fp32, as a function of padded rows [B, T], with attention that can be exported.

    The outputs are `logits`, or `start_logits` and `end_logits` for question answering. With an `embedding`, they are
    `last_hidden_state` and the pooled `sentence_embedding`, normalised if the embedding says so.
    """

    def __init__(
        self, pretrained: PreTrainedModel, has_token_types: bool, embedding: Embedding | None = None
    ) -> None:
        super().__init__()
        if takes_attention(pretrained):
            pretrained.set_attn_implementation("eager")
        self.pretrained, self.embedding = pretrained, embedding
        takes_types = has_token_types and "token_type_ids" in inspect.signature(pretrained.forward).parameters
        self.inputs = ("input_ids", "attention_mask", *(["token_type_ids"] if takes_types else []))
        if embedding is not None:
            self.outputs: tuple[str, ...] = ("last_hidden_state", "sentence_embedding")
        else:
            answers = type(pretrained).__name__.endswith("ForQuestionAnswering")
            self.outputs = SPANS if answers else ("logits",)
        self.float().eval()

    def forward(self, *rows: Tensor) -> tuple[Tensor, ...]:
        """Returns the outputs in the order of `outputs`, for rows in the order of `inputs`."""
        inputs = dict(zip(self.inputs, rows, strict=True))
        outputs = self.pretrained(**inputs)
        if self.embedding is None:
            return tuple(outputs[name] for name in self.outputs)
        hidden = outputs[0]
        vectors = pool(hidden, {"attention_mask": inputs["attention_mask"]}, self.embedding.pooling)
        return hidden, functional.normalize(vectors, dim=-1) if self.embedding.normalised else vectors


def complete_rows(rows: Mapping[str, Tensor], inputs: tuple[str, ...]) -> list[Tensor]:
    """Returns the inputs of a graph from the arguments of a model; missing token types are 0."""
    zeros = torch.zeros_like(rows["input_ids"])
    return [rows.get(name, zeros).long().cpu() for name in inputs]


def export_graph(network: Network, file: Path) -> None:
    """Writes the graph of a network with any number of rows and tokens; raises ValueError if torch fails."""
    name, size = type(network.pretrained).__name__, sum(p.nbytes for p in network.parameters())
    config = network.pretrained.config.get_text_config()
    rows: Any = padded_rows(trial_documents(config), config)
    inputs = complete_rows(rows, network.inputs)
    any_size = {0: "batch", 1: "length"}
    try:
        with torch.no_grad(), quiet():
            program: Any = torch.onnx.export(
                network, tuple(inputs), dynamo=True, input_names=list(network.inputs),
                output_names=list(network.outputs), dynamic_shapes=((any_size,) * len(inputs),),
                opset_version=OPSET, verbose=False,
            )  # fmt: skip
    except Exception as error:  # of torch.export, of whatever the model's code does
        reason = in_one_line(error.__cause__ or error)
        raise ValueError(f"torch cannot export {name} to ONNX: {reason}") from error
    for node in program.model.graph.all_nodes():  # traces with paths of this machine
        node.metadata_props.clear()
    program.save(file, external_data=size > LARGEST_FILE)


def quantize(file: Path, target: Path) -> None:
    """Writes the graph with int8 weights and inputs quantized at run time; raises ValueError if that fails."""
    quantization = library("onnxruntime.quantization")
    whole = file.with_name(f"{file.name}.data").exists()
    try:
        with quiet():
            quantization.quantize_dynamic(
                file, target, weight_type=quantization.QuantType.QInt8, use_external_data_format=whole
            )
    except Exception as error:  # of onnx and onnxruntime
        raise ValueError(f"onnxruntime cannot quantize the graph: {in_one_line(error)}") from error


class Session:
    """A graph that onnxruntime computes on the CPU, with torch's number of threads."""

    def __init__(self, file: Path) -> None:
        runtime = library("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = torch.get_num_threads(), 3
        try:
            self._session = runtime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # of onnxruntime, which has kinds of its own
            raise ValueError(f"onnxruntime cannot load the graph: {in_one_line(error)}") from error
        self.inputs = tuple(one.name for one in self._session.get_inputs())
        self.outputs = tuple(one.name for one in self._session.get_outputs())

    def __call__(self, rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns the outputs by name for the arguments of a model; raises ValueError if that fails."""
        inputs = zip(self.inputs, complete_rows(rows, self.inputs), strict=True)
        try:
            arrays = self._session.run(None, {name: value.numpy() for name, value in inputs})
        except Exception as error:
            raise ValueError(f"onnxruntime cannot compute the graph: {in_one_line(error)}") from error
        device = rows["input_ids"].device
        return {name: torch.from_numpy(a).to(device) for name, a in zip(self.outputs, arrays, strict=True)}


def library(name: str) -> ModuleType:
    """Returns a package of the extra `onnx`; raises ImportError with the command that installs it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"--format onnx needs onnxruntime: pip install 'tiryns[onnx]' ({error})") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Silences logs and warnings of exporters and quantizers."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(before)
