"""The speedrun keeps its rules: the default recipe's text, tokenizer and validation, one thread, a fixed length."""

import json
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from omegaconf import OmegaConf

import tiryns
from tests.conftest import ROOT, Command
from tests.recipes.rules import broken_rules, config_of
from tests.support.processes import PROGRAM, process
from tiryns.conf.config import LATER
from tiryns.runner.cli.compose import initialize, overrides_of
from tiryns.runner.run.folder import load_run

RECORDS = sorted((ROOT / "docs" / "records").glob("*.json"))
NEWEST = RECORDS[-1]
PAGE = ROOT / "docs" / "speedrun.md"
TARGET = 4.167
"""Nats that the default recipe reaches, the mean of seeds 1 to 9."""

Document = tuple[tuple[int, int], list[int], list[int]]


@cache
def validated_on(*words: str) -> list[Document]:
    """The documents of validation as a run sees them: id, tokens with masks, and targets by their places."""
    parts = tiryns.assemble(tiryns.compose("trainer=cpu", "data.layout=packed", *words))
    parts.data.trainer = lightning.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
    (loader,) = parts.data.val_dataloader()
    return sorted(document for share in loader for document in documents(share))


def documents(share: Any) -> Iterator[Document]:
    names = iter(share["sample_ids"].tolist())
    for micro_batch in share["micro_batches"]:
        ids, ends = micro_batch["input_ids"].flatten(), micro_batch["cu_seqlens"].tolist()
        targets = torch.full_like(ids, -1)
        targets[micro_batch["target_positions"]] = micro_batch["targets"]
        for (start, end), (epoch, index) in zip(pairwise(ends), names, strict=False):
            yield (epoch, index), ids[start:end].tolist(), targets[start:end].tolist()


@pytest.mark.slow
def test_recipe_is_validated_on_the_very_tokens_masks_and_targets_of_the_default() -> None:
    ours, theirs = validated_on("experiment=speedrun"), validated_on()
    assert len(ours) > (100 if sys.version_info >= (3, 13) else 200)
    assert ours == theirs


@pytest.mark.slow
@pytest.mark.parametrize(
    "free",
    [
        ["sampler.global_batch_size=7"],
        ["data.length_warmup_from=16", "data.length_warmup_steps=100"],
        ["objective.mlm_probability=0.5", "model=bert_tiny"],
    ],
)
def test_what_the_rules_leave_free_changes_no_bit_of_validation(free: list[str]) -> None:
    assert validated_on(*free) == validated_on()


@pytest.mark.slow
@pytest.mark.parametrize(
    "forbidden", ["data.max_length=64", "objective.validation_mlm_probability=0.2", "seed=1"]
)
def test_other_documents_and_masks_would_be_seen(forbidden: str) -> None:
    assert validated_on(forbidden) != validated_on()


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    "forbidden",
    [
        "data.max_length=64",
        "data.seed=1",
        "data.lowercase=false",
        "data.validation_documents=0.1",
        "objective.validation_mlm_probability=0.2",
        "trainer.validation_batches=1",
        "data=stdlib_code",
    ],
)
def test_other_data_and_validation_break_the_rules(forbidden: str) -> None:
    name = {"data": "data.source"}.get(*[forbidden.partition("=")[0]] * 2)
    assert broken_rules(manifest_of(forbidden), config_of()) == [f"{name} is not that of the default recipe"]


def manifest_of(*words: str, **changed: Any) -> dict[str, Any]:
    """What a manifest would say of a run of these words that keeps the rules of its execution."""
    config = config_of("data.num_workers=0", *words)
    resolved = {"accelerator": "cpu", "processes": 1, "threads": 1}
    made = {
        "config": {"resolved": config}, "resolved": resolved, "code": {"own": {}}, "inputs": {}, "interruptions": 0,
        "totals": {"steps": config["trainer"]["max_steps"]},
    }  # fmt: skip
    return {**made, **changed}


