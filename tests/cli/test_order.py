"""`tiryns order`: the samples of a step, the steps of a text, and what two runs share."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from omegaconf import OmegaConf

from tests.conftest import TINY, WORDS, few_of, train_here
from tests.modules.conftest import EVERY, JOINT, NEW, ROWS, TASKS
from tests.modules.conftest import TINY as FINETUNING
from tests.support.composed import composed
from tests.support.in_process import Done, tiryns_here
from tiryns.runner.cli.order.opened import SampleOrder
from tiryns.runner.run.folder import Run

STEPS = 5


def paragraphs(name: str) -> list[str]:
    """Paragraphs of 3 to 80 words that begin with a number of their own; the long ones are several sequences."""
    return [
        " ".join([f"{name}{i}"] + [WORDS[i * j % 12] for j in range(3 + i * 7 % 78)]) + "." for i in range(15)
    ]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    for name in ("a", "b"):
        (folder / f"{name}.txt").write_text("\n\n".join(paragraphs(name)))
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, texts: Path) -> Run:
    """A run of some epochs over two files."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    done: Run = train_here(
        folder, texts / "*.txt", f"trainer.max_steps={STEPS}", "trainer.validate_every=0", *SMALL
    )
    return done


SMALL = ["data.validation_documents=3", "objective=mlm"]


def begun(path: Path, *overrides: str, trained: int = 0) -> Run:
    """The folder of a run that was begun, with what it notes before its first step."""
    Run(path).begin(composed(overrides), list(overrides))
    Run(path).update_status(step=trained)
    return Run(path)


def order(run: Run, *words: str) -> Done:
    return tiryns_here(run.path.parent, "order", str(run.path), *words)


def samples(run: Run, steps: str = f"1:{STEPS}") -> list[dict[str, Any]]:
    done = order(run, "--steps", steps, "--json")
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def found(run: Run, text: str) -> list[dict[str, Any]]:
    done = order(run, "--find", text, "--json")
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout)["texts"][0]["found"])


