"""Group `data`, pretraining: text, tokenised once into a cache or as a stream."""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, fields
from typing import Any

from omegaconf import MISSING

from tiryns.conf.data.common import Batching, LeavingOut, Tables, Tokenizing
from tiryns.conf.registry import register
from tiryns.conf.values import (
    AT_LEAST_0,
    NAMED,
    POSITIVE,
    WHOLE_FROM_0,
    Bounds,
    Choice,
    check_names,
    rules_of,
    setting,
)


@dataclass
class PretrainingData(LeavingOut, Tables, Tokenizing, Batching):
    """Text for pretraining, tokenised once into a memory-mapped store."""

    _target_: str = "runner.data.PretrainingData"
    source: Any = setting(MISSING, allowed=NAMED)
    """A file, folder, glob, hub name, or a list of them; with a split: `path@split`, `name:config@split`. Or
    `store:FOLDER` of `tiryns prepare corpus`, or a node with the `_target_` of a source."""
    validation: Any = setting(None, allowed=NAMED)
    """A validation source, or several by name; none holds out documents of the training source."""
    validation_documents: Any = setting(0.02, allowed=AT_LEAST_0)
    """Held-out part where no validation source is given: a number of documents, or a share below 1."""
    text_column: str = "text"
    """Column of the text in csv, json, parquet, arrow and hub data."""
    split: str = "train"
    """Split of hub data, or of a saved data set with several splits, if the name gives none."""
    text_unit: str = setting("paragraph", allowed=Choice(("paragraph", "line", "file")))
    """One document of txt and md files: a `paragraph` (between blank lines), a `line` or a `file`."""
    tokenizer: str | None = setting("${oc.select:model.name_or_path,null}", allowed=NAMED)
    """Name or folder of a tokenizer; none, for a model without a name, trains one on the training documents."""
    max_length: int = setting(128, allowed=Bounds(3, whole=True))
    """Longest sequence in tokens, special tokens included."""
    length_warmup_from: int | None = setting(None, allowed=Bounds(3, whole=True))
    """Longest sequence at the first step, in tokens. This limit grows to `max_length`; longer sequences are cut."""
    length_warmup_steps: Any = setting(0, allowed=AT_LEAST_0)
    """Steps in which the limit grows: a number (int), or a fraction of the run's steps (float between 0 and 1)."""
    long_documents: str = setting("sentences", allowed=Choice(("truncate", "sentences", "tokens")))
    """Documents over `max_length`: `truncate`, or split at `sentences` or `tokens`."""
    cache_dir: str = setting("${oc.env:TIRYNS_CACHE,'~/.cache/tiryns'}", execution=True)
    """Folder of tokenised data and trained tokenizers, which later runs use again."""
    seed: int = 0
    """Seed of the choice of held-out documents, which does not depend on the run's `seed`."""
    streaming: bool = False
    """Tokenises documents during training, not into the cache first; needs `tokenizer` and `max_steps`."""
    shuffle_buffer_size: int = setting(10_000, allowed=WHOLE_FROM_0)
    """Documents in the buffer that shuffles a stream; `sampler=sequential` does not shuffle."""


@dataclass
class StdlibText(PretrainingData):
    """The English documentation that ships with Python: nothing to download."""

    source: Any = setting({"_target_": "runner.data.demo.StdlibText"})


@dataclass
class StdlibCode(PretrainingData):
    """The functions of Python's standard library: nothing to download."""

    source: Any = setting({"_target_": "runner.data.demo.StdlibCode"})


@dataclass
class Proteins(PretrainingData):
    """Variable regions of antibodies and T-cell receptors: nothing to download but `tiryns[sequences]`."""

    source: Any = setting({"_target_": "runner.data.sequences.Proteins"})
    tokenizer_kind: str = "characters:protein"
    vocab_size: int = 33
    lowercase: bool = False


@dataclass
class Files(PretrainingData):
    """Files of your own: `data=files data.source=books/*.txt`."""


@dataclass
class Hub(PretrainingData):
    """A data set of the Hugging Face hub: `data=hub data.source=wikitext`."""

    text_unit: str = "line"


register("data", stdlib_text=StdlibText, stdlib_code=StdlibCode, proteins=Proteins, files=Files, hub=Hub)


MIXTURE = "mixture"
"""Name of the metrics over all sources together; no source may have this name."""