def test_recipe_keeps_the_rules() -> None:
    assert broken_rules(manifest_of("experiment=speedrun"), config_of()) == []


@pytest.mark.rows(3)
@pytest.mark.parametrize(
    ("words", "changed", "broken"),
    [
        (["trainer.max_steps=-1", "trainer.max_seconds=60"], {}, "fixed number of steps"),
        ([], {"totals": {"steps": 3}}, "not ended with its last step"),
        (["model=pretrained", "model.name_or_path=run"], {}, "weights of another run"),
        ([], {"inputs": {"weights": {}}}, "weights of another run"),
        ([], {"resolved": {"accelerator": "cpu", "processes": 1, "threads": 2}}, "one thread"),
        ([], {"resolved": {"accelerator": "cpu", "processes": 2, "threads": 1}}, "one process"),
        (["data.num_workers=1"], {}, "a loader process"),
        ([], {"interruptions": 1}, "interrupted"),
        ([], {"code": {"own": {"mine.py": "0"}}}, "not the program's"),
    ],
)
def test_run_that_breaks_a_rule_is_told_which(words: list[str], changed: dict[str, Any], broken: str) -> None:
    found = broken_rules(manifest_of(*words, **changed), config_of())
    assert any(broken in line for line in found)


@pytest.mark.rows(2)
@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_record_keeps_the_rules_and_has_its_row(record: Path) -> None:
    manifest = json.loads(record.read_text())
    assert broken_rules(manifest, config_of()) == []
    (row,) = (line for line in PAGE.read_text().splitlines() if f"(records/{record.name})" in line)
    assert f"`{manifest['digest'].removeprefix('sha256:')[:12]}`" in row
    assert manifest["machine"]["cpu"].partition(" x ")[0] in row


def test_records_are_of_the_same_validation() -> None:
    fingerprints = {json.dumps(json.loads(record.read_text())["inputs"]["evaluation"]) for record in RECORDS}
    assert len(RECORDS) >= 2
    assert len(fingerprints) == 1


def test_recipe_is_that_of_its_record() -> None:
    kept = json.loads(NEWEST.read_text())["config"]["resolved"]
    for group, settings in config_of("experiment=speedrun", "seed=1").items():
        different = {
            n for n, value in settings.items() if kept[group].get(n, value) != value
        }  # or came later
        assert not different - {"cache_dir"}, group


@pytest.mark.slow
@pytest.mark.rows(1)
@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_record_of_before_a_setting_came_composes_with_its_default(record: Path) -> None:
    config = OmegaConf.create(json.loads(record.read_text())["config"]["resolved"])
    for group, later in LATER.items():
        for name in later:
            config[group].pop(name, None)
    with initialize():
        older = overrides_of(config)
        config.objective.mlm_probability = 0.25
        assert {*overrides_of(config)} == {*older, "objective.mlm_probability=0.25"}
        del config.objective.validation_mlm_probability
        with pytest.raises(Exception, match="validation_mlm_probability"):  # it was always there
            overrides_of(config)


@pytest.mark.slow
def test_one_seed_reaches_the_target_within_its_steps(tiryns: Command, tmp_path: Path) -> None:
    tiryns("experiment=speedrun", "seed=6", "hydra.run.dir=run")
    run = load_run(tmp_path / "run")
    assert (run.final("val/held_out/loss") or 9.0) <= TARGET
    assert run.series["time/cpu_seconds"].steps.tolist() == [run.settings["trainer.max_steps"]]


@pytest.mark.slow
def test_record_is_rebuilt_from_its_manifest(tmp_path: Path) -> None:
    words = ("reproduce", str(NEWEST), "--anyway", "--steps", "100", "--json")
    done = process(*PROGRAM, *words, cwd=tmp_path)
    assert json.loads(done.stdout)["verdict"] in ("identical", "equal to rounding"), done.stderr[-3000:]
