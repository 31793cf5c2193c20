"""Filters, deduplication and executors of datatrove, by name and settings; whatever is wrong is named in one line."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from datatrove.data import Document
from datatrove.pipeline import filters
from datatrove.pipeline.base import PipelineStep
from datatrove.pipeline.dedup import exact_dedup as exact
from datatrove.pipeline.dedup import minhash
from datatrove.utils.hashing import HashConfig

from tiryns.conf.values import check_choice, suggest
from tiryns.runner.data.corpus.plan import CorpusPlan, Step
from tiryns.runner.data.corpus.steps import ForEachFile
from tiryns.runner.data.store.remote import Folder

FILTERS = (
    "C4BadWordsFilter", "C4ParagraphFilter", "C4QualityFilter", "FastTextClassifierFilter", "FineWebQualityFilter",
    "GopherQualityFilter", "GopherRepetitionFilter", "LanguageFilter", "RegexFilter", "UnigramLogProbFilter", "URLFilter",
)  # fmt: skip
"""Filters of `datatrove.pipeline.filters` that judge each document by itself, so that tasks make no difference."""

DEDUPLICATIONS = ("exact", "minhash")
"""Ways to find repeated documents: equal texts, or similar ones by MinHash."""


class Stage(NamedTuple):
    """A pipeline that `tasks` tasks run; the next stage needs all of them."""

    name: str
    steps: list[PipelineStep]
    tasks: int


def make(option: str, target: Callable[..., Any], settings: dict[str, Any], **ours: Any) -> Any:
    """`target(**settings)`; ValueError for a setting that it does not take, lacks or refuses."""
    takes = inspect.signature(target)
    if unknown := next((name for name in settings if name not in takes.parameters or name in ours), None):
        known = [name for name in takes.parameters if name not in ours]
        raise ValueError(
            f"{option} takes no setting {unknown!r}; there are: {', '.join(known)}{suggest(unknown, known)}"
        )
    try:
        takes.bind(**settings, **ours)
        return target(**settings, **ours)
    except (TypeError, ValueError, AssertionError) as error:
        raise ValueError(f"{option}: {error}") from error


def make_filters(steps: list[Step]) -> list[PipelineStep]:
    """The filters; ValueError for an unknown one or a wrong setting, ImportError for one whose package is missing."""
    for step in steps:
        check_choice("--filter", step.name, FILTERS)
    return [make(f"--filter {step.name}", getattr(filters, step.name), step.settings) for step in steps]


def deduplication(
    plan: CorpusPlan, store: Folder, before: list[PipelineStep]
) -> tuple[list[Stage], list[PipelineStep]]:
    """The stages that find repeated documents of the steps `before`, and the steps that drop them.

    Of repeated documents one is kept, the same for any number of tasks.
    """
    if plan.deduplication is None:
        return [], []
    name, settings = plan.deduplication
    check_choice("--deduplicate", name, DEDUPLICATIONS)
    ways: dict[str, Callable[..., Any]] = {"exact": _exact, "minhash": _minhash}
    stages, drop = make(f"--deduplicate {name}", ways[name], settings, plan=plan, store=store, before=before)
    return stages, [ForEachFile(drop, len(plan.files))]


def _content(document: Document) -> bytes:
    return document.text.encode("utf-8", "surrogatepass")  # type: ignore[no-any-return]


def _exact(
    plan: CorpusPlan, store: Folder, before: list[PipelineStep], finder_workers: int = 1
) -> tuple[list[Stage], PipelineStep]:
    """Documents whose whole text is equal."""
    found = [store.at(f"deduplicate/{part}") for part in ("signatures", "repeated")]
    config = exact.ExactDedupConfig(content_getter=_content)
    sign = ForEachFile(exact.ExactDedupSignature(found[0], config, finder_workers), len(plan.files))
    stages = [
        Stage("signatures", [*before, sign], plan.tasks),
        Stage("repeated", [exact.ExactFindDedups(*found, config)], finder_workers),
    ]
    return stages, exact.ExactDedupFilter(found[1], config)


def _minhash(
    plan: CorpusPlan,
    store: Folder,
    before: list[PipelineStep],
    n_grams: int = 5,
    num_buckets: int = 14,
    hashes_per_bucket: int = 8,
    language: str = "eng",
) -> tuple[list[Stage], PipelineStep]:
    """Documents that share most of their n-grams of words."""
    found = [store.at(f"deduplicate/{part}") for part in ("signatures", "pairs", "repeated")]
    config = minhash.MinhashConfig(
        n_grams, num_buckets, hashes_per_bucket, hash_config=HashConfig(hash_fc="sha1")
    )  # newer releases of xxhash refuse the strings that datatrove gives them
    sign = minhash.MinhashDedupSignature(found[0], config, language)
    stages = [
        Stage("signatures", [*before, ForEachFile(sign, len(plan.files))], plan.tasks),
        Stage("pairs", [minhash.MinhashDedupBuckets(found[0], found[1], config=config)], num_buckets),
        Stage("repeated", [minhash.MinhashDedupCluster(found[1], found[2], config)], 1),
    ]
    return stages, minhash.MinhashDedupFilter(found[2])
