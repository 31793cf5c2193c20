"""Several sources as the data of one run: shares, epochs, what is held out, and what is cached."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.data.mixture.sources import connected, mixture, texts, weighted, write_documents
from tests.data.store.sharded import sharded_folder
from tiryns import compose
from tiryns.runner.config.checks import check_config
from tiryns.runner.data.mixture.module import MixtureData
from tiryns.runner.data.text.pretraining import PretrainingData
from tiryns.runner.data.text.tokenizer import tokenizer_fingerprint
from tiryns.runner.manifest.inputs import data_files
from tiryns.runner.samplers import LengthGrouped


@pytest.fixture(scope="module", name="cache")
def cache_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mixtures")


@pytest.fixture(scope="module", name="paths")
def paths_fixture(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return texts(tmp_path_factory.mktemp("texts"))


def given_shares(data: MixtureData, steps: int = 600) -> tuple[list[float], list[float]]:
    """The sources' shares of the tokens and of the samples, counted over a run."""
    batches = connected(data, steps).sampler
    indices = np.concatenate([batches.global_batch(step)[:, 1] for step in range(steps)])
    sources = data.train.sources_of(indices)
    tokens = np.bincount(sources, weights=data.train.lengths(indices)) / data.train.lengths(indices).sum()
    return tokens.tolist(), (np.bincount(sources) / len(sources)).tolist()


def decoded(data: MixtureData, store: Any) -> list[str]:
    return [str(data.tokenizer.decode(store[index], skip_special_tokens=True)) for index in range(len(store))]


def test_weights_are_shares_of_tokens_or_of_samples(cache: Path, paths: dict[str, Path]) -> None:
    tokens, samples = given_shares(mixture(cache, weighted(paths, 0.7, 0.3)))
    assert tokens == pytest.approx([0.7, 0.3], abs=0.005)
    assert samples[0] < 0.65, "those of the verses are longer"
    tokens, samples = given_shares(mixture(cache, weighted(paths, 0.7, 0.3), mixture_by="samples"))
    assert samples == pytest.approx([0.7, 0.3], abs=1e-12)
    assert tokens[0] > 0.75


@pytest.mark.parametrize("tau", [0.0, 0.5, 1.0])
def test_temperature_takes_shares_from_sizes(cache: Path, paths: dict[str, Path], tau: float) -> None:
    sources = {name: {"source": str(path)} for name, path in paths.items()}
    data = mixture(cache, sources, mixture_tau=tau)
    sizes = np.array([one.train.num_tokens for one in data.sources.values()], float) ** tau
    assert given_shares(data)[0] == pytest.approx((sizes / sizes.sum()).tolist(), abs=0.005)
    by_samples = mixture(cache, sources, mixture_tau=tau, mixture_by="samples")
    counts = np.array([len(one.train) for one in data.sources.values()], float) ** tau
    assert given_shares(by_samples)[1] == pytest.approx((counts / counts.sum()).tolist(), abs=1e-4)


def test_summary_says_what_each_source_contributes(cache: Path, paths: dict[str, Path]) -> None:
    data = connected(mixture(cache, weighted(paths, 7, 3), mixture_max_epochs=9))
    verses, epochs = data.sources["verses"], data.epochs
    drawn = sum((data.sampler.global_batch(step)[:, 1] < len(verses.train)).sum() for step in range(50))
    assert epochs["verses"] == drawn / len(verses.train)
    line = data.describe()["mixture.verses"]
    assert line.startswith(
        f"82 documents, {len(verses.train)} sequences, {verses.train.num_tokens:,} tokens; "
    )
    assert (
        f"asked 70.00% of the tokens, gives 70.00% of the tokens and {data.shares.of_samples['verses']:.2%} of"
        in line
    )
    assert line.endswith(f"{epochs['verses']:.2f} epochs of at most 9")


def test_run_that_passes_over_a_source_too_often_is_refused(cache: Path, paths: dict[str, Path]) -> None:
    sources = weighted(paths, 0.5, 0.5)
    sources["verses"]["max_epochs"] = 2
    data = mixture(cache, sources)
    with pytest.raises(
        ValueError, match=r"^data\.mixture\.verses would be passed over 25\.20 times in 500 "
    ) as error:
        connected(data, 500)
    fits = int(str(error.value).split("train for ")[1].split(" ")[0])
    assert connected(data, fits).epochs["verses"] <= 2
    with pytest.raises(ValueError, match=r"max_epochs is 2: train for"):
        connected(data, fits + 1)
    sources["code"]["max_epochs"] = 9
    connected(mixture(cache, sources, mixture_max_epochs=1), fits)  # the bound of a source comes first
    connected(data, 1 << 40)  # as a budget asks, before its steps are known


