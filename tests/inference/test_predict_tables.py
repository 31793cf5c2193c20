"""`tiryns predict` for files as people have them: read and written in any format, in batches, by one `Predictor`."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

import tiryns
from tests.inference.conftest import finetuned
from tests.modules.conftest import TASKS
from tiryns.runner.cli.commands import main
from tiryns.runner.inference.labelled import Labels

TEXTS = [f"seven herons, watch {i}" for i in range(11)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run trained on a table with other names for its columns, a gap, and Western bytes."""
    folder = tmp_path_factory.mktemp("tables")
    rows = "".join(f"\xab{text}\xbb;{'birds' if i % 2 else 'stones'}\n" for i, text in enumerate(TEXTS))
    (folder / "train.csv").write_bytes(f"Question;Kind\n{rows};birds\nno label;\n".encode("cp1252"))
    words = [
        "data.text_column=Question", "data.label_column=Kind", "data.encoding=cp1252", "data.on_bad_row=skip",
        "trainer.max_steps=1",
    ]  # fmt: skip
    words += [f"data.train={folder / 'train.csv'}", "trainer.validate_every=0", "sampler.global_batch_size=6"]
    return finetuned(folder / "run", *TASKS["classification"], *words)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Labels, "at_once", 4)


def printed(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[list[str], str]:
    capsys.readouterr()
    main(["predict", *map(str, words)])
    told = capsys.readouterr()
    return told.out.splitlines(), told.err


def table_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_a_run_tells_how_its_table_was_read_and_what_was_left_out(run: Path) -> None:
    resolved = json.loads((run / "status.json").read_text())["resolved"]
    (table,) = resolved["tables"].values()
    assert table == {"delimiter": ";", "encoding": "cp1252", "quoting": True, "names": None}
    assert {why: one["rows"] for why, one in resolved["left_out"]["train"].items()} == {
        "empty text": 1,
        "no label": 1,
    }
    assert json.loads((run / "manifest.json").read_text())["resolved"]["left_out"] == resolved["left_out"]
    page = (run / "report.html").read_text()
    assert "semicolon, cp1252, header" in page
    assert "train: 2 rows left out: 1 empty text" in page


def test_csv_in_and_csv_out_keep_order_and_columns(
    run: Path, tmp_path: Path, small_batches: None, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"nr": str(i), "Question": text, "note": 'a "b", c'} for i, text in enumerate(TEXTS)]
    with (tmp_path / "in.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)
    printed(capsys, run, tmp_path / "in.csv", "--out", tmp_path / "out.csv")
    found = table_of(tmp_path / "out.csv")
    assert list(found[0]) == ["nr", "Question", "note", "predicted", "probability"]
    assert [{name: row[name] for name in rows[0]} for row in found] == rows
    lines, _ = printed(capsys, run, tmp_path / "in.csv")
    assert [json.loads(line)["predicted"] for line in lines] == [row["predicted"] for row in found]
    assert [json.loads(line)["note"] for line in lines] == [row["note"] for row in rows]
    assert list(json.loads(lines[0])) == ["nr", "Question", "note", "id", "text", "predicted", "probability"]
    shown, _ = printed(capsys, run, tmp_path / "in.csv", "--format", "tsv")
    assert shown[0].split("\t") == list(found[0])
    printed(capsys, run, tmp_path / "out.csv", "--out", tmp_path / "out.parquet")  # with columns to replace
    table = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert [{**row, "probability": str(row["probability"])} for row in table] == found


def test_txt_and_standard_input_are_texts_by_line(
    run: Path, tmp_path: Path, small_batches: None, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / "a.txt").write_text("\n".join(TEXTS) + "\n")
    lines, told = printed(capsys, run, tmp_path / "a.txt")
    assert not told
    gaps = [*TEXTS[:1], " ", *TEXTS[1:], ""]
    (tmp_path / "gaps.txt").write_text("\n".join(gaps) + "\n")
    assert printed(capsys, run, tmp_path / "gaps.txt")[0] == lines
    for words in ((), ("--on-bad-row", "skip"), ("--json",)):
        told = printed(capsys, run, tmp_path / "gaps.txt", *words)[1]
        assert "2 rows left out: 2 empty line" in told
        assert "line 2; " in told
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(gaps) + "\n"))
    assert "2 rows left out: 2 empty line (line 2; line 13)" in printed(capsys, run, "-")[1]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(TEXTS)))
    assert [json.loads(line)["predicted"] for line in printed(capsys, run, "-")[0]] == [
        json.loads(line)["predicted"] for line in lines
    ]
    assert [json.loads(line)["text"] for line in lines] == TEXTS
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    with pytest.raises(SystemExit, match="error: standard input holds no examples"):
        main(["predict", str(run), "-"])
    content = b"Question\n" + b"".join(f'"{text}"\n'.encode() for text in TEXTS)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert len(printed(capsys, run, "-", "--input-format", "csv")[0]) == len(TEXTS)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Question,b\nonly\n")))
    with pytest.raises(SystemExit, match=r"^error: stdin\.csv, line 2: 1 fields .*--on-bad-row skip leaves"):
        main(["predict", str(run), "-", "--input-format", "csv"])


