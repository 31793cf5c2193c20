"""`mode=probe`: measures the frozen features of a model on labelled data, and trains nothing.

A probe writes the folder of a run: config, status with the metrics, `evaluation.json`, `predictions.jsonl`,
`report.html`.
"""

from typing import Any

from omegaconf import DictConfig

from tiryns.runner.run.folder import Run


def probe_model(config: DictConfig, folder: Run) -> dict[str, float]:
    """Measures frozen features, writes metrics and a page to `folder`, returns the metrics; ValueError for unfit data."""
    from tiryns.runner.evaluation.files import PREDICTIONS
    from tiryns.runner.inference.evaluated import Evaluation, plain
    from tiryns.runner.inference.frozen.probes import probe
    from tiryns.runner.loop.trainer import quiet_libraries
    from tiryns.runner.report.single import write_report
    from tiryns.runner.report.summary import show
    from tiryns.runner.run.files import typed_path

    quiet_libraries()
    data, encoder = prepare(config)
    outcome = probe(data, encoder)
    facts = {**encoder.facts(), **outcome.settings}
    folder.update_status(resolved=facts, monitor=outcome.objective(), mode="max")
    network = encoder.model.describe()
    content = {"model": network, "task": outcome.task, **facts, "sets": outcome.sets}
    lines = [{"set": name, **row} for name, rows in outcome.predictions.items() for row in rows]
    Evaluation(plain(content), {}, lines, PREDICTIONS).write(folder.path)
    figures = outcome.figures()
    results = {**data.baselines(), **figures, "objective": figures[outcome.objective()]}
    folder.update_status(results=results)
    write_report(folder.path, "done")
    texts = {name: f"{value:.4f}" for name, value in results.items()}
    model = {"network": network, **{n: str(v) for n, v in facts.items() if v is not None}}
    files = {"report": str(typed_path(folder.path) / "report.html")}
    show("done", {"model": model, "figures": texts, "files": files})
    folder.end("done")
    return results


def prepare(config: DictConfig) -> tuple[Any, Any]:
    """Returns the prepared data of a config, and the model that measures it: a frozen encoder or a scorer of pairs."""
    import torch
    from transformers import AutoModel

    from tiryns.runner.cli.models.evaluate import progress
    from tiryns.runner.data import FinetuningData, MinimalPairs, MtebTasks, RetrievalPairs
    from tiryns.runner.inference.evaluated import COMPUTED
    from tiryns.runner.inference.language.likelihood import PairScorer
    from tiryns.runner.inference.passes import Computation
    from tiryns.runner.inference.vectors import FrozenEncoder
    from tiryns.runner.loop.assembly import make_data
    from tiryns.runner.loop.plain import make_model_of
    from tiryns.runner.models.embedding.folder import Embedding, read_embedding
    from tiryns.runner.models.head import Head

    data = make_data(config)
    if not isinstance(data, FinetuningData | RetrievalPairs | MtebTasks | MinimalPairs):
        raise ValueError(
            f"mode=probe measures labelled data, and {type(data).__name__} has no labels: choose "
            "experiment=classification, or data of yours, such as data=classification data.train=train.csv"
        )
    data.prepare_data()
    precision = str(config.trainer.precision)
    precision = "32-true" if precision in ("auto", "32") else precision  # to compute all models alike
    layout = "packed" if config.data.layout == "auto" else config.data.layout
    limits = {name: config.data[name] for name in COMPUTED if config.data[name] != "auto"}
    computation = Computation(precision, layout, **limits)
    name = config.model.get("name_or_path")
    if isinstance(data, MinimalPairs):
        return data, PairScorer(name, computation, progress)
    torch.manual_seed(config.seed)  # the weights of a model without any
    encoder = make_model_of(config.model, data.tokenizer, head=Head(AutoModel))
    default = read_embedding(name) if config.pooling is None and name else None
    embedding = (default or Embedding(config.pooling or "mean"))._replace(max_length=data.max_length)
    return data, FrozenEncoder(encoder, data.tokenizer, embedding, computation, progress)
