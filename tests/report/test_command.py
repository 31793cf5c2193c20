from pathlib import Path

from tests.conftest import ROOT
from tests.report.pages import read, sweep
from tests.support.in_process import Done, tiryns_here
from tests.support.processes import process

LIGHT = """
import sys
from tiryns.runner.cli.commands import main
for folder in {folders!r}:
    main(["report", folder])
print([name for name in ("torch", "lightning", "transformers") if name in sys.modules], file=sys.stderr)
"""


def command(*arguments: object) -> Done:
    return tiryns_here(ROOT, "report", *map(str, arguments))


def test_command_draws_a_run_several_or_a_sweep(tmp_path: Path) -> None:
    runs = sweep(tmp_path / "sweep")
    one = command(runs[0])
    assert (one.returncode, one.stdout) == (0, f"{runs[0]}/report.html\n")
    several = command(*runs[:2], "--out", tmp_path / "page.html")
    assert several.stdout == f"{tmp_path}/page.html\n"
    assert read(tmp_path / "page.html").facts["name"] == "2 runs"
    assert command(tmp_path / "sweep").stdout == f"{tmp_path}/sweep/report.html\n"
    assert read(tmp_path / "sweep" / "report.html").facts["name"] == "5 runs"
    assert command(tmp_path).stdout == f"{tmp_path}/report.html\n"
    assert read(tmp_path / "report.html").facts["name"] == "5 runs"


def test_command_says_what_is_no_run(tmp_path: Path) -> None:
    done = command(tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        f"error: {str(tmp_path)!r} is no run folder: it holds none of status.json, metrics.csv, config.yaml. "
        "Name a folder such as outputs/<date>/<time>-<id>\n"
    )


def test_command_imports_neither_torch_nor_lightning(tmp_path: Path) -> None:
    runs = sweep(tmp_path)
    folders = [str(runs[0]), str(tmp_path)]
    done = process("-c", LIGHT.format(folders=folders), cwd=ROOT)
    assert (done.stdout.splitlines(), done.stderr) == ([f"{each}/report.html" for each in folders], "[]\n")