def test_held_out_texts_of_a_source_are_in_none(cache: Path, paths: dict[str, Path], tmp_path: Path) -> None:
    """Also where sources overlap: all of `some` is in `verses` as well."""
    some = tmp_path / "some.txt"
    some.write_text("\n\n".join(paths["verses"].read_text().split("\n\n")[:40]))
    data = mixture(cache, weighted({**paths, "some": some}, 1, 1, 1))
    assert data.validation_names == ["verses", "code", "some"]
    assert [len(store) >= 8 for store in data.validation.values()] == [True] * 3
    held_out = {text for store in data.validation.values() for text in decoded(data, store)}
    assert not held_out & set(decoded(data, data.train))
    left_out = {name: len(one.exclusions) for name, one in data.sources.items()}  # type: ignore[arg-type]
    assert left_out["code"] == 0
    assert left_out["verses"] + left_out["some"] > 0
    again = mixture(cache, weighted({**paths, "some": some}, 1, 1, 1))
    assert again.fingerprint() == data.fingerprint()


def test_source_may_have_validation_documents_of_its_own(
    cache: Path, paths: dict[str, Path], tmp_path: Path
) -> None:
    sources = weighted(paths, 1, 1)
    own = write_documents(tmp_path / "own.txt", ["herons", "river"], 12, 6, seed=5)
    sources["verses"] |= {"validation": str(own)}
    sources["code"] |= {"validation_documents": 0}
    data = mixture(cache, sources)
    assert {name: len(store) for name, store in data.validation.items()} == {"verses": 12}
    assert list(data.validation_shares) == ["verses"]
    assert set(data.token_baselines()) == {
        "uniform_entropy", "val/verses/unigram_entropy", "val/verses/tokens_per_byte",
    }  # fmt: skip
    assert list(connected(data).lineage()["sources"]) == ["verses", "verses.validation", "code"]


def test_tokenizer_is_trained_on_all_sources(cache: Path, paths: dict[str, Path]) -> None:
    vocabulary = set(mixture(cache, weighted(paths, 1, 1), vocab_size=300).tokenizer.get_vocab())
    assert {"herons", "lambda"} <= vocabulary
    alone = mixture(cache, weighted({"verses": paths["verses"]}, 1), vocab_size=300)
    assert "lambda" not in alone.tokenizer.get_vocab()


def test_stores_are_made_once_for_all_mixtures(tmp_path: Path, paths: dict[str, Path]) -> None:
    cache = tmp_path / "cache"
    first = mixture(cache, weighted(paths, 1, 1))
    stores = {path: path.stat().st_mtime_ns for path in cache.glob("text/*/*/tokens.bin")}
    assert len(stores) == 4
    other = mixture(cache, weighted(paths, 1, 5), tokenizer=str(first.prepared.tokenizer))  # type: ignore[union-attr]
    shutil.rmtree(cache / "mixtures")
    mixture(cache, weighted(paths, 1, 1))
    assert {path: path.stat().st_mtime_ns for path in cache.glob("text/*/*/tokens.bin")} == stores
    assert other.fingerprint() == first.fingerprint(), "weights are no data"
    fields = {
        name: value for name, value in vars(first.sources["code"].settings).items() if name != "_target_"
    }
    alone = PretrainingData(**fields | {"tokenizer": str(first.prepared.tokenizer)})  # type: ignore[union-attr]
    alone.prepare_data()
    assert alone.fingerprint() == first.sources["code"].fingerprint(), "nor is it another store alone"


def test_prepared_store_is_a_source(tmp_path: Path, paths: dict[str, Path]) -> None:
    first = mixture(tmp_path, weighted(paths, 1, 1), max_length=16)
    store = sharded_folder(tmp_path / "store", 9, 13, tokenizer=tokenizer_fingerprint(first.tokenizer))
    first.tokenizer.save_pretrained(store / "tokenizer")
    sources = weighted({"code": paths["code"]}, 1) | {"store": {"source": f"store:{store}", "weight": 1}}
    data = mixture(tmp_path, sources, max_length=16)
    assert [len(one.train) for one in data.sources.values()][1] == 22
    assert data.fingerprint() != first.fingerprint()
    assert list(data.validation) == ["code", "store"]
    assert len(data.validation["store"]) == 7
    assert given_shares(data)[0] == pytest.approx([0.5, 0.5], abs=0.005)
    other = mixture(tmp_path, weighted(paths, 1, 1), vocab_size=110).prepared
    assert other is not None
    with pytest.raises(ValueError, match=r"^data\.tokenizer=.* is not the tokenizer of"):
        mixture(tmp_path, sources, max_length=16, tokenizer=str(other.tokenizer))


