import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from tests.callbacks.test_progress import Terminal
from tiryns.runner.report.summary import clock, end_summary, resume_command, show
from tiryns.runner.run.folder import Run

FACTS = {
    "data": {"documents": "12,000", "vocabulary": "8,192 [tokens]"},
    "run": {"folder": "outputs/2026-11-03/12-30-11-ab12"},
    "empty": {},
}
RESULTS = {
    "val/books/loss": 3.9, "val/books/unigram_entropy": 6.1, "val/books/accuracy": 0.3412,
    "uniform_entropy": 9.01, "objective": 3.875, "best_step": 9000.0,
}  # fmt: skip


def test_facts_are_plain_lines_outside_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show("tiryns", FACTS)
    assert capsys.readouterr().out.splitlines() == [
        "data", "  documents   12,000", "  vocabulary  8,192 [tokens]", "run",
        "  folder      outputs/2026-11-03/12-30-11-ab12",
    ]  # fmt: skip


def test_facts_are_a_panel_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    with redirect_stdout(Terminal()) as screen:
        show("tiryns", FACTS)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())
    assert shown.startswith("╭─ tiryns ─")
    for section, facts in FACTS.items():
        assert (section in shown) == bool(facts)
        for name, value in facts.items():
            assert re.search(rf"{name} +{re.escape(value)} ", shown)


def test_end_holds_the_loss_against_frequencies_and_guessing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "metrics.csv").write_text("")
    (tmp_path / "model").mkdir()
    end_summary(tmp_path, RESULTS)
    out = capsys.readouterr().out
    assert "validation loss, books  3.900  (2.200 below the unigram entropy 6.100; guessing has 9.010)" in out
    assert re.search(r"best +3\.875 at step 9,000", out)
    assert re.search(r"val/books/accuracy +0\.3412", out)
    assert re.search(rf"model +{tmp_path}/model\n", out)
    assert re.search(rf"metrics +{tmp_path}/metrics\.csv\n", out)
    assert "report.html" not in out, "a file that is not there is listed"
    assert out.endswith(f"go on with: tiryns resume={tmp_path}\n")


def test_figures_in_bits_are_held_against_the_same_in_bits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bits = {
        "val/books/bits_per_token": 7.0,
        "val/books/bits_per_byte": 1.75,
        "val/books/tokens_per_byte": 0.25,
    }
    end_summary(tmp_path, {**RESULTS, **bits})
    out = capsys.readouterr().out
    assert re.search(r"val/books/bits_per_token +7  \(unigram entropy 8\.8\)", out)
    assert re.search(r"val/books/bits_per_byte +1\.75  \(unigram entropy 2\.2\)", out)
    assert "tokens_per_byte" not in out


def test_end_of_a_run_without_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    end_summary(tmp_path, {})
    assert capsys.readouterr().out == f"go on with: tiryns resume={tmp_path}\n"


def test_command_to_resume_is_spelt_as_the_one_that_started_it(tmp_path: Path) -> None:
    folder = tmp_path / "my run"
    folder.mkdir()
    assert resume_command(Run(folder)) == f"tiryns 'resume={folder}'"
    (folder / "command.txt").write_text("tiryns seed=3\n")
    assert resume_command(Run(folder)) == f"tiryns 'resume={folder}'"
    (folder / "command.txt").write_text("tiryns --config-dir 'my configs' seed=3 'allowed_targets=[mine]'\n")
    wanted = f"tiryns --config-dir 'my configs' 'resume={folder}' 'allowed_targets=[mine]'"
    assert resume_command(Run(folder)) == wanted


def test_best_figure_has_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Run(tmp_path).update_status(state="running", monitor="val/validation/accuracy")
    end_summary(tmp_path, {"objective": 0.3, "best_step": 6.0})
    assert re.search(r"best val/validation/accuracy +0\.300 at step 6", capsys.readouterr().out)


def test_run_that_a_callback_has_ended_gets_another_length_than_its_own(tmp_path: Path) -> None:
    Run(tmp_path).update_status(state="done", step=4, max_steps=8)
    assert str(resume_command(Run(tmp_path))).endswith(f"resume={tmp_path} trainer.max_steps=16")
    Run(tmp_path).update_status(max_steps=200)
    assert str(resume_command(Run(tmp_path))).endswith(f"resume={tmp_path} trainer.max_steps=400")
    (tmp_path / "command.txt").write_text(
        "tiryns callback=[default,stop_after] callback.stop_after.steps=4\n"
    )
    assert str(resume_command(Run(tmp_path))).endswith(" trainer.max_steps=400 callback.stop_after.steps=400")
    (tmp_path / "config.yaml").write_text("trainer: {max_seconds: 3.5}\n")
    assert str(resume_command(Run(tmp_path))).endswith("steps=400 trainer.max_seconds=7.0")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-4, "0:00"),
        (3.4, "0:03"),
        (59.6, "1:00"),
        (760, "12:40"),
        (3723, "1:02:03"),
        (2 * 86400 + 3600, "2d 01:00:00"),
    ],
)
def test_durations(seconds: float, shown: str) -> None:
    assert clock(seconds) == shown
