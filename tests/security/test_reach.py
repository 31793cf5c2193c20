"""A config chooses nothing outside its run: places, addresses and jobs are the user's own, or refused."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from tests.config.test_foreign_code import assert_refused, strangers_run
from tests.conftest import write_text
from tests.report.pages import make_run
from tests.security.attacks import ADDRESSES, FETCHING, JOBS, PLACES
from tests.security.conftest import COUNTS, Problem
from tests.support.in_process import refused, tiryns_here
from tiryns.runner.config import reach
from tiryns.runner.config.permissions import check_permissions
from tiryns.runner.config.reach import allow_addresses, check_address, covers
from tiryns.runner.run.folder import Run

OF_HYDRA: dict[str, Any] = {"sweeper": {}, "launcher": {}, "run": {}, "sweep": {}, "job": {}, "mode": None}


@pytest.mark.rows(2)
@pytest.mark.parametrize("name", PLACES)
def test_recipe_writes_nothing_outside_of_its_run(
    name: str, problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = problem(PLACES[name])
    assert COUNTS in said or "was not found" in said or "counts on the command line alone" in said, said
    assert "\n" not in said
    monkeypatch.setenv("TIRYNS_CONF", str(tmp_path / "recipes"))
    assert COUNTS not in problem(PLACES[name]), "a folder of the user's own counts as the user does"


def test_each_place_outside_of_a_run_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all rows at once, which are not composed; jobs are looked at by their launcher."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path / "work")
    for name, recipe in PLACES.items():
        group, _, node = recipe[1:].partition(" ")
        own = {group: OmegaConf.create(node)} if recipe[0] == "@" else OmegaConf.create(recipe)
        config: Any = OmegaConf.merge({"hydra": OF_HYDRA}, own)
        assert [*reach.find(config), *reach.find(config, of_hydra=True)], name


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    "recipe",
    [
        "outputs: runs/mlm",
        "hydra: {run: {dir: runs/mine}}",
        "hydra: {run: {dir: '${outputs}/${now:%H}'}}",
        "data: {cache_dir: cache}",
        "logger: {x: {_target_: lightning.pytorch.loggers.CSVLogger, name: mine}}",
        "logger: {x: {_target_: lightning.pytorch.loggers.CSVLogger, save_dir: '${hydra.runtime.output_dir}/csv'}}",
        "@checkpoint {_target_: lightning.pytorch.callbacks.ModelCheckpoint, filename: '{epoch}-{step}'}",
        "data: {source: /data/text.txt, tokenizer: /models/bert}",
        "data: {source: 'owner/name:config@train', tokenizer: owner/name}",
        "hydra: {launcher: {partition: gpu}}\ndefaults:\n  - override /hydra/launcher: slurm",
        "resume: auto",
        "data: {source: 'file:///data/x.parquet', image_dir: /data/images, images_folder: /data/images}",
        "data: {source: {folder: /data/images}, prompt: 'Instruct::x'}\nmodel: {directory: /models/bert}",
        "data: {source: 'local:///data/x.parquet'}",
    ],
)
def test_recipe_chooses_what_lies_within(recipe: str, problem: Problem) -> None:
    assert COUNTS not in problem(recipe)


@pytest.mark.rows(3)
@pytest.mark.parametrize(
    "word",
    [
        "outputs=/tmp/elsewhere", "hydra.run.dir=/tmp/elsewhere", "data.cache_dir=/tmp/elsewhere", "data.source=https://mine.org/x",
        "data.source=[s3://mine/a,s3://mine/b]", "data.source=store:s3://mine/a", "data.source=simplecache::s3://mine/a",
        "logger.x={_target_: lightning.pytorch.loggers.CSVLogger, save_dir: /tmp/x}", "hydra.run.dir='${outputs}/../x'",
        "+data.x=s3://mine/x,s3://mine/y", "model.name_or_path=zip://x::s3://mine/x",
    ],
)  # fmt: skip
def test_what_is_typed_counts(word: str, problem: Problem) -> None:
    assert COUNTS not in problem("seed: 1", word if word.startswith("+") else f"++{word}")


@pytest.mark.rows(12)
@pytest.mark.parametrize("address", ADDRESSES)
def test_recipe_fetches_nothing(address: str) -> None:
    config = OmegaConf.create({"data": {"source": address, "text_column": "https"}})
    with pytest.raises(ValueError, match=r"^data\.source fetches from an address"):
        check_permissions(config, ["seed=1"])
    check_permissions(config, [f"data.source={address}" if "," not in address and "::" not in address
                               and "$" not in address and address[0] != " " and ": " not in address
                               else f"data.source='{address}'"])  # fmt: skip


@pytest.mark.parametrize("key", FETCHING)
def test_address_is_refused_wherever_it_stands(key: str) -> None:
    config = OmegaConf.create({"data": {"source": ["x"]}} if key.endswith("]") else {})
    if key.startswith("hydra"):
        value = {**OF_HYDRA, "sweeper": {"storage": "grpc://evil:1"}}
        found = list(reach.find(OmegaConf.create({"hydra": value}), of_hydra=True))
        assert [one.resource for one in found] == ["grpc://evil:1"]
        return
    OmegaConf.update(config, key, "https://evil.org/x")
    with pytest.raises(ValueError, match="fetches from an address"):
        check_permissions(config, [])


def test_one_setting_allows_addresses() -> None:
    config = OmegaConf.create({"data": {"source": "s3://mine/x"}, "allowed_addresses": ["s3://mine/"]})
    with pytest.raises(ValueError, match="allowed_addresses lets"):
        check_permissions(config, [])
    check_permissions(config, ["allowed_addresses=[s3://mine/]"])
    assert covers(["s3://mine"], "zip://x::s3://mine/x.zip") is False, "each part is asked for"
    assert covers(["s3://mine", "zip://x"], "zip://x::s3://mine/x.zip")
    assert not covers(["https://good.org"], "https://good.org.evil.org")
    assert not covers(["https://good.org"], "simplecache::x")
    assert not covers(["https://h/a"], "https://h/a/../../b")
    assert not covers(["https://h/a"], "https://h/a/%2e%2e/b")


def test_file_of_data_leads_nowhere_by_itself() -> None:
    with pytest.raises(ValueError, match="which a file of data may not do by itself"):
        check_address("s3://evil/x", "blend.yaml")
    allow_addresses(["s3://mine"])
    try:
        check_address("s3://mine/x", "blend.yaml")
    finally:
        allow_addresses([])


@pytest.mark.rows(2)
@pytest.mark.parametrize("name", JOBS)
def test_recipe_submits_nothing(name: str, tmp_path: Path, problem: Problem) -> None:
    recipe, flags = JOBS[name]
    problem(recipe)
    seeds = "seed=1,2" if flags else "seed=1"
    done = tiryns_here(tmp_path, "--config-dir", "recipes", *flags, "experiment=theirs", seeds)
    assert_refused(done, ["it counts on the command line"], tmp_path)


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    "words",
    [
        ["outputs=/tmp/elsewhere"], ["data=files", "data.source=https://evil.org/x"],
        ["+logger.x={_target_: lightning.pytorch.loggers.CSVLogger, save_dir: /tmp/x}"], ["data.cache_dir=/tmp/x"],
        ["allowed_addresses=[https://evil.org]"],
    ],
)  # fmt: skip
def test_strangers_run_reaches_nothing_and_a_run_of_ones_own_goes_on(
    words: list[str], tmp_path: Path
) -> None:
    strangers_run(tmp_path / "theirs", words)
    done = tiryns_here(tmp_path, "resume=theirs")
    assert_refused(done, ["it counts on the command line"], tmp_path)
    Run(tmp_path / "mine").announce("abc", [*words, "scheduler.warmup_steps=5000"])
    done = tiryns_here(tmp_path, "resume=mine")
    assert "do not fit into max_steps" in done.stderr, done.stderr
    (tmp_path / "mine" / "overrides.json").write_text('["outputs=/tmp/other"]')
    done = tiryns_here(tmp_path, "resume=mine")
    assert_refused(done, ["it counts on the command line"], tmp_path)


def test_commands_that_take_words_from_others_run_nothing(tmp_path: Path) -> None:
    evil = "allowed_targets: [posix.system]"
    (tmp_path / "own" / "experiment").mkdir(parents=True)
    (tmp_path / "own" / "experiment" / "nice.yaml").write_text(f"# @package _global_\n{evil}\n")
    done = tiryns_here(tmp_path, "schedule", "--config-dir", "own", "experiment=nice", "trainer.max_steps=3")
    assert_refused(done, ["allowed_targets"], tmp_path)
    words = ["allowed_targets=[posix.system]", "optimizer.lr=0.0001"]
    for number, noted in enumerate((words, ["allowed_targets=[posix.system]"])):
        run = make_run(tmp_path / "theirs" / str(number))
        (run / "overrides.json").write_text(json.dumps([*noted, "+hydra.launcher.setup=[touch pwned]"]))
    done = tiryns_here(tmp_path, "judge", "theirs", "--seeds", "9", "--change", "optimizer.lr=0.0001")
    assert_refused(done, ["allowed_targets lets code of others run"], tmp_path)


def test_default_counts_where_it_is_a_link(tmp_path: Path, problem: Problem) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "work" / "outputs").symlink_to(tmp_path / "scratch")
    assert COUNTS not in problem("seed: 1")


@pytest.mark.slow
def test_recipes_of_ones_own_count_in_the_run_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own"
    (own / "experiment").mkdir(parents=True)
    (own / "callback").mkdir()
    (own / "experiment" / "base.yaml").write_text(
        f"# @package _global_\ndata: {{cache_dir: {tmp_path}/cache}}\n"
    )
    (own / "experiment" / "nice.yaml").write_text(
        "# @package _global_\ndefaults: [base, _self_]\noptimizer: {lr: 0.5}\n"
    )
    saver = f"{{_target_: lightning.pytorch.callbacks.ModelCheckpoint, dirpath: {tmp_path}/kept}}"
    (own / "callback" / "keep.yaml").write_text(f"keep: {saver}\n")
    (own / "latin.yaml").write_bytes(b"a: \xe9\n")
    (own / "folder.yaml").mkdir()
    text = write_text(tmp_path / "text.txt")
    words = [
        "experiment=nice", "callback=[keep,progress]", "mode=inspect", "data=files", f"data.source={text}",
    ]  # fmt: skip
    monkeypatch.setenv("TIRYNS_CONF", str(own))
    done = tiryns_here(tmp_path, *words)
    assert "counts on the command line" not in done.stderr, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    monkeypatch.delenv("TIRYNS_CONF")
    assert_refused(tiryns_here(tmp_path, "--config-dir", "own", *words), [COUNTS], tmp_path)


def test_values_of_a_typed_sweep_count() -> None:
    words = ["data.cache_dir=/s/a,/s/b"]
    check_permissions(OmegaConf.create({"data": {"cache_dir": "/s/b"}}), words)
    with pytest.raises(ValueError, match="outside of this folder"):
        check_permissions(OmegaConf.create({"data": {"cache_dir": "/s/c"}}), words)


def test_comment_in_own_folder_allows_no_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.yaml").write_text("# see https://seen.org\ndata: {source: https://mine.org/x}\n")
    monkeypatch.setenv("TIRYNS_CONF", str(tmp_path))
    check_permissions(OmegaConf.create({"data": {"source": "https://mine.org/x/y"}}), [])
    with pytest.raises(ValueError, match="fetches from an address"):
        check_permissions(OmegaConf.create({"data": {"source": "https://seen.org/x"}}), [])


def test_another_run_is_not_written_over(problem: Problem, tmp_path: Path) -> None:
    Run(tmp_path / "work" / "mine").announce("abc", [])
    done = _run_of_recipe(tmp_path, "hydra: {run: {dir: mine}}")
    assert "hydra.run.dir=mine is another run" in done


def _run_of_recipe(tmp_path: Path, recipe: str, words: Sequence[str] = ()) -> str:
    (tmp_path / "recipes" / "experiment" / "theirs.yaml").write_text(f"# @package _global_\n{recipe}\n")
    return refused(tmp_path / "work", "--config-dir", "../recipes", "experiment=theirs", *words)
