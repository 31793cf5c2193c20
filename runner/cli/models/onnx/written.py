"""Adds the graph of a model to its pushed folder, and its cost in metrics to the model card and the manifest."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tiryns.conf.registry import better_when
from tiryns.runner.cli.models.onnx import proof
from tiryns.runner.cli.models.onnx.graph import Network, Session, export_graph, library, quantize
from tiryns.runner.inference.labelled import Labels
from tiryns.runner.inference.passes import Measured
from tiryns.runner.manifest.digests import value_digest
from tiryns.runner.manifest.inputs import FILE_NAME, SIGNATURE, model_digests, read_manifest
from tiryns.runner.models.architectures.registered import class_named
from tiryns.runner.models.embedding.folder import read_embedding
from tiryns.runner.models.weights import load_weights
from tiryns.runner.report.table import markdown
from tiryns.runner.run.folder import Run

GRAPH, QUANTIZED = "onnx/model.onnx", "onnx/model_quantized.onnx"
"""Names that text-embeddings-inference, optimum and transformers.js look for."""

CARD = """
## ONNX

`{graph}` is this model in fp32, for onnxruntime: {inputs}, each [batch, length], to {outputs}.{quantized}
On the rows below its outputs in fp32 equal the outputs of torch within {largest:.1e}. Differences have a 95 % interval,
by bootstrap with the same examples for both.

{table}"""

KINDS = {"onnx": "onnxruntime", "int8": "onnxruntime in int8"}

Entry = dict[str, Any]
"""By metric, the values of torch and of each graph, and the intervals of their differences."""


def add_onnx(run: Path, folder: Path, int8: bool, most: float, allowed: Sequence[str] = ()) -> None:
    """Adds the graph to a copy of a run's model, and measures it on the rows of the run.

    Raises ValueError if the graph cannot be computed or differs from torch by more than 1e-4, or if int8 weights cost
    more than `most` of the main metric; ImportError if the extra is not installed.
    """
    for name in ("onnx", "onnxscript", "onnxruntime"):
        library(name)
    model = proof.open_for_graph(str(run))
    rows = proof.rows_of_run(run, model, list(allowed))
    embedding = read_embedding(str(folder)) if isinstance(model, Labels) else None
    pretrained_model, _ = load_weights(class_named(type(model.model.pretrained).__name__), str(folder))
    network = Network(pretrained_model, "token_type_ids" in model.tokenizer.model_input_names, embedding)
    (folder / GRAPH).parent.mkdir()
    export_graph(network, folder / GRAPH)
    agreement = proof.Agreement(Session(folder / GRAPH), network)
    forwards: dict[str, proof.Forward] = {"onnx": agreement}
    if int8:
        quantize(folder / GRAPH, folder / QUANTIZED)
        forwards["int8"] = Session(folder / QUANTIZED)
    sets: dict[str, Entry] = {}
    for name, sequences in rows.items():
        if sets and name.startswith("val/"):  # the test sets are enough
            break
        first = proof.measure(model, sequences, f"{name}, torch")
        if not first.figures:  # it has no labels
            continue
        others = {k: proof.measure(model, sequences, f"{name}, {k}", one) for k, one in forwards.items()}
        if not agreement.largest <= proof.TOLERANCE:
            raise ValueError(
                f"the ONNX graph of {type(pretrained_model).__name__} gives other outputs than torch on {name} (by "
                f"{agreement.largest:.2g}, where {proof.TOLERANCE:g} is allowed), so it is not written"
            )
        monitor = str(Run(run).monitor).rpartition("/")[2]
        sets[name], figure = entry_of(first, others), monitor if monitor in first.figures else "loss"
        if int8:
            check_cost(sets[name], figure, name, most)
        lines = [describe(sets[name][figure], kind) for kind in forwards]
        torchs = f"{sets[name][figure]['torch']:.4f} by torch"
        print(f"{name}/{figure}: {torchs}, {', '.join(lines)}", file=sys.stderr)
    if not sets:
        raise ValueError(f"no row of {str(run)!r} has a label, so there is nothing to measure the graph on")
    facts: Entry = {"graph": GRAPH, "largest_difference": agreement.largest, "sets": sets}
    facts |= {"quantized": QUANTIZED, "most": most} if int8 else {}
    write_card(folder, network, facts)
    write_manifest(folder, facts)


def entry_of(first: Measured[object], others: dict[str, Measured[object]]) -> Entry:
    """Returns, by metric, the value of torch, the value of each graph, and the interval of the difference, if known."""
    ends = {kind: proof.difference_intervals(first, one) for kind, one in others.items()}
    return {
        name: {"torch": value}
        | {kind: one.figures[name] for kind, one in others.items()}
        | {f"{kind}_difference": ends[kind][name] for kind in others if name in ends[kind]}
        for name, value in first.figures.items()
        if name != "unigram_entropy"  # which no model changes
    }


def check_cost(entry: Entry, figure: str, name: str, most: float) -> None:
    """Raises ValueError if int8 weights cost more than `most` of a metric."""
    values = entry[figure]
    worse = values["torch"] - values["int8"]
    worse = -worse if better_when(figure) == "min" else worse
    if not worse <= most:
        raise ValueError(
            f"int8 weights cost {worse:.4f} of {name}/{figure}, which is {values['torch']:.4f} by torch and "
            f"{describe(values, 'int8')}; {most:g} is allowed: leave out --int8, or allow more by --most"
        )


def describe(values: Entry, kind: str) -> str:
    """Describes a metric's value by a graph, its difference from torch, and the interval of the difference, if known."""
    ends = values.get(f"{kind}_difference")
    interval = f", {ends[0]:+z.4f} to {ends[1]:+z.4f}" if ends else ""
    return f"{values[kind]:.4f} by {KINDS[kind]} ({values[kind] - values['torch']:+z.4f}{interval})"


