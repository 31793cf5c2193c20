"""Measures a language model on documents as its run did: its loss on masked or next tokens, or the bound of diffusion."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from omegaconf import OmegaConf
from torch import Tensor

from tiryns.conf.config import Config
from tiryns.conf.registry import OPTIONS, option_of
from tiryns.conf.values import Settings, check_choice
from tiryns.runner.build import build
from tiryns.runner.data.labelled.examples import TaskSequences
from tiryns.runner.data.micro_batch import CollatorArguments, tokenizer_arguments
from tiryns.runner.data.read.documents import open_source
from tiryns.runner.data.read.opened import Reading, of_run
from tiryns.runner.data.store.reader import entropy
from tiryns.runner.data.text.chunking import Chunker
from tiryns.runner.evaluation.files import Entry
from tiryns.runner.evaluation.statistics.intervals import Statistic, each
from tiryns.runner.evaluation.totals import add_sums, bits_per_byte
from tiryns.runner.inference.kinds import option_defaults
from tiryns.runner.inference.language.infill import Opened, check_language_model, generates
from tiryns.runner.inference.passes import Measured, Report, RowSums, as_trained, passes, run_config
from tiryns.runner.models.encoder import load_encoder
from tiryns.runner.models.head import LANGUAGE_MODEL
from tiryns.runner.models.positions import check_length, longest_text
from tiryns.runner.objectives import Collator
from tiryns.runner.run.yaml_files import settings_in

OBJECTIVES = ("mlm", "diffusion", "clm")
"""Objectives that `--objective` may name."""

SETTINGS = ("text_column", "split", "text_unit", "max_length", "long_documents", *Reading._fields)
"""Settings of `data` that decide what a document is, and how it is cut."""


class DocumentSequences(TaskSequences):
    """Sequences of documents; a document is cut into one or several sequences, or none if it has no token."""

    example_of = "documents"

    def __init__(self, ids: list[NDArray[np.int64]], owners: list[int], num_bytes: list[int]) -> None:
        super().__init__(num_bytes, ids)
        self.documents = np.array(owners, dtype=np.int64)
        self.num_bytes = np.array(num_bytes, dtype=np.int64)
        """Bytes of UTF-8 of each document [E]; 0 for a document of token ids."""

    def by_document(self, is_counted: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Returns for each document [E] the number of tokens whose id is true in `is_counted` [V]."""
        owners = np.repeat(self.documents, self.lengths(np.arange(len(self))))
        return np.bincount(owners, is_counted[self.ids], len(self.num_bytes)).astype(np.int64)


