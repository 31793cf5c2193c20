"""Figures of answers about images, by hand: each case is worked out from the definition in its paper."""

import json
from collections.abc import Iterator
from importlib import reload
from pathlib import Path
from statistics import mean

import pytest

from tests.support.vision import SMALL, compose_vision
from tiryns.conf import registry
from tiryns.runner.cli.commands import main
from tiryns.runner.data.demo.scenes import Scenes
from tiryns.runner.run.folder import Run
from tiryns.runner.train import train
from tiryns_lmms_eval import metrics
from tiryns_lmms_eval.metrics import (
    LetterAccuracy,
    NormalizedLevenshtein,
    RelaxedAccuracy,
    VqaAccuracy,
)


@pytest.mark.parametrize(
    ("text", "accepted", "score"),
    [
        ("95", ["100"], 1.0),  # 5 % below, which is still within
        ("94.9", ["100"], 0.0),
        ("-95", ["-100"], 1.0),
        ("12%", ["0.12"], 1.0),
        ("12", ["12%"], 0.0),  # 12 and 0.12
        ("0", ["0"], 1.0),  # no share of 0: compared as text
        ("0.0", ["0"], 0.0),
        ("Yes", ["yes"], 1.0),
        ("yes.", ["yes"], 0.0),
        ("7", ["seven", "7.2"], 1.0),
    ],
)
def test_relaxed_accuracy(text: str, accepted: list[str], score: float) -> None:
    assert RelaxedAccuracy().score(text, accepted) == score


@pytest.mark.parametrize(
    ("text", "accepted", "score"),
    [
        ("herons", ["herons"], 1.0),
        ("heron", ["herons"], 1 - 1 / 6),  # one letter of six
        ("HERONS", ["herons"], 1.0),
        ("the  river", ["the river"], 1.0),  # white space is one blank
        ("abcd", ["abxy"], 0.5),  # just the threshold
        ("abc", ["axy"], 0.0),  # 1/3
        ("kitten", ["mitten", "sitting"], 1 - 1 / 6),  # the nearest of several
        ("", ["a"], 0.0),
    ],
)
def test_anls(text: str, accepted: list[str], score: float) -> None:
    assert NormalizedLevenshtein().score(text, accepted) == pytest.approx(score)


@pytest.mark.parametrize(
    ("text", "accepted", "score"),
    [
        ("blue", ["blue"] * 10, 1.0),
        ("blue", ["blue"] * 4 + ["red"] * 6, 1.0),
        # of three that agree: 3 times 2/3, 7 times 3/3
        ("blue", ["blue"] * 3 + ["red"] * 7, (3 * 2 / 3 + 7) / 10),
        ("blue", ["blue"] * 2 + ["red"] * 8, (2 * 1 / 3 + 8 * 2 / 3) / 10),
        ("blue", ["blue"] + ["red"] * 9, (9 * 1 / 3) / 10),
        ("green", ["blue"] * 10, 0.0),
        ("The Sea", ["sea"] * 9 + ["a sea"], 1.0),  # articles and case
        ("two", ["2"] * 9 + ["2 "], 1.0),
        ("dont know", ["don't know"] * 9 + ["no"], 1.0),
        ("1,000", ["1000"] * 9 + ["1"], 1.0),
        ("red/blue", ["red blue"] * 9 + ["red"], 1.0),
        ("u.s.", ["us"] * 9 + ["usa"], 1.0),
        ("2.5", ["2.5"] * 9 + ["3"], 1.0),
    ],
)
def test_vqa_accuracy(text: str, accepted: list[str], score: float) -> None:
    assert VqaAccuracy().score(text, accepted) == pytest.approx(score)


