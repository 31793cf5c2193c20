"""`tiryns evaluate` and `mode=evaluate` as they are typed: refusals in one line, and the sets of a config."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.data.pairs.rows import write
from tests.inference.conftest import Runs, entry
from tests.inference.test_evaluate import FEW, of_the_test
from tests.report.pages import read
from tests.support.in_process import succeeded, tiryns_here
from tiryns.runner.cli.commands import main
from tiryns.runner.run.folder import Run

BAD: dict[str, tuple[list[dict[str, Any]], str]] = {
    "no labels": ([{"text": "herons"}], "has no labels: the column 'label' is not among its columns: text"),
    "empty labels": ([{"text": "herons", "label": ""}], "the column 'label' is empty; name the right one"),
    "other labels": (
        [{"text": "herons", "label": "fish"}],
        "line 1: the label 'fish' does not occur in the training data, which has birds, none, stones",
    ),
    "unknown column": (
        [{"sentence": "herons", "label": "birds"}],
        "line 1 has no column 'text'; it has: sentence, label. Set data.text_column",
    ),
    "no rows": ([], "holds no examples"),
}


@pytest.mark.rows(2)
@pytest.mark.parametrize("kind", BAD)
def test_file_that_cannot_be_measured_is_one_line_and_nothing_is_written(
    runs: Runs, tmp_path: Path, kind: str
) -> None:
    run, good = runs["classification"]
    rows, message = BAD[kind]
    file = write(tmp_path / "bad.jsonl", rows)
    done = tiryns_here(tmp_path, "evaluate", str(run), str(good), str(file), "--out", "out")
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gone.csv"], "gone.csv"),
        (["data.text_column=text"], "name a file to measure the model on"),
        (["FILE", "trainer.precision=32-true"], "trainer.precision=32-true is not read here: expected files"),
        (["FILE", "FILE"], "is named twice"),
        (["FILE", "data.textcolumn=a"], "data.textcolumn cannot be set here; there are: "),
        (["FILE", "--resamples", "-1"], "the number of resamples is -1"),
        (["FILE", "--objective", "mlm"], "is for classification, not a language model"),
        (["FILE", "--pseudo-perplexity", "some"], "--pseudo-perplexity some: expected a number, or all"),
        (["FILE", "--batch-size", "0"], "micro_batch_size is 0"),
        (["FILE", "--precision", "fp8"], "--precision='fp8'; there are: 32-true, bf16-mixed"),
    ],
)
def test_wrong_words_are_one_line(runs: Runs, tmp_path: Path, words: list[str], message: str) -> None:
    run, file = runs["classification"]
    given = [str(file) if word == "FILE" else word for word in words]
    done = tiryns_here(tmp_path, "evaluate", str(run), *given)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert message in done.stderr


@pytest.mark.slow
def test_mode_evaluate_measures_the_run_that_resume_names(runs: Runs, tmp_path: Path) -> None:
    run, file = runs["classification"]
    rows = map(json.loads, file.read_text().splitlines())
    renamed = [{"sentence": row["text"], "label": row["label"]} for row in rows]
    words = [f"data.test={write(tmp_path / 'renamed.jsonl', renamed)}", "data.text_column=sentence"]
    done = succeeded(tmp_path, "mode=evaluate", f"resume={run}", *words)
    (folder,) = tmp_path.glob("outputs/*/*-evaluation")
    content = json.loads((folder / "evaluation.json").read_text())
    assert content["sets"]["test"]["metrics"] == of_the_test(run)["metrics"]
    assert {"evaluation.json", "predictions.jsonl", "report.html"} <= {file.name for file in folder.iterdir()}
    assert Run(run).state == "done"
    shutil.rmtree(tmp_path / "outputs")
    for wrong, message in (
        ([f"resume={run}", "data.test=null"], "data.test names no data to measure the run on"),
        ([], "name its folder by resume=RUN"),
    ):
        done = tiryns_here(tmp_path, "mode=evaluate", *wrong)
        assert done.returncode == 1
        assert message in done.stderr
        assert not list(tmp_path.glob("outputs/*/*"))


def test_file_in_the_place_of_the_folder_is_named_before_anything_is_measured(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("mine")
    with pytest.raises(SystemExit, match=rf"--out {taken} is a file: expected the name of a folder"):
        main(["evaluate", str(tmp_path / "no run"), "later.csv", "--out", str(taken)])
    assert taken.read_text() == "mine"


@pytest.mark.slow
def test_bad_rows_are_left_out_and_counted_or_an_error(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, file = runs["classification"]
    good = file.read_text().splitlines(keepends=True)
    bad = [json.dumps(row) + "\n" for row in ({"text": "herons", "label": "?"}, {"text": " "})]
    messy, out = tmp_path / "messy.jsonl", tmp_path / "out"
    for one, reason in zip(
        bad, ["the label '\\?' does not occur", "the text in column 'text' is empty"], strict=True
    ):
        messy.write_text("".join([*good[:4], one, *good[4:]]))
        message = rf"messy\.jsonl, line 5: {reason}.*--on-bad-row skip leaves such"
        with pytest.raises(SystemExit, match=message):
            main(["evaluate", str(run), str(messy), "--out", str(out)])
    messy.write_text("".join([*good[:4], *bad, *good[4:]]))
    found, clean = entry(capsys, run, messy, "--on-bad-row", "skip", *FEW), entry(capsys, run, file, *FEW)
    left_out = found.pop("left_out")
    assert {why: noted["rows"] for why, noted in left_out.items()} == {"empty text": 1, "unknown label": 1}
    assert found == clean == entry(capsys, run, file, "--on-bad-row", "skip", *FEW)
    main(["evaluate", str(run), str(messy), "--on-bad-row", "skip", "--out", str(out), *FEW])
    told = capsys.readouterr()
    assert told.out.splitlines()[0].split()[:4] == ["file", "examples", "left", "out"]
    assert told.out.splitlines()[1].split()[1:3] == ["17", "2"]
    assert (
        f"{messy}: 2 rows left out: 1 empty text ({messy}, line 6), 1 unknown label ({messy}, line 5)"
        in told.err
    )
    assert "left out" in read(out / "report.html").heads
    messy.write_text("".join(bad[:1]))
    with pytest.raises(SystemExit, match=r"holds no row that can be used: .*line 1: the label '\?'"):
        main(["evaluate", str(run), str(messy), "--on-bad-row", "skip"])