class LanguageModel:
    """The language model of a run with the run's objective and settings, or of a folder with default settings.

    `objective` overrides the objective. Without a run the default is `clm` if the model predicts next tokens, else `mlm`.
    `changes` override `data` settings. A run of enhanced masked language modelling is measured as `mlm`, because its
    decoder is not exported. Raises ValueError for another model, or an objective that cannot be measured.
    """

    def __init__(self, run: str, parts: Opened, changes: Settings, objective: str | None = None) -> None:
        config, tokenizer = parts
        check_language_model(run, config)
        if objective is not None:
            check_choice("--objective", objective, OBJECTIVES)
        trained_config = run_config(run)
        # what a document was in training; the defaults of `data=files` for a model of others, but for its length
        data = {**dict.fromkeys(SETTINGS), **option_defaults("data", "files"), "max_length": None}
        if trained_config is not None:
            run_data = settings_in(trained_config.data)
            if "text_unit" not in run_data:
                raise ValueError("the run was not trained on text alone, so it cannot be evaluated on text")
            data |= of_run(run_data)
        self.tokenizer = tokenizer
        self.settings = {**{name: data[name] for name in SETTINGS}, **changes}
        choice = objective or ("clm" if trained_config is None and generates(config) else None)
        node = None if trained_config is None or choice else trained_config.objective
        name = "" if node is None else option_of("objective", node) or str(node["_target_"])
        if node is None or name == "enhanced_mlm":
            name = choice or "mlm"
            node = OmegaConf.create({"objective": OPTIONS["objective"][name]}).objective
        self.objective = name
        encoder = load_encoder(run, {}, tokenizer, LANGUAGE_MODEL, new_vocabulary=False)
        if self.settings.get("max_length") is None:
            self.settings["max_length"] = min(longest_text(encoder) or 512, tokenizer.model_max_length)
        check_length(encoder, self.settings["max_length"])
        arguments: CollatorArguments = {
            **tokenizer_arguments(tokenizer), "text_column": "text", "label_column": None,
            "max_sequence_length": self.settings["max_length"],
        }  # fmt: skip
        self.collator: Collator = build(node, **arguments)
        self.model = self.collator.task_model(encoder)
        self.computation = as_trained(run).set_up(self.collator, self.model)
        self.seed = Config().seed if trained_config is None else int(trained_config.seed)
        size = trained_config and OmegaConf.select(trained_config, "sampler.global_batch_size")
        self.samples_at_once = int(size or option_defaults("sampler", "shuffled")["global_batch_size"])

    def read(self, place: object, name: str) -> DocumentSequences:
        """Returns the documents of a file, folder, glob or data set, cut as in training; ValueError without a text."""
        settings = self.settings
        how = (settings["text_column"], settings["split"], settings["text_unit"])
        source = open_source(place, *how, reading=Reading(*(settings[name] for name in Reading._fields)))
        return self.cut(source.documents(), source.describe())

    def cut(self, documents: Iterable[str | Sequence[int]], where: str) -> DocumentSequences:
        """Cuts documents, each a text or a list of token ids, into sequences as in training; ValueError without text."""
        length, how = self.settings["max_length"], self.settings["long_documents"]
        chunker = Chunker(self.tokenizer.backend_tokenizer, length, how)
        ids: list[NDArray[np.int64]] = []
        owners: list[int] = []
        sizes: list[int] = []
        for number, document in enumerate(documents):
            if isinstance(document, str):
                (flat, lengths), num_bytes = chunker.measured_texts([document])
            else:
                (flat, lengths), num_bytes = chunker.tokens([document]), 0
                if flat.max(initial=0) >= len(self.tokenizer):
                    raise ValueError(
                        f"{where}, document {number + 1}: a token id is beyond the model's vocabulary"
                    )
            ids += [flat[start:stop] for start, stop in pairwise(np.cumsum([0, *lengths]))]
            owners += [number] * len(lengths)
            sizes.append(num_bytes)
        if not ids:
            raise ValueError(f"{where} holds no text")
        return DocumentSequences(ids, owners, sizes)

    def measure(self, sequences: DocumentSequences, report: Report | None = None) -> Measured[list[Entry]]:
        """Returns the metrics of a set, as in the run's validation; its `predictions` are a line for each document.

        Masks depend only on the run's seed and the indices of the sequences.
        """
        model, collator = self.model, self.collator
        model.by_row = True
        sums: dict[str, Tensor] = {}
        apart = RowSums(sequences.owners(), len(sequences.num_bytes))
        how = (self.computation, self.seed, self.samples_at_once, report)
        for batch in passes(model, collator, sequences, *how):
            scalars = {name: value for name, value in batch.output.items() if name != "row_sums"}
            add_sums(sums, batch.micro_batch, scalars)
            apart.add(batch)
        ordinary = np.ones(max(len(self.tokenizer), int(sequences.ids.max()) + 1), dtype=bool)
        ordinary[self.tokenizer.all_special_ids] = False
        tokens, sizes = sequences.by_document(ordinary), sequences.num_bytes

        def figures(totals: dict[str, float], num_tokens: float, num_bytes: float) -> dict[str, float]:
            metrics = dict(model.figures(totals))
            if not totals["weight"]:
                metrics = dict.fromkeys(metrics, math.nan)
            if num_bytes and collator.nats_per_token:
                metrics["bits_per_byte"] = bits_per_byte(metrics["loss"], num_tokens / num_bytes)
            return metrics

        if not float(sums["weight"]):
            raise ValueError(
                f"none of the {int(tokens.sum()):,} tokens is a target: the text is too short to be measured"
            )
        whole = figures({n: float(v) for n, v in sums.items()}, int(tokens.sum()), int(sizes.sum()))

        def statistic() -> tuple[Statistic, int] | None:
            table = np.stack([*apart.sums.values(), tokens, sizes], 1)

            def figures_of(total: NDArray[np.float64]) -> dict[str, float]:
                *sums, num_tokens, num_bytes = total.tolist()
                return figures(dict(zip(apart.sums, sums, strict=True)), num_tokens, num_bytes)

            return (lambda weights: each(weights @ table, figures_of), len(sizes)) if apart.sums else None

        if collator.nats_per_token:
            whole["unigram_entropy"] = entropy(np.bincount(sequences.ids, minlength=len(ordinary)) * ordinary)
        columns = {"document": np.arange(len(sizes)), "bytes": sizes, **apart.sums}
        rows = zip(*(values.tolist() for values in columns.values()), strict=True)
        return Measured([dict(zip(columns, row, strict=True)) for row in rows], whole, apart.sums, statistic)