def test_vqa_accuracy_is_the_mean_over_those_that_leave_one_person_out() -> None:
    people = ["a cat", "cat", "cats", "cat", "dog", "the dog", "dog", "bird", "cat", "none"]
    plain = ["cat", "cat", "cats", "cat", "dog", "dog", "dog", "bird", "cat", "0"]
    for text in ("cat", "dog", "bird", "zero", "fish"):
        ours = {"zero": "0"}.get(text, text)
        each = [min(1, [*plain[:i], *plain[i + 1 :]].count(ours) / 3) for i in range(10)]
        assert VqaAccuracy().score(text, people) == pytest.approx(mean(each))


@pytest.mark.parametrize(
    ("text", "accepted", "score"),
    [
        ("B", ["B"], 1.0),
        ("(B)", ["B"], 1.0),
        ("B.", ["B"], 1.0),
        ("The answer is (C).", ["C"], 1.0),
        ("(A) is wrong, so it is (D)", ["D"], 1.0),
        ("(A) is wrong, so it is (D)", ["A"], 0.0),
        ("I think C is right", ["C"], 1.0),
        ("herons", ["A"], 0.0),
        ("F", ["F"], 1.0),
        ("F", ["A"], 0.0),
    ],
)
def test_letters(text: str, accepted: list[str], score: float) -> None:
    assert LetterAccuracy().score(text, accepted) == score


def test_bleu_of_equal_texts_is_one_and_of_others_less() -> None:
    text = "seven herons watch the old river"
    same, other = metrics.bleu(1), metrics.bleu(1)
    same.update([text], [[text, "a fox"]])
    other.update([text], [["seven herons watch the new bridge"]])
    # 4 of 6, 3 of 5, 2 of 4 and 1 of 3 runs of words occur; both have six words
    assert float(same.compute()) == pytest.approx(1.0)
    assert float(other.compute()) == pytest.approx((4 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)


NAMES = ("relaxed_overall", "anls", "vqa_accuracy", "mmmu_acc", "bleu")
for name in NAMES:  # which importing has registered, also for tests of other files
    registry.METRICS["vision_language"].pop(name)


@pytest.fixture
def registered() -> Iterator[None]:
    """The module's metrics, for a test alone; those that another module has imported stay."""
    kept = dict(registry.METRICS.get("vision_language", {}))
    reload(metrics)
    yield
    registry.METRICS["vision_language"] = {name: make for name, make in kept.items() if name not in NAMES}


@pytest.mark.usefixtures("registered")
def test_run_on_local_files_is_measured_with_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [json.loads(line) for line in Scenes("train", 24).export(tmp_path).read_text().splitlines()]
    for row in rows:
        if "answer" in row:
            row["answer"] = [{"answer": row["answer"], "answer_id": i} for i in range(10)]  # as in VQA v2
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = Run(tmp_path / "run")
    config = compose_vision(
        "data=image_text", f"data.train={file}", f"data.validation={file}", f"data.images={tmp_path / 'images'}",
        "model=llava_tiny", *SMALL,
    )  # fmt: skip
    run.begin(config, [])
    train(config, run)
    words = ["--answers", "all", "--json", "--import", metrics.__name__, "--out", str(tmp_path / "out")]
    capsys.readouterr()  # what the run has said
    main(["evaluate", str(run.path), str(file), *words])
    (found,) = json.loads(capsys.readouterr().out)["sets"].values()
    lines = [json.loads(line) for line in (tmp_path / "out" / "predictions.jsonl").read_text().splitlines()]
    for name, metric in (("anls", NormalizedLevenshtein()), ("vqa_accuracy", VqaAccuracy())):
        expected = mean(metric.score(line["predicted"], line["gold"]) for line in lines)
        assert found["metrics"][name] == pytest.approx(expected)
        low, high = found["intervals"][name]
        assert low <= found["metrics"][name] <= high
    assert {*NAMES} <= found["metrics"].keys()
    figures = json.loads((run.path / "evaluation.json").read_text())["sets"]["val/validation"]["metrics"]
    assert {*NAMES} <= figures.keys(), "a run that imports the module measures its validation as well"