def write_card(folder: Path, network: Network, facts: Entry) -> None:
    """Adds the metrics to the model card."""
    kinds = [kind for kind in KINDS if kind == "onnx" or "quantized" in facts]
    names = ["set", "figure", "torch", *(part for kind in kinds for part in (KINDS[kind], "difference"))]
    rows = []
    for place, entry in facts["sets"].items():
        for figure, values in entry.items():
            cells = [place, figure, f"{values['torch']:.4f}"]
            for kind in kinds:
                ends = values.get(f"{kind}_difference")
                interval = f" ({ends[0]:+z.4f} to {ends[1]:+z.4f})" if ends else ""
                cells += [f"{values[kind]:.4f}", f"{values[kind] - values['torch']:+z.4f}{interval}"]
            rows.append(cells)
    inputs, outputs = (", ".join(f"`{one}`" for one in group) for group in (network.inputs, network.outputs))
    text = CARD.format(
        graph=GRAPH, inputs=inputs, outputs=outputs, largest=facts["largest_difference"],
        quantized=f" `{QUANTIZED}` has int8 weights." if "quantized" in facts else "", table=markdown(names, rows, ()),
    )  # fmt: skip
    with open(folder / "README.md", "a") as card:
        card.write(text)


def write_manifest(folder: Path, facts: Entry) -> None:
    """Adds metrics, and digests of the written files, to the manifest; removes a signature, which is no longer valid."""
    if not (manifest := read_manifest(folder)):
        return
    (folder / SIGNATURE).unlink(missing_ok=True)
    content = {name: one for name, one in manifest.items() if name != "digest"}
    digests = {f"model/{name}": digest for name, digest in model_digests(folder).items()}
    content |= {"onnx": facts, "outputs": {**manifest.get("outputs", {}), **digests}}
    (folder / FILE_NAME).write_text(json.dumps({**content, "digest": value_digest(content)}, indent=1) + "\n")