def test_steps_are_those_that_were_trained_with_their_documents(run: Run, texts: Path) -> None:
    rows = samples(run)
    opened = SampleOrder(run.path)
    assert [row["step"] for row in rows[:: len(rows) // STEPS]] == list(range(1, STEPS + 1))
    assert {row["epoch"] for row in rows} == {0, 1}
    for step in range(1, STEPS + 1):
        trained = opened.data.train_batches(0, 1)[step - 1]["sample_ids"].tolist()
        told = [[row["epoch"], row["index"]] for row in rows if row["step"] == step]
        assert sorted(told) == sorted(trained), "whose hash is checked"
    for row in rows:
        text = (texts / Path(row["file"]).name).read_text().split("\n\n")
        document = text[int(row["row"].removeprefix("document ")) - 1]
        ids = opened.data.tokenizer(document, add_special_tokens=False)["input_ids"]
        own = opened.data.train[row["index"]].tolist()[1:-1]
        start = (row["part"] - 1) and next(i for i in range(len(ids)) if ids[i : i + len(own)] == own)
        assert ids[start : start + len(own)] == own
        assert (row["part"] > 1) == (start > 0)
    assert {Path(row["file"]).name for row in rows} == {"a.txt", "b.txt"}


@pytest.mark.slow
def test_every_hash_is_checked_and_changed_data_named(run: Run, texts: Path, tmp_path: Path) -> None:
    done = order(run, "--steps", f"1:{STEPS}")
    assert done.stderr.strip() == f"{STEPS} steps agree with order.txt"
    copy = Run(shutil.copytree(run.path, tmp_path / "copy"))
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text("\n\n".join(paragraphs(name)[::-1]))
    config = OmegaConf.load(copy.path / "config.yaml")
    config.data.source = str(tmp_path / "*.txt")
    OmegaConf.save(config, copy.path / "config.yaml")
    done = order(copy, "--steps", f"1:{STEPS}")
    assert done.returncode == 4
    assert "the data has changed since" in done.stderr
    assert "the samples of step 1 have another hash than in order.txt" in done.stderr


@pytest.mark.slow
def test_formats_hold_the_same(run: Run, tmp_path: Path) -> None:
    rows = samples(run, "2:3")
    assert [row["step"] for row in rows] == [2] * 12 + [3] * 12
    table = list(csv.DictReader(order(run, "--steps", "2:3", "--format", "csv").stdout.splitlines()))
    assert table == [{name: str(value) for name, value in row.items()} for row in rows]
    out = tmp_path / "order.parquet"
    assert order(run, "--steps", "2:3", "--format", "parquet", "--out", str(out)).returncode == 0
    assert pq.read_table(out).to_pylist() == rows


def test_text_is_found_in_every_step_that_trained_on_it(run: Run, tmp_path: Path) -> None:
    by_document: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for row in samples(run):
        by_document.setdefault((row["file"], row["row"]), []).append((row["step"], row["place"]))
    file, held_out = tmp_path / "all.txt", 0
    file.write_text("\n\n".join([*paragraphs("a"), *paragraphs("b")]))
    for one in json.loads(order(run, "--find", str(file), "--json").stdout)["texts"]:
        (holder,) = one["found"]
        steps = [(o["step"], o["place"]) for o in holder["occurrences"] if o["step"] <= STEPS]
        assert sorted(steps) == by_document.get((holder["file"], holder["row"]), [])
        held_out += holder["set"] == "validation set held_out"
        assert bool(steps) == (holder["set"] == "training")
    assert held_out == 3


def test_text_behind_the_cut_was_not_trained_on(run: Run, texts: Path, tmp_path: Path) -> None:
    long = max(paragraphs("a"), key=len)
    words = [*TINY, f"data.source={texts / '*.txt'}", "data.long_documents=truncate"]
    words.append("data.validation_documents=0")
    cut = begun(tmp_path / "cut", *words)
    (head,) = found(cut, long.split()[0] + " ")
    assert head["set"] == "training"
    (tail,) = [h for h in found(cut, " ".join(long.split()[-20:])) if h["file"] == head["file"]]
    assert (tail["row"], tail["set"], tail["sequences"]) == (head["row"], "cut off: not trained on", [])


def test_file_is_read_as_the_run_reads_its_text(run: Run, tmp_path: Path) -> None:
    first, second = paragraphs("a")[3], paragraphs("b")[4]
    file = tmp_path / "mine.txt"
    file.write_text(f"{first}  \n\n\n{second}\t\n\nnobody wrote this\n")
    lines = order(run, "--find", str(file)).stdout.splitlines()
    heads = [line.rpartition(": ")[2] for line in lines if not line.startswith("  ")]
    assert heads == ["1 document or row holds it"] * 2 + ["0 documents or rows hold it"]


def test_steps_before_a_branch_with_changed_data_are_those_of_its_parent(
    run: Run, texts: Path, tmp_path: Path
) -> None:
    words = [*TINY, *SMALL, f"data.source={texts / 'b.txt'}", f"data.tokenizer={run.path / 'model'}"]
    branch = begun(tmp_path / "branch", *words, "resume_changed_data=true", trained=STEPS)
    branch.update_status(branched_from=str(run.path))
    (branch.path / "manifest.json").write_text('{"sessions": [{"step": 3}]}')
    (branch.path / "order.txt").write_text("".join((run.path / "order.txt").open().readlines()[:3]))
    assert samples(branch, "1:3") == samples(run, "1:3")
    assert {Path(row["file"]).name for row in samples(branch, "4:5")} == {"b.txt"}
    number = next(int(row["row"].split()[1]) for row in samples(run, "1:3") if "a.txt" in row["file"])
    (of_branch,), (of_run,) = (found(one, paragraphs("a")[number - 1]) for one in (branch, run))
    assert of_branch["set"] == "training until step 3"
    assert of_branch["occurrences"] == [use for use in of_run["occurrences"] if use["step"] < 4] != []
    compared = json.loads(order(run, str(branch.path), "--json").stdout)
    assert (compared["different_steps"], compared["same_data"]) == ([[4, STEPS]], False)


def test_two_runs_are_compared_by_their_samples(run: Run, texts: Path, tmp_path: Path) -> None:
    def compared(other: Run) -> Any:
        return json.loads(order(run, str(other.path), "--json").stdout)

    words = [*TINY, *SMALL, f"data.source={texts / '*.txt'}", "seed=42"]
    same = begun(tmp_path / "same", *words, trained=3)
    lines = (run.path / "order.txt").read_text().splitlines()
    (same.path / "order.txt").write_text(f"{lines[0]}\n2 0123456789ab\n{lines[2]}\n")
    found = compared(same)
    assert (found["steps"], found["different_steps"], found["different_masks"]) == (3, [], [[2, 2]])
    assert found["shared_of_a_step"] == 1
    other = compared(begun(tmp_path / "other", *words, "seed=43", trained=STEPS))
    assert other["different_steps"] == [[1, STEPS]]
    assert 0.1 < other["shared_of_a_step"] < 0.9
    assert other["samples"][0] == other["samples"][1] == other["shared_samples"]
    half = [*words[:-2], f"data.source={texts / 'a.txt'}", f"data.tokenizer={run.path / 'model'}"]
    less = compared(begun(tmp_path / "less", *half, trained=STEPS))
    assert not less["same_data"]
    assert 0 < less["shared_samples"] <= less["samples"][1] < less["samples"][0]


@pytest.mark.slow
@pytest.mark.parametrize("task", few_of([*TASKS, *JOINT], ["classification"]))
def test_labelled_samples_are_known_by_their_rows(task: str, tmp_path: Path) -> None:
    rows = ROWS[task](40, 1)
    texts = [text_of(row) for row in rows]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = [*EVERY[task], f"data.train={file}", *FINETUNING, *NEW, "data.validation_documents=4"]
    length = f"data.max_length={16 if 'tag' in task or 'token' in task else 44}"  # some have several samples
    labelled = begun(tmp_path / "run", *words, length, trained=8)
    opened = SampleOrder(labelled.path)
    told, tokenizer = samples(labelled, "1:2"), opened.data.tokenizer
    for sample in told:
        number = int(sample["row"].removeprefix("line ")) - 1
        whole = tokenizer(" ".join([texts[number], *rows[number].get("choices", ())]))["input_ids"]
        tokens = opened.data.train.gather(np.array([sample["index"]]))[0].tolist()[:-1]
        start = max(i for i, token in enumerate(tokens) if token in tokenizer.all_special_ids)
        own = tokens[start + 1 :]
        assert any(whole[i : i + len(own)] == own for i in range(len(whole)))
    assert {sample["file"] for sample in told} == {str(file)}
    wanted = tmp_path / "wanted.jsonl"
    wanted.write_text("".join(json.dumps({opened.data.settings.text_column: text}) + "\n" for text in texts))
    found = json.loads(order(labelled, "--find", str(wanted), "--json").stdout)["texts"]
    holders = {one["row"]: one for each in found for one in each["found"]}
    assert {one["set"] for one in holders.values()} == {"training", "validation set validation"}
    for sample in told:
        assert sample["index"] in holders[sample["row"]]["sequences"]
    assert (max(sample["part"] for sample in told) > 1) == (task not in ("classification", "multiple_choice"))
    for one in holders.values():
        assert bool(one["sequences"]) == (one["set"] == "training")


def text_of(row: dict[str, Any]) -> str:
    """The text of a row of any task."""
    return str(row.get("context") or row.get("text") or " ".join(row.get("words", [])))


def test_streams_are_refused(run: Run, texts: Path, tmp_path: Path) -> None:
    words = [*TINY, f"data.source={texts / '*.txt'}", f"data.tokenizer={run.path / 'model'}"]
    words.append("data.streaming=true")
    done = order(begun(tmp_path / "stream", *words), "--steps", "1")
    assert "reads its data as a stream (StreamedPretrainingData)" in done.stderr
    assert done.stderr.count("\n") == 1
