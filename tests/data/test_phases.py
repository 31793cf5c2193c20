"""Runs in phases: the order of the undivided run where nothing changes, and exact wherever they go on."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import TINY, Command, train_as
from tests.data.mixture.test_runs import words
from tests.runs.test_train import assert_bitwise, continued, losses, rows, weights
from tests.support.composed import composed
from tests.support.in_process import tiryns_here
from tests.support.precision import rounding
from tiryns.runner.cli.order.opened import SampleOrder
from tiryns.runner.data.origin.places import places_of
from tiryns.runner.loop.assembly import assemble
from tiryns.runner.manifest.inputs import read_manifest
from tiryns.runner.run import audit
from tiryns.runner.run.folder import Run

SAVING = ["checkpoint.every_steps=1", "checkpoint.keep_last=20"]

LAST = (
    "{name: decay, steps: 3, data: {max_length: 24, mixture: {code: 1}}, "
    "objective: {mlm_probability: 0.6, final_mlm_probability: 0.2}}"
)
PHASES = (
    "phases=[{name: stable, steps: 5}, {name: wide, steps: 4, data: {max_length: 24}, "
    "sampler: {global_batch_size: 16, warmup_from: 8, warmup_steps: 2, warmup_by: 4}}, " + LAST + "]"
)


@pytest.fixture(scope="module")
def arguments(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [*words(tmp_path_factory.mktemp("texts")), *SAVING]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, arguments: list[str]) -> Run:
    folder = tmp_path_factory.mktemp("phases") / "whole"
    run: Run = train_as(folder, [*arguments, PHASES, "trainer.max_steps=-1"])
    return run


def shares_of(config: Any) -> list[dict[str, Any]]:
    parts = assemble(config)
    batches = parts.data.train_batches(0, 1)
    return [batches[step] for step in range(parts.max_steps)]


@pytest.mark.slow
def test_text_of_several_lengths_is_read_aloud_and_counted_once(
    arguments: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="tiryns"):
        config = composed([*arguments, PHASES, "trainer.max_steps=-1", f"data.cache_dir={tmp_path}"])
        data = assemble(config).data
    read = [line for line in caplog.messages if line.startswith("read ")]
    assert len(read) == len(set(read)) == len(data.sources)
    tokens = sum(one.train.num_tokens for one in data.sources.values())
    assert data.describe()["training"].endswith(
        f" documents, {len(data.whole):,} sequences, {tokens:,} tokens"
    )


@pytest.mark.slow
@pytest.mark.parametrize("step", [3, 5, 7, 10], ids=["first", "boundary", "second", "last"])
def test_resumed_run_is_bitwise_the_undisturbed_one(whole: Run, arguments: list[str], step: int) -> None:
    cut = continued(whole, step, f"cut_{step}")
    train_as(cut.path, [*arguments, PHASES, "trainer.max_steps=-1", "data.num_workers=2"])
    assert audit.compare(whole.path, cut.path) is None
    assert audit.length(cut.path) == 12
    assert_bitwise(weights(whole, 12), weights(cut, 12))
    assert rows(cut)[-1] == rows(whole)[-1]


@pytest.mark.slow
def test_two_processes_train_on_the_same(whole: Run, arguments: list[str], tiryns: Command) -> None:
    on_two = continued(whole, 4, "on_two")
    on_two.update_status(state="failed")
    tiryns(*arguments, PHASES, "trainer.max_steps=-1", "trainer.devices=2", f"resume={on_two.path}")
    assert audit.compare(whole.path, on_two.path) is None
    assert audit.length(on_two.path) == 12
    assert losses(on_two) == pytest.approx(losses(whole), rel=rounding(1e-5, 1e-3))
    for ours, theirs in zip(rows(whole), rows(on_two), strict=True):
        for name in ("train/loss/verses", "train/loss/code"):
            assert bool(ours[name]) == bool(theirs[name])
            assert not ours[name] or float(ours[name]) == pytest.approx(float(theirs[name]), rel=1e-2)


@pytest.mark.rows(1)
@pytest.mark.parametrize("mixture", [True, False], ids=["mixture", "one source"])
def test_phases_that_change_nothing_are_the_run_without(
    arguments: list[str], text_file: Path, mixture: bool
) -> None:
    given = arguments if mixture else [*TINY, f"data.source={text_file}"]
    lengths = ["data.length_warmup_from=8", "data.length_warmup_steps=3"]
    warmup = [*lengths, "objective.final_mlm_probability=0.1", "skip_batches=[[12,15]]"]
    undivided = shares_of(composed([*given, *warmup]))
    same = "phases=[{name: a, share: 0.5}, {name: b, share: 0.5, data: {max_length: 48}}]"
    other = same.replace("data:", "sampler: {global_batch_size: 12}, data:").replace("48", "47")
    found = shares_of(composed([*given, *warmup, same]))
    hashes = [[(share["hash_high"], share["hash_low"]) for share in shares] for shares in (undivided, found)]
    assert hashes[0] == hashes[1]
    differing = shares_of(composed([*given, *warmup, other]))
    assert [share["hash_low"] for share in differing[:6]] == [low for _, low in hashes[0][:6]]
    assert differing[6]["hash_low"] != hashes[0][6][1]


def test_steps_have_the_sizes_lengths_rates_and_sources_asked_for(arguments: list[str]) -> None:
    shares = shares_of(composed([*arguments, PHASES, "trainer.max_steps=-1"]))
    assert [len(share["sample_ids"]) for share in shares] == [12] * 5 + [8, 12, 16, 16] + [12] * 3
    longest = [max(int(micro["max_length"]) for micro in share["micro_batches"]) for share in shares]
    assert max(longest[:5]) > 24
    assert max(longest[5:]) <= 24
    sources = [
        set(np.concatenate([micro["sources"] for micro in share["micro_batches"]]).tolist())
        for share in shares
    ]
    assert sources[:9] == [{0, 1}] * 9
    assert sources[9:] == [{1}] * 3
    rates = [share["weight"] / share["tokens"] for share in shares]
    assert rates[9] > 0.4 > rates[11]
    assert max(rates[:9]) < 0.4
    skipping = [*arguments, PHASES, "trainer.max_steps=-1", "skip_batches=[[2,3],[11,11]]"]
    remaining = assemble(composed(skipping)).data.train_batches(0, 1)
    kept = [share["hash_low"] for number, share in enumerate(shares, 1) if number not in (2, 3, 11)]
    assert [remaining[step]["hash_low"] for step in range(9)] == kept, "in their phases"
    assert [len(remaining[step]["sample_ids"]) for step in range(9, 12)] == [12] * 3


@pytest.mark.slow
def test_manifest_and_order_know_the_phases(whole: Run, arguments: list[str]) -> None:
    inputs = read_manifest(whole.path)["inputs"]
    assert [phase["steps"] for phase in inputs["order"]["phases"]] == [5, 4, 3]
    assert list(inputs["order"]["phases"][2]["draws"]) == ["code@24"]
    order = SampleOrder(whole.path)
    assert list(order.changed_steps(range(1, 13))) == []
    assert [order.phase_at(step) for step in (1, 5, 6, 9, 10)] == [
        "stable", "stable", "wide", "wide", "decay",
    ]  # fmt: skip
    places = places_of(order.data)
    for index in (*order.samples(6)[:, 1].tolist(), *order.samples(10)[:, 1].tolist()):
        place = places.of(index)
        assert Path(place.file).stem == place.source
        text = list(order.data.sources[place.source].source.documents())[int(place.row.split()[1]) - 1]
        ids = order.data.tokenizer(text, add_special_tokens=False)["input_ids"]
        assert order.data.train[index].tolist()[1:4] in [ids[i : i + 3] for i in range(len(ids))]
    document = next(iter(order.data.sources["code"].source.documents()))
    ((_, (holder, *_)),) = order.find(document)
    lengths = {len(order.data.train[index]) for index in holder.sequences}
    assert len(holder.sequences) >= 2, "once for each length"
    assert max(lengths) <= 48


def test_plan_and_order_tell_the_phases(whole: Run, arguments: list[str], tmp_path: Path) -> None:
    done = tiryns_here(tmp_path, "plan", *arguments, PHASES, "trainer.max_steps=-1")
    assert done.returncode == 0, done.stderr
    table = done.stdout[done.stdout.index("\nphases") :].splitlines()[2:6]
    assert re.split(r"  +", table[0].strip()) == [
        "phase", "steps", "about tokens", "max_length", "sequences", "masking", "sources"
    ]  # fmt: skip
    assert re.fullmatch(r"  wide +4 +[\d,]+ +24 +8 to 16 +0.3 +verses 7\d.\d%, code 2\d.\d%|.*", table[2])
    assert re.split(r"  +", table[3].strip())[3:] == ["24", "12", "0.6 to 0.2", "code 100.0%"]
    done = tiryns_here(tmp_path, "order", str(whole.path), "--steps", "9:10", "--format", "csv")
    lines = [line.split(",") for line in done.stdout.splitlines()]
    assert lines[0][-1] == "phase"
    assert {(line[0], line[-1]) for line in lines[1:]} == {("9", "wide"), ("10", "decay")}


def test_later_phases_may_change_on_a_branch_and_earlier_ones_may_not(
    whole: Run, arguments: list[str]
) -> None:
    branch = [*arguments, "trainer.max_steps=-1", f"resume={whole.checkpoint_dir / 'step-00000009.ckpt'}"]
    other = PHASES.replace(LAST, "{name: longer, steps: 5, data: {mixture: {verses: 1}}}")
    run = train_as(whole.path.with_name("branch"), [*branch, other])
    assert audit.whole_lines(run.path / audit.FILE_NAME)[-1].startswith("14 ")
    assert "changed" not in read_manifest(run.path)["inputs"]
    later = [*branch[:-1], f"resume={whole.checkpoint_dir / 'step-00000010.ckpt'}"]
    for given, changed in (
        (branch, PHASES.replace("warmup_by: 4", "warmup_by: 2")),
        (later, PHASES.replace("steps: 4", "steps: 6")),
    ):
        with pytest.raises(ValueError, match=r"order: phases\[1\] was \{.*resume_changed_data=true$"):
            train_as(whole.path.with_name("refused"), [*given, changed])


@pytest.mark.slow
def test_a_run_without_phases_is_the_trunk_of_one_with_them(arguments: list[str], tmp_path: Path) -> None:
    trunk = train_as(tmp_path / "trunk", [*arguments, "trainer.max_steps=6"])
    phases = f"phases=[{{name: stable, steps: 4}}, {LAST}]"
    branch = [*arguments, phases, "trainer.max_steps=-1", f"resume={trunk.checkpoint_dir}/step-00000004.ckpt"]
    run = train_as(tmp_path / "branch", branch)
    undisturbed = train_as(tmp_path / "whole", branch[:-1])
    lines = [audit.whole_lines(one.path / audit.FILE_NAME) for one in (run, undisturbed)]
    assert len(lines[0]) == 3
    assert lines[0] == lines[1][4:]


@pytest.mark.slow
def test_tokens_of_phases_count_whatever_is_left_out(arguments: list[str]) -> None:
    counted = "phases=[{name: stable, tokens: 900}, {name: wide, tokens: 900, data: {max_length: 24}}]"
    lengths = []
    for skipped in ([], ["skip_batches=[[1,2],[6,6]]"]):
        config = composed([*arguments, counted, "trainer.max_steps=-1", *skipped])
        lengths.append([assemble(config).max_steps, *(phase.steps for phase in config.phases)])
    assert lengths[0] == lengths[1]
