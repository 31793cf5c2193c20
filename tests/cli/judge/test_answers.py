"""What `tiryns judge` says of runs that are there: pairs, the sentence, JSON, equal budgets, and refusals."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.cli.judge.folders import KEY, make_run, make_sweep
from tests.report.pages import read
from tests.support.in_process import succeeded, tiryns_here

BASE = [4.0, 4.2, 3.9, 4.1, 4.3, 4.05, 4.15, 3.95]
DROPS = [0.11, 0.09, 0.1, 0.12, 0.08, 0.1, 0.11, 0.09]
BETTER = [base - drop for base, drop in zip(BASE, DROPS, strict=True)]
MUON = ["--change", "optimizer=muon", "--against", "optimizer=adamw"]


def judged(cwd: Path, *words: str, status: int = 0) -> dict[str, Any]:
    done = tiryns_here(cwd, "judge", *words, "--json")
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def one(cwd: Path, *words: str, status: int = 0) -> dict[str, Any]:
    """The only comparison of an answer."""
    (found,) = judged(cwd, *words, status=status)["comparisons"]
    return found


def refused(cwd: Path, *words: str) -> str:
    done = tiryns_here(cwd, "judge", *words)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    return done.stderr


@pytest.fixture
def swept(tmp_path: Path) -> Path:
    """A sweep of 8 seeds in which muon is a tenth better."""
    make_sweep(tmp_path / "sweep", {"optimizer=adamw": BASE, "optimizer=muon": BETTER})
    return tmp_path


def test_clear_difference_is_a_sentence_a_page_and_status_0(swept: Path) -> None:
    done = succeeded(swept, "judge", "sweep", *MUON)
    sentence, place = done.stdout.splitlines()
    assert sentence == (
        "optimizer=muon is better than optimizer=adamw: val/held_out/loss changes by -0.1 "
        "(95 % interval -0.115 to -0.085) over 8 pairs of equal seeds, clear after 6 of them, sign-flip p 0.00781. "
        "It holds at equal tokens (-0.1), equal FLOPs (-0.1), equal seconds (-0.1)."
    )
    assert place == "the page: sweep/judge.html"
    page = read(swept / "sweep" / "judge.html")
    assert sentence in page.text
    drawn = page.charts["Difference"]
    assert drawn["across"] == "pair"
    assert drawn["curves"][0]["values"] == pytest.approx([-drop for drop in DROPS], abs=1e-4)
    labels = [curve["label"] for curve in drawn["curves"]]
    assert labels == ["difference of the pair", "mean so far", "interval", "interval"]
    assert drawn["curves"][2]["values"][:5] == [None] * 5


def test_json_has_the_documented_names(swept: Path) -> None:
    found = judged(swept, "sweep", *MUON)
    page = (Path(__file__).parents[3] / "docs" / "judging.md").read_text()
    keys = {*found, *found["comparisons"][0], *found["comparisons"][0]["pairs"][0]}
    assert not {key for key in keys if f"`{key}`" not in page}
    assert found["comparisons"][0]["pairs"][0] == {
        "seed": 1, "against": 4.0, "change": 3.89, "difference": pytest.approx(-0.11),
        "runs": ["sweep/0", "sweep/8"],
    }  # fmt: skip
    assert found["comparisons"][0]["shared"] == {"initial_weights": True, "order_and_masks": True}
    assert found["comparisons"][0]["variance_ratio"] > 100


def test_worse_is_told_by_the_direction_of_the_figure(swept: Path) -> None:
    back = ["--change", "optimizer=adamw", "--against", "optimizer=muon"]
    assert one(swept, "sweep", *back)["answer"] == "worse"
    for number, accuracy in enumerate([*DROPS, *BASE]):
        file = swept / "sweep" / str(number) / "status.json"
        status = json.loads(file.read_text())
        status["results"]["val/held_out/accuracy"] = accuracy
        file.write_text(json.dumps(status))
    assert one(swept, "sweep", *MUON, "--metric", "val/held_out/accuracy")["answer"] == "better"
    near = "did you mean 'val/held_out/accuracy'"
    assert near in refused(swept, "sweep", *MUON, "--metric", "accuracy").lower()
    for key in ("perf/tokens_per_second", "optim/grad_norm"):
        assert f"--metric {key}: it tells how" in refused(swept, "sweep", *MUON, "--metric", key)


def test_what_is_not_clear_has_status_3_and_says_how_many_more_seeds(tmp_path: Path) -> None:
    small = [base + sign * 0.01 for base, sign in zip(BASE, [1, -1, 1, -1, 1, 1, -1, 1], strict=True)]
    make_sweep(tmp_path / "sweep", {"optimizer=adamw": BASE, "optimizer=muon": small})
    found = judged(tmp_path, "sweep", *MUON, status=3)
    assert found["clear"] is False
    (numbers,) = found["comparisons"]
    assert numbers["answer"] == "not clear"
    low, high = numbers["interval"]
    assert low < 0 < high
    assert numbers["more_pairs"] > 50
    assert f"about {numbers['more_pairs']} more seeds would show it" in numbers["sentence"]


def test_few_pairs_are_never_clear_however_large_the_difference(tmp_path: Path) -> None:
    make_sweep(tmp_path / "sweep", {"optimizer=adamw": BASE[:5], "optimizer=muon": BETTER[:5]})
    numbers = one(tmp_path, "sweep", *MUON, status=3)
    assert numbers["interval"] is None
    assert numbers["more_pairs"] == 1
    assert "no difference is clear with fewer than 6 pairs, so at least 1 more" in numbers["sentence"]
    looser = one(tmp_path, "sweep", *MUON, "--error", "0.1")
    assert looser["answer"] == "better"


def test_setting_without_effect_is_the_same_and_equal_figures_of_other_runs_are_not(tmp_path: Path) -> None:
    runs = make_sweep(tmp_path / "sweep", {"optimizer=adamw": BASE, "optimizer=muon": BASE})
    numbers = one(tmp_path, "sweep", *MUON)
    assert numbers["answer"] == "same"
    assert "the same to the last digit in 8 pairs" in numbers["sentence"]
    for number, file in enumerate(runs.glob("*/status.json")):
        status = json.loads(file.read_text())
        status["results"]["train/loss"] = number
        file.write_text(json.dumps(status))
    assert one(tmp_path, "sweep", *MUON, status=3)["answer"] == "not clear"


def test_two_runs_or_folders_are_paired_by_seed_alone(swept: Path) -> None:
    pair = one(swept, "sweep/0", "sweep/8", status=3)
    assert [each["seed"] for each in pair["pairs"]] == [1]
    for seed in (8, 3, 5, 2, 9):
        make_run(swept / "a" / f"run-{seed}", seed, 4.0 + seed)
        make_run(swept / "b" / f"other-{-seed}", seed + 1, 4.0 + seed, ["optimizer.lr=0.1"])
    found = judged(swept, "a", "b", status=3)
    assert [each["seed"] for each in found["comparisons"][0]["pairs"]] == [3, 9]
    assert Path(found["page"]).match("outputs/*/*-judge/judge.html")
    assert (swept / found["page"]).parent == swept / found["folder"]
    assert judged(swept, "a", "b", "--out", "own.html", status=3)["page"] == "own.html"
    make_run(swept / "a" / "run-7", 7, 4.0, ["optimizer.lr=0.2"])
    assert "a: its runs differ in optimizer.lr" in refused(swept, "a", "b")
    assert "no seed is in both" in refused(swept, "a/run-8", "b/other--3")


def test_several_changes_are_corrected_for_their_number(swept: Path) -> None:
    settings = {"optimizer=adamw": BASE, "optimizer=muon": BETTER, "optimizer=lion": BETTER[:6]}
    make_sweep(swept / "all", settings)
    found = judged(swept, "all", *MUON, "--change", "optimizer=lion")
    muon, lion = found["comparisons"]
    assert (muon["p"], lion["p"]) == (1 / 128, 1 / 32)
    assert (muon["p_corrected"], lion["p_corrected"]) == (1 / 64, 1 / 32)
    assert (muon["interval_error"], lion["interval_error"]) == (0.025, 0.05)
    assert muon["clear_after"] == 7
    assert "corrected for 2 settings" in muon["sentence"]


def test_sweep_over_more_than_the_settings_asks_for_the_rest(tmp_path: Path) -> None:
    pairs = product(("adamw", "muon"), ("0.001", "0.01"))
    make_sweep(tmp_path / "sweep", {f"optimizer={name} optimizer.lr={lr}": BASE for name, lr in pairs})
    assert "have one seed, 1; they differ in optimizer.lr: say which" in refused(tmp_path, "sweep", *MUON)
    assert one(tmp_path, "sweep", *MUON, "optimizer.lr=1e-3")["answer"] == "same"
    words = ["--change", "optimizer=muon optimizer.lr=1e-2"]
    words += ["--against", "optimizer=adamw optimizer.lr=0.001"]
    assert one(tmp_path, "sweep", *words)["answer"] == "same"


def test_more_of_a_budget_is_told_from_better_with_the_same(tmp_path: Path) -> None:
    """The second setting is better only because it has used twice the tokens and time."""
    for seed, loss in enumerate(BASE, 1):
        make_run(tmp_path / "a" / str(seed), seed, loss, tokens=6000, speed=2)
        longer: dict[str, Any] = {"tokens": 12000, "flops": 6.01e9, "speed": 1}
        make_run(tmp_path / "b" / str(seed), seed, loss - 0.1 - seed / 1000, ["optimizer.lr=0.1"], **longer)
    found = one(tmp_path, "a", "b")
    assert found["answer"] == "better"
    tokens, flops, seconds = found["at_equal"].values()
    # half of its tokens are used at step 30, between 20 and 40, where its loss is 0.3 higher than at the end
    assert tokens["difference"] == pytest.approx(0.3 + found["difference"])
    assert seconds["difference"] == pytest.approx(tokens["difference"])
    assert tokens["holds"] is seconds["holds"] is False
    assert flops["holds"] is flops["same_budget"] is True
    told = "It does not hold at equal tokens (+0.196), equal seconds (+0.196); it holds at equal FLOPs"
    assert told in found["sentence"]


@pytest.mark.slow
def test_budgets_that_were_not_noted_cannot_be_told(tmp_path: Path) -> None:
    for seed, loss in enumerate(BASE, 1):
        make_run(tmp_path / "a" / str(seed), seed, loss, curve=False)
        make_run(tmp_path / "b" / str(seed), seed, loss - 0.1, ["optimizer.lr=1"], curve=False, speed=1)
        (tmp_path / "a" / str(seed) / "order.txt").unlink()
    found = one(tmp_path, "a", "b")
    assert found["at_equal"]["seconds"]["holds"] is None
    assert "a smaller trainer.validate_every" in found["sentence"]
    assert found["shared"]["order_and_masks"] is None
    manifest = json.loads((tmp_path / "a" / "1" / "manifest.json").read_text())
    manifest["sessions"] *= 2
    manifest["totals"]["counted_from_step"] = 10
    (tmp_path / "a" / "1" / "manifest.json").write_text(json.dumps(manifest))
    reasons = [each["why"] for each in one(tmp_path, "a", "b")["at_equal"].values()]
    assert reasons == [*["a run has not counted them from its beginning"] * 2, "a run was interrupted"]
    (tmp_path / "a" / "1" / "manifest.json").unlink()
    found = judged(tmp_path, "a", "b", "--metric", "objective", "--error", "0.1")["comparisons"][0]
    assert {each["why"] for each in found["at_equal"].values()} == {"a run has no manifest.json"}


OTHER = {"evaluation": {"held_out": "other"}}
OBJECTIVE = {"objective._target_": "runner.objectives.MaskedDiffusionCollator"}


@pytest.mark.parametrize(
    ("difference", "message"),
    [
        ({"inputs": OTHER | {"sources": {"train": "o"}}}, "differ in their data of val/held_out"),
        ({"inputs": OTHER}, "choose --metric val/held_out/bits_per_byte"),
        ({"settings": OBJECTIVE}, "objective (MaskedLanguageModelingCollator and MaskedDiffusion"),
        ({"settings": {"trainer.validation_batches": 4}}, "validation_batches: None and 4"),
        ({"settings": {"objective.causal_share": 0.5}}, "causal_share: None and 0.5"),
        ({"loss": float("nan")}, "b': its val/held_out/loss is not finite"),
    ],
)
def test_comparisons_without_sense_are_refused(
    tmp_path: Path, difference: dict[str, Any], message: str
) -> None:
    make_run(tmp_path / "a", 1, 4.0)
    make_run(tmp_path / "b", 1, **{"loss": 3.9, **difference})
    assert message in refused(tmp_path, "a", "b")
    assert refused(tmp_path, "a", "b", "--metric", "objective")


def test_other_vocabularies_are_compared_by_bits_per_byte(tmp_path: Path) -> None:
    for seed, loss in enumerate(BASE, 1):
        bits = {"val/held_out/bits_per_byte": loss / 2}
        make_run(tmp_path / "a" / str(seed), seed, loss, results=bits)
        less: dict[str, Any] = {"results": {"val/held_out/bits_per_byte": loss / 2 - 0.1}, "inputs": OTHER}
        make_run(tmp_path / "b" / str(seed), seed, loss + 1, ["data.vocab_size=9"], **less)
    found = judged(tmp_path, "a", "b")
    assert found["metric"] == "val/held_out/bits_per_byte"
    assert "vocabularies differ" in found["note"]
    assert found["comparisons"][0]["answer"] == "better"
    assert "counts tokens" in refused(tmp_path, "a", "b", "--metric", KEY)


def test_other_figures_that_are_monitored_ask_for_one(tmp_path: Path) -> None:
    make_run(tmp_path / "a", 1, 4.0)
    other = make_run(tmp_path / "b", 1, 3.9) / "status.json"
    other.write_text(other.read_text().replace(f'"monitor": "{KEY}"', '"monitor": "val/held_out/accuracy"'))
    assert "choose one with --metric" in refused(tmp_path, "a", "b")
    assert one(tmp_path, "a", "b", "--metric", KEY, status=3)["difference"] == pytest.approx(-0.1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give two folders of runs, or --change"),
        (["sweep/0", "sweep/8", "--seeds", "3"], "compared as they are"),
        (["sweep/0", *MUON], "there are no runs in 'sweep/0'"),
        (["sweep", "--change", "optimizer=muon", "--against", "optimizer=muon"], "name one setting twice"),
        (["sweep", "--change", "optimizer=muon,lion"], "has several values"),
        (["sweep", "--change", "seed=3"], "gives seed itself"),
        (
            ["--change", "optimizer=lion", "folds=3"],
            "folds=3: train a sweep with it, then give the folder of that sweep",
        ),
        (["sweep", "--change", "optimizer=muonn", "--against", "optimizer=adamw"], "no finished run of it"),
        (["sweep", *MUON, "--error", "5"], "expected a share between 0 and 0.5"),
        (["nowhere", "sweep"], "there is no run folder 'nowhere'"),
    ],
)
def test_mistakes_are_named_in_a_line(swept: Path, words: list[str], message: str) -> None:
    assert message in refused(swept, *words)


def test_runs_that_are_not_done_are_in_no_pair(swept: Path) -> None:
    status = swept / "sweep" / "9" / "status.json"
    status.write_text(status.read_text().replace('"done"', '"failed"'))
    assert [pair["seed"] for pair in one(swept, "sweep", *MUON)["pairs"]] == [1, 3, 4, 5, 6, 7, 8]