def test_cut_of_a_batch_shows_neither_in_its_hash_nor_in_its_sources(
    cache: Path, paths: dict[str, Path]
) -> None:
    data = connected(mixture(cache, weighted(paths, 1, 2)))
    for step in (0, 49):
        found = []
        for num_ranks, tokens in ((1, None), (1, 60), (4, 30), (7, 24)):
            data.micro_batch_tokens = tokens
            shares = [data.train_batches(rank, num_ranks)[step] for rank in range(num_ranks)]
            hashes = [sum(share[half] for share in shares) for half in ("hash_low", "hash_high")]
            rows = [micro["sources"] for share in shares for micro in share["micro_batches"]]
            assert [len(m["input_ids"]) for s in shares for m in s["micro_batches"]] == [
                len(row) for row in rows
            ]
            indices = torch.cat([share["sample_ids"][:, 1] for share in shares]).numpy()
            if num_ranks == 1:  # more have fillers
                assert torch.cat(rows).tolist() == data.train.sources_of(indices).tolist()
            found.append((hashes, sorted(indices.tolist())))
        assert found == [found[0]] * 4


def test_batches_are_left_out_and_the_run_keeps_its_length(cache: Path, paths: dict[str, Path]) -> None:
    whole = connected(mixture(cache, weighted(paths, 1, 2)), 30)
    data = connected(mixture(cache, weighted(paths, 1, 2)), 20, skip_batches=[[2, 4]])
    steps = [0, *range(4, 23)]
    for step, number in enumerate(steps):
        assert data.sampler.global_batch(step).tolist() == whole.sampler.global_batch(number).tolist()
    assert sum(data.epochs.values()) == pytest.approx(sum(whole.epochs.values()) * 23 / 30, rel=0.02)


def test_another_weight_is_another_order_and_no_other_data(cache: Path, paths: dict[str, Path]) -> None:
    ours, theirs = (connected(mixture(cache, weighted(paths, 1, weight))).lineage() for weight in (2, 3))
    assert ours["data"] == theirs["data"]
    assert ours["order"] != theirs["order"]
    assert ours["sources"] == theirs["sources"]
    more = weighted(paths, 1, 2) | {"again": {"source": str(paths["code"]), "weight": 1}}
    assert mixture(cache, more).fingerprint() != ours["data"]


def test_files_of_sources_are_part_of_the_manifest(paths: dict[str, Path]) -> None:
    found = data_files({"mixture": weighted(paths, 1, 2), "source": None})
    assert {name: list(files) for name, files in found.items()} == {
        "mixture.verses.source": ["verses.txt"], "mixture.code.source": ["code.txt"],
    }  # fmt: skip


WRONG = {
    "[a.txt]": r"data\.mixture=\['a\.txt'\]: expected sources by name, such as \{books:",
    "{a: {weight: 1}}": r"data\.mixture\.a=.*: expected settings with a source",
    "{a: {source: a.txt, wieght: 1}}": r"data\.mixture\.a\.wieght: a source has source, .*Did you mean 'weight'\?",
    "{a: {source: a.txt, weight: 0}}": r"data\.mixture\.a\.weight=0: it must be a number above 0; leave the source out",
    "{a: {source: a.txt, weight: 1, text_unit: lines}}": r"data\.mixture\.a\.text_unit=lines: .*Did you mean 'line'\?",
    "{a: {source: a.txt, weight: 1}, b: {source: b.txt}}": r"data\.mixture\.b has no weight: give every source one, or",
    "{train: {source: a.txt, weight: 1}}": r"data\.mixture\.train: names are of letters",
    "{a.b: {source: a.txt, weight: 1}}": r"data\.mixture\.a\.b: names are of letters",
}


@pytest.mark.rows(3)
@pytest.mark.parametrize(("given", "message"), WRONG.items())
def test_wrong_mixture_is_refused_in_one_line_before_data_is_read(given: str, message: str) -> None:
    config = compose("data=mixture", f"data.mixture={given}")
    with pytest.raises(ValueError, match=f"^{message}"):
        check_config(config)


def test_settings_that_contradict_a_mixture_are_refused(cache: Path, paths: dict[str, Path]) -> None:
    sources = weighted(paths, 1, 1)
    for name, value in {"source": "a.txt", "validation": "a.txt", "streaming": True}.items():
        with pytest.raises(ValueError, match=rf"^data\.{name} cannot be given for a mixture"):
            mixture(cache, sources, **{name: value})
    with pytest.raises(ValueError, match=r"^data\.mixture\.verses\.weight and data\.mixture_tau"):
        mixture(cache, sources, mixture_tau=0.5)
    data = mixture(cache, sources)
    message = r"LengthGrouped sorts all samples together: choose sampler=shuffled"
    with pytest.raises(ValueError, match=message):
        data.connect(
            lambda **length: LengthGrouped(global_batch_size=4, seed=0, pool_batches=2, **length),
            None, 9, None, seed=0, accept_changes=False,
        )  # fmt: skip