@pytest.mark.slow
def test_flags_take_the_place_of_settings(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.csv"
    file.write_text("body text|class\n" + "".join(f"{text}|birds\n" for text in TEXTS))
    with pytest.raises(SystemExit, match=r"set data\.text_column='body text' data\.label_column=class$"):
        main(["predict", str(run), str(file)])
    words = ("--text-column", "body text", "--label-column", "class")
    shown, told = printed(capsys, run, file, *words, "--out", tmp_path / "out.csv")
    assert "accuracy" in told
    assert shown == [f"predictions for {len(TEXTS)} rows: {tmp_path / 'out.csv'}"]
    assert (tmp_path / "out.figures.json").is_file()
    bare = tmp_path / "bare.csv"
    bare.write_bytes("".join(f"{text}:caf\xe9\n" for text in TEXTS).encode("latin-1"))
    given = ("--header", "Question,place", "--delimiter", ":", "--encoding", "latin-1")
    lines, _ = printed(capsys, run, bare, *given)
    assert {json.loads(line)["place"] for line in lines} == {"caf\xe9"}
    assert len(lines) == len(TEXTS)


def test_a_file_without_names_is_told_the_setting_that_reads_it(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bare.csv"
    file.write_text("".join(f'"{text}",{"birds" if i % 2 else "stones"}\n' for i, text in enumerate(TEXTS)))
    with pytest.raises(
        SystemExit, match=r"line 1 should name .* such as data\.header=\[Question,column_2\]$"
    ):
        main(["predict", str(run), str(file)])
    plain, _ = printed(capsys, run, file, "--header", "Question,column_2")
    assert len(plain) == len(TEXTS)
    assert printed(capsys, run, file, "--header", "[Question, column_2]")[0] == plain


def test_a_missing_text_column_is_the_headers_and_no_label_is_guessed(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "u.csv"
    file.write_text("body,extra\n" + "".join(f"herons and gulls {i},{i % 2}\n" for i in range(8)))
    with pytest.raises(SystemExit) as stopped:
        main(["predict", str(run), str(file)])
    told = str(stopped.value.code)
    assert f"the header of {file} has no column 'Question'; it has: body, extra" in told
    assert told.endswith("By what they hold, set data.text_column=body")


def test_bad_rows_are_left_out_and_counted(
    run: Path, tmp_path: Path, small_batches: None, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [*TEXTS[:3], *[" "] * 4, *TEXTS[3:]]
    (tmp_path / "a.csv").write_text(
        "Question,nr\n" + "".join(f'"{text}",{i}\n' for i, text in enumerate(rows))
    )
    with pytest.raises(SystemExit, match=r"a\.csv, line 5: the text in column 'Question' is empty"):
        main(["predict", str(run), str(tmp_path / "a.csv"), "--out", str(tmp_path / "out.csv")])
    assert not (tmp_path / "out.csv").exists()
    _, told = printed(capsys, run, tmp_path / "a.csv", "--on-bad-row", "skip", "--out", tmp_path / "out.csv")
    assert "4 rows left out: 4 empty text" in told
    assert [int(row["nr"]) for row in table_of(tmp_path / "out.csv")] == [0, 1, 2, *range(7, 15)]


@pytest.mark.rows(1)
@pytest.mark.parametrize("label", ["", ",Kind"])
def test_no_row_that_can_be_used_is_an_error_and_writes_nothing(
    run: Path, tmp_path: Path, small_batches: None, label: str
) -> None:
    file, out = tmp_path / "a.csv", tmp_path / "out.csv"
    words = ("predict", str(run), str(file), "--on-bad-row", "skip", "--out", str(out))
    value = label and ",birds"
    file.write_text(f"body,nr{label}\n" + "".join(f'"{text}",1{value}\n' for text in TEXTS))
    columns = f"body, nr{label.replace(',', ', ')}"
    with pytest.raises(
        SystemExit, match=rf"no examples that can be used: .*'Question'; it has: {columns}\. Set data\.text_c"
    ):
        main(list(words))
    file.write_text(f"Question,nr{label}\n" + f'" ",1{value}\n' * 9)
    with pytest.raises(SystemExit, match=r"no examples that can be used: .*line 2: the text .* is empty"):
        main(list(words))
    assert not out.exists()


def test_rows_are_read_as_they_are_needed(run: Path, small_batches: None) -> None:
    read: list[int] = []

    def texts() -> Iterator[str]:
        for i, text in enumerate(TEXTS):
            read.append(i)
            yield text

    predictor = tiryns.Predictor(run)
    found = predictor.stream(texts())
    first = next(found)
    assert len(read) == 4
    assert [first, *found] == predictor.predict(TEXTS)
    assert len({one["text"] for one in predictor.predict(TEXTS)}) == len(TEXTS)
    assert predictor.task == "classification"
    with pytest.raises(
        ValueError, match=r"data\.text_colum cannot be set here; .* Did you mean 'text_column'"
    ):
        tiryns.Predictor(run, {"text_colum": "body"})
    other = tiryns.Predictor(run, {"text_column": "body"})
    assert other.predict([{"body": text} for text in TEXTS]) == predictor.predict(TEXTS)


@pytest.mark.slow
def test_entities_come_back_by_their_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"text": f"Ada, in Rome {i}", "entities": [[0, 3, "PER"], [8, 12, "LOC"]]} for i in range(24)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = [*TASKS["token_classification"], f"data.train={tmp_path / 'train.jsonl'}", "trainer.max_steps=30"]
    run = finetuned(tmp_path / "run", *words, "trainer.validate_every=0")
    lines, told = printed(capsys, run, tmp_path / "train.jsonl")
    for line, row in zip(lines, rows, strict=True):
        found = json.loads(line)
        assert found["text"] == row["text"]
        assert found["entities"] == row["entities"]  # the column is kept
        for one in found["predicted_entities"]:
            assert row["text"][one["start"] : one["end"]] == one["text"]
        spans = [[one["start"], one["end"], one["label"]] for one in found["predicted_entities"]]
        assert spans == row["entities"]
    assert "entity_f1 1" in told
    (one,) = tiryns.open_run(run).predict("Ada, in Rome 3")
    assert [entity["text"] for entity in one["predicted_entities"]] == ["Ada", "Rome"]


def test_a_bar_is_drawn_in_a_terminal_alone(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("\n".join(TEXTS))
    words = (run, tmp_path / "a.txt", "--out", tmp_path / "out.jsonl")
    assert printed(capsys, *words)[1] == ""
    drawn: list[Any] = []
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("rich.progress.Progress.advance", lambda self, task, rows: drawn.append(rows))
    printed(capsys, *words)
    assert drawn == [11]
