"""Runs grouped into settings: what counts as a difference, which setting is best, and what is said of it."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.cli.judge.folders import KEY, make_run, make_sweep
from tests.report.pages import read, write_comparison
from tiryns.runner.cli.commands import main
from tiryns.runner.report.comparison.differences import changed_settings
from tiryns.runner.report.comparison.settings import Comparison
from tiryns.runner.report.table import compared_as, compared_text
from tiryns.runner.run.folder import Run, find_runs, load_run

LEVEL = KEY.replace("/loss", "/unigram_entropy")


def compared(folder: Path) -> Comparison:
    return Comparison([load_run(run) for run in find_runs(folder)])


def test_lucky_seed_is_not_the_best_setting(tmp_path: Path) -> None:
    losses = {"optimizer.lr=0.1": [1.0, 5.0, 6.0], "optimizer.lr=0.2": [2.0, 2.1, 2.2]}
    found = compared(make_sweep(tmp_path / "s", losses))
    assert [(each.label, len(each.figures)) for each in found.settings] == [("lr=0.1", 3), ("lr=0.2", 3)]
    assert (found.best, found.best_runs()) == ([1], {3, 4, 5})
    best = found.settings[1]
    assert best.spread[:2] == (pytest.approx(2.1), pytest.approx(0.1))
    assert best.spread.interval == pytest.approx((1.85159, 2.34841), abs=1e-5)  # 4.30265 standard errors
    (said,) = found.notes
    assert said.startswith("Best setting: lr=0.2, mean best validation loss 2.1 over 3 seeds (")
    assert "(standard deviation 0.1, 95 % interval 1.852 to 2.348)" in said
    assert "lr=0.1, overlaps: `tiryns judge` tells" in said
    starred = [line.split() for line in compared_text(found).splitlines() if line[:1] == "*"]
    assert [row[1] for row in starred] == ["1", "s/3", "s/4", "s/5"]
    assert said in compared_as("md", list(found.runs))


def test_intervals_that_lie_apart_and_single_seeds_are_said(tmp_path: Path) -> None:
    apart = compared(
        make_sweep(tmp_path / "a", {"optimizer.lr=0.1": [1.0, 1.1], "optimizer.lr=0.2": [9.0, 9.1]})
    )
    assert apart.notes[0].endswith("The interval of the next, lr=0.2, lies apart from it.")
    single = compared(make_sweep(tmp_path / "b", {"optimizer.lr=0.1": [1.0], "optimizer.lr=0.2": [2.0]}))
    assert single.notes[0].endswith("One seed may be luck: `tiryns judge` trains more and tells.")
    page = read(write_comparison(tmp_path / "b", find_runs(tmp_path / "b")))
    assert page.tiles[0][2] == "rests on 1 seed"
    assert "Settings" not in page.texts("section"), "the table of runs says it all"


@pytest.mark.parametrize(
    ("losses", "said"),
    [
        ([[1.0], [2.0]], "One seed may be luck."),
        ([[1.0, 2.0], [3.0]], "The next, lr=0.2, has one seed."),
        ([[1.0, 5.0], [4.0, 5.0]], "95 % interval -22.41 to 28.41)."),
    ],
)
def test_runs_of_a_judgement_are_not_sent_to_one(
    tmp_path: Path, losses: list[list[float]], said: str
) -> None:
    folder = make_sweep(tmp_path / "s", {f"optimizer.lr=0.{i}": some for i, some in enumerate(losses, 1)})
    assert "`tiryns judge`" in compared(folder).notes[0]
    (folder / "judge.json").write_text("{}")
    assert compared(folder).notes[0].endswith(said)
    assert "tiryns judge" not in read(write_comparison(folder, find_runs(folder))).text


def test_step_of_a_failed_run_without_a_checkpoint_is_that_of_its_message(tmp_path: Path) -> None:
    folder = make_sweep(tmp_path / "s", {"optimizer.lr=0.1": [1.0], "optimizer.lr=0.2": [2.0]})
    run = find_runs(folder)[1]
    (run / "metrics.csv").unlink(missing_ok=True)
    error = "the loss or its gradient is not a number at step 3 (samples epoch:index 0:7, ...); no checkpoint"
    (run / "status.json").write_text(json.dumps(status := {"state": "failed", "error": error}))
    assert load_run(run).step == 3
    assert "epoch:index" not in read(write_comparison(folder, find_runs(folder))).text
    (run / "status.json").write_text(json.dumps({**status, "step": 8}))
    assert load_run(run).step == 8
    (run / "status.json").write_text(json.dumps({"state": "failed", "error": "no space is left"}))
    assert load_run(run).step == 0


def test_run_that_is_not_done_counts_only_where_none_is(tmp_path: Path) -> None:
    folder = make_sweep(tmp_path / "s", {"optimizer.lr=0.1": [1.0, 1.1], "optimizer.lr=0.2": [0.1, 0.2]})
    for run in find_runs(folder)[2:]:
        Run(run).update_status(state="pruned")
    assert (compared(folder).best, len(compared(folder).settings[1].figures)) == ([0], 0)
    only_pruned = Comparison([load_run(run) for run in find_runs(folder)[2:]])
    assert len(only_pruned.settings[0].figures) == 2


def test_execution_and_seeds_are_no_differences(tmp_path: Path) -> None:
    ways: list[dict[str, Any]] = [
        {"trainer.devices": 2, "data.num_workers": 3},
        {"trainer.log_every": 1, "checkpoint.every_steps": 7, "logger.csv": None},
    ]
    for seed, settings in enumerate(ways):
        words = [f"{name}={value}" for name, value in settings.items()]
        make_run(tmp_path / f"{seed}", seed, 1.0, [*words, f"outputs=o{seed}"], settings=settings)
    assert compared(tmp_path).differences.names == []
    make_run(tmp_path / "2", 2, 1.0, settings={"sampler.seed": 7})
    assert compared(tmp_path).settings[1].label == "seed=7"
    stopping = {"callback.early_stopping._target_": "runner.callbacks.EarlyStopping"}
    for patience in (1, 5):  # chooses the last step
        settings = {**stopping, "callback.early_stopping.patience": patience}
        make_run(tmp_path / f"{2 + patience}", patience, 1.0, settings=settings)
    apart = [each.runs for each in compared(tmp_path).settings]  # the seed 0 is also that of the data
    assert apart == [[0, 1], [2], [3], [4]], "a seed of its own is a setting"


def test_seeds_of_the_order_are_settings_beside_the_seeds_of_the_run(tmp_path: Path) -> None:
    for seed, order in product((1, 2), (1, 2)):
        make_run(tmp_path / f"{seed}{order}", seed, 1.0, [f"sampler.seed={order}"])
    assert [each.runs for each in compared(tmp_path).settings] == [[0, 2], [1, 3]]


def test_job_without_a_config_joins_the_setting_of_its_overrides(tmp_path: Path) -> None:
    make_sweep(tmp_path, {"optimizer=adamw": [1.0, 1.1], "optimizer=lion": [2.0, 2.1]})
    for name in ("config.yaml", "metrics.csv", "manifest.json"):
        (tmp_path / "3" / name).unlink()
    (tmp_path / "3" / "status.json").write_text('{"state": "waiting"}')
    found = compared(tmp_path)
    assert [each.runs for each in found.settings] == [[0, 1], [2, 3]]
    assert [len(each.figures) for each in found.settings] == [2, 1]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"inputs": {"evaluation": {"held_out": "other"}, "sources": {"train": "other"}}}, "validation data"),
        (
            {"settings": {"objective._target_": "runner.objectives.CausalLanguageModelingCollator"}},
            "objective",
        ),
        ({"inputs": {"tokenizer": "other", "evaluation": {"held_out": "other"}}}, "tokenizer"),
        ({"settings": {"objective.discriminator_weight": 10.0}}, "settings of the validation"),
    ],
)
def test_what_cannot_be_compared_is_not_ranked_together(
    tmp_path: Path, other: dict[str, Any], said: str
) -> None:
    for i, (lr, loss) in enumerate([(0.1, 3.0), (0.2, 2.0)]):
        make_run(tmp_path / f"{i}", 1, loss, [f"optimizer.lr={lr}"])
        make_run(tmp_path / f"{i + 2}", 1, loss - 1.5, [f"optimizer.lr={lr}", "scheduler=linear"], **other)
    found = compared(tmp_path)
    assert found.notes[0] == f"Not all runs can be compared: 2 kinds differ in their {said}."
    assert sorted(run for i in found.best for run in found.settings[i].runs) == [1, 3], (
        "the best of each kind"
    )
    assert [note[:23] for note in found.notes[1:]] == ["Best setting of kind 1:", "Best setting of kind 2:"]
    assert all(" lr=0.2, best" in note for note in found.notes[1:]), "and not what its whole kind has"
    page = read(write_comparison(tmp_path, find_runs(tmp_path)))
    assert page.texts("note")[0] == found.notes[0]


@pytest.mark.parametrize(("share", "kinds"), [("1/2", [0]), ("9/10", [0, 1])])
def test_mixtures_in_other_shares_are_not_ranked_together(
    tmp_path: Path, share: str, kinds: list[int]
) -> None:
    for i, part in enumerate(("1/2", share)):
        inputs = {"evaluation": {"a": "1", "b": "2"}, "order": {"mixture": {"a": part}}}
        run = make_run(tmp_path / f"{i}", i, 3.0 - i, inputs=inputs)
        load_run(run).update_status(monitor="val/mixture/loss")
    assert compared(tmp_path).kinds == kinds


@pytest.mark.parametrize(
    ("word", "kinds"), [("optimizer.lr=1", [0]), ("objective.mlm_probability=1", [0, 1])]
)
def test_training_losses_of_other_targets_are_not_ranked_together(
    tmp_path: Path, word: str, kinds: list[int]
) -> None:
    for i, words in enumerate(([], [word])):
        run = make_run(tmp_path / f"{i}", 1, 3.0 - i, words)
        (run / "metrics.csv").write_text((run / "metrics.csv").read_text().replace(KEY, "train/loss"))
        load_run(run).update_status(results={}, monitor=None)
    assert compared(tmp_path).kinds == kinds


def test_accuracies_of_tokens_are_not_ranked_over_vocabularies(tmp_path: Path) -> None:
    for i, entropy in enumerate((6.9, 9.0)):
        own: Any = {"inputs": {"evaluation": {"a": f"{i}"}}, "results": {"uniform_entropy": entropy}}
        load_run(make_run(tmp_path / f"{i}", 1, 0.4, **own)).update_status(monitor="val/a/accuracy")
    assert compared(tmp_path).kinds == [0, 1]


def test_settings_are_compared_with_the_recipe(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "outputs" / "a", 42, 1.0, ["experiment=classification", "optimizer.weight_decay=0.5"]
    )
    config = "trainer:\n  validate_every: 100\noptimizer:\n  weight_decay: 0.5\n"
    (run / "config.yaml").write_text(config)
    settings = load_run(run).settings
    assert changed_settings(settings, "classification") == [("optimizer.weight_decay", 0.5, 0.01)]
    assert ("trainer.validate_every", 100) in [change[:2] for change in changed_settings(settings) or []]
    assert changed_settings(settings, "no_such_recipe") is None
    assert changed_settings({**settings, "data.own": None}, "classification") == [
        ("optimizer.weight_decay", 0.5, 0.01)
    ], "empty here and not in the recipe"
    assert ("data.own", 1, None) in (changed_settings({**settings, "data.own": 1}, "classification") or [])


def test_reason_of_a_failure_is_below_its_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_sweep(tmp_path / "s", {"optimizer.lr=0.1": [1.0], "optimizer.lr=0.2": [2.0]})
    make_run(tmp_path / "s" / "2", 1, 0.0, ["optimizer.lr=0.3"], state="failed", curve=False)
    status = {"state": "failed", "error": "the loss is not a number\nat step 3"}
    (tmp_path / "s" / "2" / "status.json").write_text(json.dumps(status))
    (tmp_path / "s" / "2" / "train.log").write_text("Traceback\n")
    (tmp_path / "s" / "2" / "report.html").unlink(missing_ok=True)
    path = write_comparison(tmp_path / "s", find_runs(tmp_path / "s"))
    page = read(path)
    assert [row.get("below") for row in page.table("run").part["marks"]] == [
        None,
        None,
        "the loss is not a number",
    ]
    assert {len(row) for row in page.table("run").part["rows"]} == {len(page.table("run").part["heads"])}
    assert page.table("run").links[2] == "2/train.log", "where its traceback is"
    main(["runs", "--outputs", str(tmp_path)])
    rows = capsys.readouterr().out.splitlines()
    assert ["the loss is not a number" in row for row in rows] == [False, False, False, True]


def test_setting_with_a_failed_run_is_not_the_best(tmp_path: Path) -> None:
    make_sweep(tmp_path / "s", {"optimizer.lr=0.1": [1.0], "optimizer.lr=0.2": [2.0, 2.1]})
    assert compared(tmp_path / "s").best == [0]
    make_run(tmp_path / "s" / "3", 2, 0.0, ["optimizer.lr=0.1"], state="failed", curve=False)
    found = compared(tmp_path / "s")
    assert [len(each.runs) for each in found.settings] == [2, 2]
    assert found.order() == [1, 0]


def test_each_data_set_has_one_reference_line(tmp_path: Path) -> None:
    levels = {LEVEL: 2.2, "val/books/unigram_entropy": 2.3}
    make_run(tmp_path / "0", 1, 2.0, ["optimizer.lr=0.1"], results=levels)
    make_run(tmp_path / "1", 2, 2.1, ["optimizer.lr=0.1"], results=levels)
    page = read(write_comparison(tmp_path, find_runs(tmp_path)))
    assert page.charts["Validation loss"]["levels"] == {"unigram entropy, held_out": 2.2}
    other = {"inputs": {"evaluation": {"held_out": "other"}, "sources": {"train": "other"}}}
    make_run(tmp_path / "2", 1, 2.0, ["optimizer.lr=0.2"], results={LEVEL: 2.4}, **other)  # type: ignore[arg-type]
    page = read(write_comparison(tmp_path, find_runs(tmp_path)))
    levels = {"unigram entropy, held_out, kind 1": 2.2, "unigram entropy, kind 2": 2.4}
    assert page.charts["Validation loss"]["levels"] == levels


def test_figure_is_drawn_against_the_one_numeric_setting_that_varies(tmp_path: Path) -> None:
    losses = {"optimizer.lr=0.001": [2.0, 2.2], "optimizer.lr=0.01": [1.0, 1.4], "optimizer.lr=0.1": [3.0]}
    page = read(write_comparison(tmp_path, find_runs(make_sweep(tmp_path, losses))))
    assert "Against optimizer.lr" in page.texts("section")
    (chart,) = [chart for chart in page.charts.values() if chart["across"] == "optimizer.lr"]
    assert chart["ticks"] == {"-3.0": 0.001, "-2.0": 0.01, "-1.0": 0.1}, "a logarithmic axis"
    (curve,) = chart["curves"]
    assert (curve["steps"], curve["values"]) == ([-3, -2, -1], [2.1, 1.2, 3.0])
    low, high = curve["band"]
    assert low == pytest.approx([2.1 - 0.02**0.5, 1.2 - 0.08**0.5, 3.0], abs=1e-4)
    assert high == pytest.approx([2.1 + 0.02**0.5, 1.2 + 0.08**0.5, 3.0], abs=1e-4)
    losses = {"optimizer.lr=0.1 model.hidden_size=64": [1.0], "optimizer.lr=0.2 model.hidden_size=32": [2.0]}
    two = make_sweep(tmp_path / "two", losses)
    assert "Against the settings" not in read(write_comparison(two, find_runs(two))).texts("section")
    several = make_sweep(tmp_path / "three", losses | {"optimizer.lr=0.3 model.hidden_size=16": [3.0]})
    charts = read(write_comparison(several, find_runs(several))).of("charts")[0]["charts"]
    assert [chart["across"] for chart in charts] == ["optimizer.lr", "model.hidden_size"]
    assert [chart["curves"][0]["steps"] for chart in charts] == [[0.1, 0.2, 0.3], [16, 32, 64]]
    assert [chart["curves"][0]["values"] for chart in charts] == [[1, 2, 3], [3, 2, 1]]
    assert all(chart["curves"][0]["loose"] for chart in charts), (
        "points, as a line would say what is between them"
    )


def test_hundred_runs_stay_readable(tmp_path: Path) -> None:
    losses = {f"optimizer.lr={lr / 1000}": [lr / 10, lr / 10 + 1] for lr in range(1, 51)}
    path = write_comparison(tmp_path, find_runs(make_sweep(tmp_path, losses)))
    page = read(path)
    assert [table.part.get("fold") for table in page.tables] == ["All 50 settings", "All 100 runs"]
    assert [len(table.part["first"]) for table in page.tables] == [20, 2]
    assert len(page.charts["Validation loss"]["curves"]) == 12
    assert page.charts["Validation loss"]["curves"][0]["values"][-1] == 0.6, (
        "the mean of both seeds of the best"
    )
    assert "Means over seeds of the best 12 of 50 settings." in page.texts("note")
    assert len(page.charts["Best validation loss"]["curves"][0]["steps"]) == 50
    assert path.stat().st_size < 200_000


def test_branch_and_its_parent_are_both_seen(tmp_path: Path) -> None:
    parent = make_run(tmp_path / "0", 1, 2.0)
    branch = make_run(tmp_path / "1", 1, 2.0)
    rows = (parent / "metrics.csv").read_text().splitlines()
    (branch / "metrics.csv").write_text("\n".join([*rows[:-1], rows[-1].rpartition(",")[0] + ",1.5", ""]))
    Run(branch).update_status(branched_from=str(parent / "checkpoints" / "step-00000040.ckpt"))
    found = compared(tmp_path)
    assert [each.runs for each in found.settings] == [[0], [1]], "it did not begin at step 0"
    page = read(write_comparison(tmp_path, find_runs(tmp_path)))
    whole, own = page.charts["Validation loss"]["curves"]
    assert (whole["steps"], own["steps"], own["values"]) == ([20, 40, 60], [40, 60], [2.2, 1.5])
    assert page.table("run").column("branch of")[1] == "0 step-00000040"
    assert page.table("run").links == ["0", "1", "0"]
