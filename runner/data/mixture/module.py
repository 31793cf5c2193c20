"""Pretraining on several sources of text in given shares."""

import math
from collections.abc import Callable
from dataclasses import fields
from functools import cached_property
from typing import Any

from iolaus.conf.data import mixture as options
from iolaus.conf.data.pretraining import PretrainingData as PretrainingOptions
from iolaus.runner.config.settings import takes_settings
from iolaus.runner.data.mixture.held_out import decide_together
from iolaus.runner.data.mixture.sequences import MixedSequences
from iolaus.runner.data.mixture.shares import Shares, shares_of
from iolaus.runner.data.module import GlobalBatchDataModule
from iolaus.runner.data.read.documents import CombinedSource
from iolaus.runner.data.text.prepare import PreparedText
from iolaus.runner.data.text.pretraining import PretrainingData
from iolaus.runner.data.text.stored import StoredPretrainingData
from iolaus.runner.run.model_folder import model_folder
from iolaus.runner.samplers import LengthGrouped
from iolaus.runner.samplers.base import PROVISIONAL, GlobalBatchSampler, SeamlessSampler
from iolaus.runner.samplers.mixed import Mixed


class MixtureData(PretrainingData):
    """Each source is tokenised and cached by itself; global batches have its share of their samples.

    The validation set of a source has its name. Texts that one source holds out are trained on in none.

    Example: `iolaus data=mixture 'data.mixture={a: {source: a.txt, weight: 7}, b: {source: b.txt, weight: 3}}'`
    """

    settings: options.Mixture
    train: MixedSequences  # type: ignore[assignment]
    shares: Shares

    @takes_settings(options.Mixture)
    def __init__(self, settings: options.Mixture) -> None:
        GlobalBatchDataModule.__init__(
            self,
            settings.layout,
            settings.micro_batch_tokens,
            settings.micro_batch_size,
            settings.num_workers,
        )
        self.settings, self.max_length = settings, settings.max_length
        self.given = options.mixed_sources(vars(settings))
        self.sources = {name: self._one(name, given) for name, given in self.given.items()}
        self.source = CombinedSource([one.source for one in self.sources.values()])
        self.validation_sources = {}
        self.tokenizer_name = model_folder(settings.tokenizer) if settings.tokenizer else None
        self.prepared: PreparedText | None = None

    def _one(self, name: str, given: options.MixedSource) -> PretrainingData:
        """A source as the data of a run of its own; what it leaves out is as the mixture's settings say."""
        names = [field.name for field in fields(PretrainingOptions) if field.name != "_target_"]
        own = {n: value for n, value in vars(given).items() if n in names and value is not None}
        own["validation"] = {name: given.validation} if given.validation is not None else None
        made: PretrainingData = PretrainingData(**{**{n: getattr(self.settings, n) for n in names}, **own})
        return made

    def prepare_data(self) -> None:
        """Tokenises each source into the cache, unless that has been done.

        Raises ValueError for a source without documents to train on, and for shares that cannot be given.
        """
        if self.prepared is not None:
            return
        tokenizer = self.tokenizer_name
        stored = {n: one for n, one in self.sources.items() if isinstance(one, StoredPretrainingData)}
        texts = {n: one for n, one in self.sources.items() if n not in stored}
        for one in stored.values():
            one.tokenizer_name = tokenizer
            one.prepare_data()
            assert one.prepared is not None
            tokenizer = tokenizer or str(one.prepared.tokenizer)
        if texts:
            tokenizer = decide_together(texts, self.settings, tokenizer)
        for one in texts.values():
            one.tokenizer_name = tokenizer
            one.prepare_data()
        for name, one in self.sources.items():
            if not len(one.train):
                raise ValueError(f"data.mixture.{name}: {one.source.describe()} has no text to train on")
        self.train = MixedSequences({name: one.train for name, one in self.sources.items()})
        self.validation = {n: store for n, one in self.sources.items() for store in one.validation.values()}
        stores = {name: one.train for name, one in self.sources.items()}
        self.shares = shares_of(self.given, stores, self.settings.mixture_by, self.settings.mixture_tau)
        self.prepared = self._together()

    def _together(self) -> PreparedText:
        """What is known of all sources, sets by the names of their sources."""
        found = {name: one.prepared for name, one in self.sources.items() if one.prepared is not None}
        figures = {
            figure: {name: value for name, one in found.items() for value in getattr(one, figure).values()}
            for figure in ("validation", "unigram_entropy", "tokens_per_byte")
        }
        first = next(iter(found.values()))
        documents = {"train": sum(one.documents["train"] for one in found.values())}
        return PreparedText(first.train, tokenizer=first.tokenizer, documents=documents, **figures)

    def connect(self, *args: Any, **options: Any) -> int:
        """As for all data; raises ValueError where a source would be passed over more often than it may be."""
        steps = super().connect(*args, **options)
        for number, (name, given) in enumerate(self.given.items() if steps < PROVISIONAL else ()):
            bound = given.max_epochs or self.settings.mixture_max_epochs or math.inf
            if self.epochs[name] > bound:
                most = bound * self.shares.samples[name]
                fits = self._mixed.steps_within(int(most / self.shares.of_samples[name]))
                fits -= int(self._mixed.draws.counts(self._mixed.samples_before(fits))[number] > most)
                raise ValueError(
                    f"data.mixture.{name} would be passed over {self.epochs[name]:.2f} times in {steps:,} steps, and "
                    f"max_epochs is {bound:g}: train for {fits:,} steps or less, or give it less weight or more text"
                )
        return steps

    def _sampler(
        self, make_sampler: Callable[..., GlobalBatchSampler], max_steps: int, max_epochs: float | None
    ) -> GlobalBatchSampler:
        whole = super()._sampler(make_sampler, max_steps, max_epochs)
        if not isinstance(whole, SeamlessSampler) or isinstance(whole, LengthGrouped):
            raise ValueError(
                f"a mixture has an order of its own in each source, and {type(whole).__name__} sorts all samples "
                "together: choose sampler=shuffled or sampler=sequential"
            )
        self._mixed = Mixed(whole, {name: one.train for name, one in self.sources.items()}, self.shares.parts)
        self.__dict__.pop("epochs", None)
        return self._mixed

    @cached_property
    def epochs(self) -> dict[str, float]:
        """Passes over each source in the whole run."""
        drawn = self._mixed.draws.counts(self._mixed.num_samples()).tolist()
        sizes = self.shares.samples
        return {name: count / sizes[name] for name, count in zip(sizes, drawn, strict=True)}

    @property
    def validation_shares(self) -> dict[str, float]:
        """The share in the training tokens of each source that has a validation set; they weight `val/mixture/loss`."""
        return {name: share for name, share in self.shares.of_tokens.items() if name in self.validation}

    def lineage(self) -> dict[str, Any]:
        """Those of every set of samples, and of the sources that they were made from."""
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
        sizes = (one.prepared.documents["train"], shares.samples[name], shares.tokens[name])
        counts = "{:,} documents, {:,} sequences, {:,} tokens".format(*sizes)
        given = self.given[name].max_epochs or self.settings.mixture_max_epochs
        bound = f" of at most {given:g}" if given else ""
        return (
            f"{counts}; asked {shares.asked[name]:.2%} of the {shares.unit}, gives {shares.of_tokens[name]:.2%} of the "
            f"tokens and {shares.of_samples[name]:.2%} of the samples; {self.epochs[name]:.2f} epochs{bound}"
        )
