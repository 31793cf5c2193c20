"""Files that `tiryns predict` and `tiryns evaluate` read later: their encodings, their columns, and where they lie."""

import io
import json
from pathlib import Path

import pytest

from tests.inference.conftest import finetuned
from tests.modules.conftest import TASKS
from tests.support.composed import composed
from tiryns.runner.cli.commands import main
from tiryns.runner.cli.models.evaluate import evaluate_sets
from tiryns.runner.run.folder import Run

GREETING = "Viele Gr\xfc\xdfe, caf\xe9 \u20ac5"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose training data was read in an encoding that a setting names."""
    folder = tmp_path_factory.mktemp("files")
    rows = "".join(f"\xab{i}\xbb herons,{'birds' if i % 2 else 'stones'}\n" for i in range(11))
    (folder / "train.csv").write_bytes(f"text,label\n{rows}".encode("cp1252"))
    words = [f"data.train={folder / 'train.csv'}", "data.encoding=cp1252", "trainer.validate_every=0"]
    words += ["trainer.max_steps=1", "sampler.global_batch_size=6"]
    return finetuned(folder / "run", *TASKS["classification"], *words)


def texts(capsys: pytest.CaptureFixture[str], *words: object) -> list[str]:
    capsys.readouterr()
    main(["predict", *map(str, words)])
    return [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()]


@pytest.mark.rows(1)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252"])
def test_a_later_file_is_utf8_or_else_in_the_encoding_of_the_run(
    run: Path, tmp_path: Path, encoding: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    contents = {
        "a.csv": f"text,label\n{GREETING.replace(',', ';')},birds\n",
        "a.jsonl": json.dumps({"text": GREETING}, ensure_ascii=False) + "\n",
        "a.txt": GREETING + "\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content.encode(encoding))
        assert texts(capsys, run, tmp_path / name) == [GREETING.replace(",", ";" if "csv" in name else ",")]
    stream = io.BytesIO((tmp_path / "a.csv").read_bytes())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(stream))
    assert texts(capsys, run, "-", "--input-format", "csv") == [GREETING.replace(",", ";")]
    main(["evaluate", str(run), str(tmp_path / "a.csv"), "--resamples", "0", "--out", str(tmp_path / "out")])
    words = [*Run(run).overrides(), "mode=evaluate", f"resume={run}", f"data.test={tmp_path / 'a.csv'}"]
    evaluate_sets(composed(words), tmp_path / "as a mode")
    for out in ("out", "as a mode"):
        (line,) = (tmp_path / out / "predictions.jsonl").read_text().splitlines()
        assert json.loads(line)["text"] == GREETING.replace(",", ";")


def test_an_encoding_that_is_asked_for_counts(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_bytes("text\nGr\xfc\xdfe\n".encode())
    assert texts(capsys, run, tmp_path / "a.csv", "--encoding", "latin-1") == ["Gr\xc3\xbc\xc3\x9fe"]


@pytest.mark.slow
def test_columns_that_predictions_replace_are_named(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.csv"
    file.write_text("predicted,id,text,probability\ngulls,7,herons,high\n")
    for words in ((), ("--json",), ("--format", "csv")):
        capsys.readouterr()
        main(["predict", str(run), str(file), *words])
        told = capsys.readouterr()
        assert told.err == "columns of the input that the predictions replace: predicted, probability\n"
        assert "gulls" not in told.out
    file.write_text("id,text\n7,herons\n")
    main(["predict", str(run), str(file)])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("written", ["a.csv", "link.csv", "folder/../a.csv"])
def test_the_input_is_never_written_over(run: Path, tmp_path: Path, written: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "a.csv").write_text("text\nherons\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "a.csv")
    with pytest.raises(
        SystemExit, match=r"^error: --out .* would write over the input .*a\.csv: name another"
    ):
        main(["predict", str(run), str(tmp_path / "a.csv"), "--out", str(tmp_path / written)])
    assert (tmp_path / "a.csv").read_text() == "text\nherons\n"
    (tmp_path / "b.figures.json").write_text('[{"text": "herons"}]')
    with pytest.raises(SystemExit, match="would write over the input"):
        main(["predict", str(run), str(tmp_path / "b.figures.json"), "--out", str(tmp_path / "b.csv")])


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_the_error_of_a_failed_run_keeps_its_names_of_settings(tmp_path: Path, command: str) -> None:
    failed = {"state": "failed", "error": "a.csv is not UTF-8: set one of data.encoding=cp1252"}
    (tmp_path / "status.json").write_text(json.dumps(failed))
    with pytest.raises(
        SystemExit, match=r"'failed', as a\.csv is not UTF-8: set one of data\.encoding=cp1252\. Mend"
    ):
        main([command, str(tmp_path), "a text"])
