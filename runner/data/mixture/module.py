"""Pretraining on several sources of text in given shares."""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiryns.conf.data import pretraining as options
from tiryns.conf.phases import Phase, sources_in
from tiryns.runner.config.calling import takes_settings
from tiryns.runner.data.mixture.sources import Shares, decide_together, shares_of
from tiryns.runner.data.module import GlobalBatchDataModule
from tiryns.runner.data.read.documents import CombinedSource
from tiryns.runner.data.store.sharded import ShardedStore
from tiryns.runner.data.store.writer import key_of
from tiryns.runner.data.text.prepare import PreparedText
from tiryns.runner.data.text.pretraining import NamedStore, PretrainingData, join_stores
from tiryns.runner.data.text.stored import StoredPretrainingData
from tiryns.runner.order.timeline import number_of
from tiryns.runner.run.model_folder import model_folder
from tiryns.runner.samplers.base import PROVISIONAL, GlobalBatchSampler, SeamlessSampler
from tiryns.runner.samplers.mixed import Mixed, order_of, whole_order
from tiryns.runner.samplers.phased import Draws, Phased


class MixedSequences(ShardedStore):
    """The sequences of all sources, one store after the other; a source may have several stores."""

    def __init__(self, stores: Sequence[NamedStore]) -> None:
        self.source_names = list(dict.fromkeys(store.name for store in stores))
        prints = [[store.name, store.fingerprint] for store in stores]
        super().__init__([store.data.train for store in stores], key_of({"mixture": prints}))
        self._owners = np.array([self.source_names.index(store.name) for store in stores])

    def sources_of(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the source of each sequence as an index [D] into `source_names`."""
        return self._owners[np.searchsorted(self.ends, indices, side="right")]


class MixtureData(PretrainingData):
    """Each source is tokenised and cached by itself; global batches draw from each source by its share.

    The validation set of a source has the source's name. No source trains on a text that any source holds out.

    Example: `tiryns data=mixture 'data.mixture={a: {source: a.txt, weight: 7}, b: {source: b.txt, weight: 3}}'`
    """

    settings: options.Mixture
    train: MixedSequences  # type: ignore[assignment]
    whole_mixture: MixedSequences
    shares: Shares
    """The shares of the sources in the run; a phase may have other shares."""

    @takes_settings(options.Mixture)
    def __init__(self, settings: options.Mixture) -> None:
        GlobalBatchDataModule.__init__(self, settings)
        self.max_length = settings.max_length
        self.mixture = options.mixture_sources(vars(settings))
        self.sources = {name: self._one(name, source) for name, source in self.mixture.items()}
        self.source = CombinedSource([one.source for one in self.sources.values()])
        self.validation_sources = {}
        self.tokenizer_name = model_folder(settings.tokenizer) if settings.tokenizer else None
        self.prepared: PreparedText | None = None

    def _one(self, name: str, source: options.MixedSource) -> PretrainingData:
        """Returns the data of one source; settings that the source leaves unset are taken from the mixture."""
        names = [field.name for field in fields(options.PretrainingData) if field.name != "_target_"]
        values = {n: value for n, value in vars(source).items() if n in names and value is not None}
        values["validation"] = {name: source.validation} if source.validation is not None else None
        data: PretrainingData = PretrainingData(**{**{n: getattr(self.settings, n) for n in names}, **values})
        return data

    def prepare_data(self) -> None:
        """Tokenises each source into the cache, unless that has been done.

        Raises ValueError for a source without documents to train on, and for invalid or too small shares.
        """
        if self.prepared is not None:
            return
        options.check_weights(self.mixture, self.settings.mixture_tau, sources_in(self.phases))
        tokenizer = self.tokenizer_name
        corpora = {n: one for n, one in self.sources.items() if isinstance(one, StoredPretrainingData)}
        texts = {n: one for n, one in self.sources.items() if n not in corpora}
        for one in corpora.values():
            one.tokenizer_name, one.needed_tokens = tokenizer, self.needed_tokens
            one.prepare_data()
            assert one.prepared is not None
            tokenizer = tokenizer or str(one.prepared.tokenizer)
        if texts:
            tokenizer = decide_together(texts, self.settings, tokenizer)
        for one in texts.values():
            one.tokenizer_name, one.needed_tokens = tokenizer, self.needed_tokens
            one.prepare_data()
        for name, one in self.sources.items():
            if not len(one.train):
                raise ValueError(f"data.mixture.{name}: {one.source.describe()} has no text to train on")
        self.validation = {n: store for n, one in self.sources.items() for store in one.validation.values()}
        by_size = self.settings.mixture_tau is not None
        names = [name for name, source in self.mixture.items() if source.weight or by_size]
        self.stores = [NamedStore(name, self.sources[name], name) for name in names]
        self.whole_mixture = MixedSequences(self.stores)
        for phase in self.phases:
            for name in self.sources_of(phase):
                self.add_store(name, self.sources[name], self.length_of(phase), phase)
        self.train = MixedSequences(self.stores)
        self.shares = self._shares(Phase("all"))
        self.prepared = self._together()

    def sources_of(self, phase: Phase) -> list[str]:
        """Returns the names of the sources that a phase draws from, in the order of the run's sources."""
        weights = phase.data.get("mixture")
        return [name for name in self.sources if name in (weights or self.whole_mixture.source_names)]

    def _shares(self, phase: Phase) -> Shares:
        """Returns the shares of a phase's sources, from the settings of the phase, else of the run."""
        names, unit, length = self.sources_of(phase), phase.data.get("mixture_by"), self.length_of(phase)
        weights, tau = phase.data.get("mixture"), phase.data.get("mixture_tau")
        if weights is None and tau is None:
            tau, weights = self.settings.mixture_tau, {name: self.mixture[name].weight for name in names}
        stores = {store.name: store.data.train for store in self.stores if store.data.max_length == length}
        of_phase = {name: stores[name] for name in names}
        return shares_of(weights if tau is None else None, of_phase, unit or self.settings.mixture_by, tau)

    @property
    def whole(self) -> MixedSequences:  # type: ignore[override]
        return self.whole_mixture

    def _together(self) -> PreparedText:
        """Returns the joined facts of all sources; each validation set has the name of its source."""
        texts = {name: one.prepared for name, one in self.sources.items() if one.prepared is not None}
        figures = {
            figure: {name: value for name, one in texts.items() for value in getattr(one, figure).values()}
            for figure in ("validation", "unigram_entropy", "tokens_per_byte")
        }
        first = next(iter(texts.values()))
        documents = {"train": sum(one.documents["train"] for one in texts.values())}
        return PreparedText(first.train, tokenizer=first.tokenizer, documents=documents, **figures)

    def connect(self, *args: Any, **options: Any) -> int:
        """Connects as the base class does; raises ValueError if a source would exceed its `max_epochs`."""
        steps = super().connect(*args, **options)
        for name, source in self.mixture.items() if steps < PROVISIONAL else ():
            bound = source.max_epochs or self.settings.mixture_max_epochs or math.inf
            if self.epochs[name] > bound:
                fits = bisect_right(range(1, steps), bound, key=lambda step: self._epochs_at(step)[name])
                raise ValueError(
                    f"data.mixture.{name} would be passed over {self.epochs[name]:.2f} times in {steps:,} steps, and "
                    f"max_epochs is {bound:g}: train for {fits:,} steps or less, or give it less weight or more text"
                )
        return steps

    def _sampler(
        self, make_sampler: Callable[..., GlobalBatchSampler], max_steps: int, max_epochs: float | None
    ) -> GlobalBatchSampler:
        whole = super()._sampler(make_sampler, max_steps, max_epochs)
        stores = {store.name: store.data.train for store in self.stores[: len(self.whole.source_names)]}
        return Mixed(whole, stores, self.shares.parts)

    def _draws(self, whole: GlobalBatchSampler) -> tuple[list[SeamlessSampler], list[Draws]]:
        assert isinstance(whole, Mixed)
        further = self.stores[len(whole.orders) :]
        orders = [*whole.orders, *(order_of(whole.sampler, one.data.train, one.label) for one in further)]
        places = {(store.name, store.data.max_length): place for place, store in enumerate(self.stores)}
        draws = []
        for part, phase in zip(self.parts, self.phases, strict=False):
            parts = self._shares(phase).parts
            taken = [places[name, self.length_of(phase)] for name in self.sources_of(phase)]
            stores = [self.stores[place] for place in taken]
            as_the_run = taken == list(range(len(whole.orders))) and parts == self.shares.parts
            shares = {
                store.label: f"{share}/{sum(parts)} of {store.fingerprint}"
                for store, share in zip(stores, parts, strict=True)
            }
            sizes = self._sizes(part, join_stores(stores))
            draws.append(Draws(part.steps, tuple(taken), tuple(parts), None if as_the_run else shares, sizes))
        return orders, draws

    def _epochs_at(self, step: int) -> dict[str, float]:
        """Returns the passes over each source before a step, summed over its sequence lengths."""
        order = whole_order(self.sampler)
        assert isinstance(order, Mixed | Phased)
        epochs = dict.fromkeys(self.sources, 0.0)
        counts = order.counts(number_of(step, self.skipped)).tolist()
        for store, count in zip(self.stores, counts, strict=True):
            epochs[store.name] += count / len(store.data.train)
        return epochs

    @property
    def epochs(self) -> dict[str, float]:
        """Passes over each source in the whole run."""
        return self._epochs_at(len(self.sampler))

    @property
    def validation_shares(self) -> dict[str, float]:
        """The share of the training tokens of each source with a validation set: the weights of `val/mixture/loss`."""
        return {name: share for name, share in self.shares.of_tokens.items() if name in self.validation}

    def lineage(self) -> dict[str, Any]:
        """Returns the fingerprints of every set of samples, and of the sources they were made from."""
        sources = {
            f"{name}.validation" if part else name: source.fingerprint()
            for name, one in self.sources.items()
            for part, source in enumerate((one.source, *one.validation_sources.values()))
        }
        return {**super().lineage(), "sources": sources}

    def describe(self) -> dict[str, str]:
        """Counts for the summary at the start, with a line for each source."""
        return {**super().describe(), **{f"mixture.{n}": self._describe_one(n) for n in self.sources}}

    def _describe_one(self, name: str) -> str:
        shares, one = self.shares, self.sources[name]
        assert one.prepared is not None
        sizes = (one.prepared.documents["train"], len(one.train), one.train.num_tokens)
        counts = "{:,} documents, {:,} sequences, {:,} tokens".format(*sizes)
        limit = self.mixture[name].max_epochs or self.settings.mixture_max_epochs
        bound = f" of at most {limit:g}" if limit else ""
        share_text = "drawn in phases alone"
        if name in shares.of_weights:
            share_text = (
                f"asked {shares.of_weights[name]:.2%} of the {shares.unit}, gives {shares.of_tokens[name]:.2%} of the "
                f"tokens and {shares.of_samples[name]:.2%} of the samples"
            )
        return f"{counts}; {share_text}; {self.epochs[name]:.2f} epochs{bound}"