@dataclass
class MixedSource:
    """A source of a mixture; a setting that it leaves out is taken from `data`."""

    source: Any = setting(MISSING, allowed=NAMED)
    """As `data.source`."""
    weight: Any = setting(None, allowed=POSITIVE)
    """Weight of the source; its share is this weight divided by the sum of all weights: .7 / 1, or 26 / 76 (billion
    tokens). A source without a weight is drawn only in phases that name it."""
    max_epochs: Any = setting(None, allowed=POSITIVE)
    """Maximum passes over the source in the whole run; none: `data.mixture_max_epochs`."""
    validation: Any = setting(None, allowed=NAMED)
    """Validation documents in place of held-out ones; the set has the name of the source."""
    validation_documents: Any = setting(None, allowed=AT_LEAST_0)
    """As `data.validation_documents`, of this source."""
    text_column: Any = None
    split: Any = None
    text_unit: Any = None
    format: Any = None
    delimiter: Any = None
    encoding: Any = None
    quoting: Any = None


@dataclass
class Mixture(PretrainingData):
    """Several sources in given shares: `data=mixture 'data.mixture={a: {source: a.txt, weight: 3}, b: {...}}'`."""

    _target_: str = "runner.data.MixtureData"
    source: Any = None
    """Always None: `mixture` has the sources."""
    validation: Any = None
    """Always None: each source in `mixture` may have a `validation`."""
    mixture: Any = MISSING
    """Sources by name: `{books: {source: books/*.txt, weight: .7}, web: {source: web.jsonl, weight: .3, max_epochs: 4}}`.
    A source has a `weight`, `max_epochs`, and the settings of `data` that say how it is read and held out."""
    mixture_by: str = setting("tokens", allowed=Choice(("tokens", "samples")))
    """Unit of the weights and of the sizes that `mixture_tau` reads: `tokens`, or `samples` (sequences)."""
    mixture_tau: Any = setting(None, allowed=AT_LEAST_0)
    """Takes shares from sizes instead of weights: size ** mixture_tau. 1: proportional to size; 0: equal shares."""
    mixture_max_epochs: Any = setting(None, allowed=POSITIVE)
    """Maximum passes over any source in the whole run; a run with more passes is refused before its first step."""


def mixture_sources(settings: Mapping[str, Any]) -> dict[str, MixedSource]:
    """Returns the sources of a `Mixture` by name, from its settings; raises ValueError for the first mistake."""
    mixture = settings["mixture"]
    if not isinstance(mixture, Mapping) or not mixture:
        example = "{books: {source: books.txt, weight: 0.7}, web: {source: web.jsonl, weight: 0.3}}"
        raise ValueError(f"data.mixture={mixture!r}: expected sources by name, such as {example}")
    for name in ("source", "validation", "streaming"):
        if settings.get(name):
            instead = "mixtures are tokenised first" if name == "streaming" else f"data.mixture.NAME.{name}"
            raise ValueError(f"data.{name} cannot be given for a mixture: {instead}")
    return {str(name): _source(f"data.mixture.{name}", name, entry) for name, entry in mixture.items()}


def check_weights(sources: Mapping[str, MixedSource], tau: float | None, names: Container[str] = ()) -> None:
    """Raises ValueError: with `tau`, for a source with a weight; else for one without, unless it is among `names`."""
    with_weight = [name for name, one in sources.items() if one.weight is not None]
    if tau is not None and with_weight:
        raise ValueError(
            f"data.mixture.{with_weight[0]}.weight and data.mixture_tau are both set: shares come from only one"
        )
    lacking = [name for name in sources if name not in with_weight and (not with_weight or name not in names)]
    if tau is None and lacking:
        raise ValueError(
            f"data.mixture.{lacking[0]} has no weight: give every source one, or set data.mixture_tau, which "
            "takes the shares from the sizes"
        )


def _source(key: str, name: object, entry: object) -> MixedSource:
    """Returns the source of an entry of a mixture; raises ValueError for the first mistake."""
    if not re.fullmatch(r"\w[\w-]*", str(name)) or name in ("train", MIXTURE):
        raise ValueError(f"{key}: names are of letters, digits, - and _, but not 'train' or {MIXTURE!r}")
    base_rules = rules_of(PretrainingData)
    rules = {name: {**base_rules.get(name, {}), **extra} for name, extra in rules_of(MixedSource).items()}
    if not isinstance(entry, Mapping) or not entry.get("source"):
        raise ValueError(
            f"{key}={entry!r}: expected settings with a source, such as {{source: books.txt, weight: 0.7}}"
        )
    check_names(key, entry, [field.name for field in fields(MixedSource)], ": a source has")
    for setting_name, value in entry.items():
        rule = rules[setting_name].get("allowed")
        unknown = value is None or (isinstance(value, str) and "${" in value)
        if rule and not unknown and (problem := rule.problem(value)):
            of_none = "; leave the source out to train on none of it"
            more = of_none if (setting_name, value) == ("weight", 0) else ""
            raise ValueError(f"{key}.{setting_name}={value}: {problem}{more}")
    return MixedSource(**entry)


register("data", mixture=Mixture)
