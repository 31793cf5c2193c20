"""A run that goes on elsewhere: its data and its configs are found, and it stays the same run."""

import json
import shutil
from pathlib import Path

import pytest

import tiryns
from tests.conftest import TINY, write_text
from tests.support.in_process import refused, tiryns_here
from tiryns.runner.cli.compose import compose, composing_words, initialize
from tiryns.runner.config.run_config import begun_in, path_from, path_settings
from tiryns.runner.launch.resume import newest_run, saved_overrides
from tiryns.runner.run.folder import Run
from tiryns.runner.run.recording import config_hash

RECIPE = "# @package _global_\noptimizer:\n  lr: 0.004\ntrainer:\n  max_steps: 6\n"
STEPS = ["checkpoint.every_steps=3", "checkpoint.keep_last=9", "trainer.validate_every=0"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text, configs, and a run that was begun there and stopped after 3 of its 6 steps."""
    here = tmp_path_factory.mktemp("begun") / "project"
    (here / "conf" / "experiment").mkdir(parents=True)
    (here / "conf" / "experiment" / "mine.yaml").write_text(RECIPE)
    write_text(here / "a.txt")
    tiny = [word for word in TINY if not word.startswith(("trainer.max_steps", "optimizer.lr"))]
    words = [
        "--config-dir", "conf", *tiny, "experiment=mine", "data.source=a.txt", *STEPS, "hydra.run.dir=runs/o",
    ]  # fmt: skip
    done = tiryns_here(here, *words)
    assert done.returncode == 0, done.stderr
    run = Run(here / "runs" / "o")
    (run.checkpoint_dir / "step-00000006.ckpt").unlink()
    shutil.rmtree(run.path / "model")
    run.update_status(state="interrupted", step=3)
    return here


@pytest.fixture
def moved(project: Path, tmp_path: Path) -> Path:
    """The project at another place; its own one is still there."""
    shutil.copytree(project, tmp_path / "moved", symlinks=True)
    (tmp_path / "elsewhere").mkdir()
    return tmp_path / "moved"


def folder_of(where: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> Path:
    """The folder that a command would train in, by what is typed in a working folder."""
    monkeypatch.chdir(where)
    typed = saved_overrides([*words])
    assert typed[0] == "--config-dir"
    with initialize([Path(typed[1])]):
        return Path(str(compose(typed[2:]).hydra.run.dir))


def test_run_goes_on_from_any_folder_without_its_configs(moved: Path) -> None:
    run, elsewhere = Run(moved / "runs" / "o"), moved.parent / "elsewhere"
    (moved / "conf").rename(moved / "gone")
    status = run.status
    run.update_status(begun_in=["/nowhere/at/all", status["begun_in"][1]])
    done = tiryns_here(elsewhere, f"resume={run.path}")
    assert done.returncode == 0, done.stderr
    assert (run.status["state"], run.status["step"]) == ("done", 6)
    assert run.status["begun_in"] == ["/nowhere/at/all", status["begun_in"][1]]
    assert not list(elsewhere.iterdir()), "it is no branch"
    steps = [int(line.split()[0]) for line in (run.path / "order.txt").read_text().splitlines()]
    assert steps == [*range(1, 7)]
    ordered = tiryns_here(elsewhere, "order", str(run.path), "--steps", "1:6")
    assert ordered.returncode == 0, ordered.stderr
    assert "6 steps agree with order.txt" in ordered.stderr


@pytest.mark.slow
def test_moved_data_is_noted_in_every_file(moved: Path) -> None:
    run = Run(moved / "runs" / "o")
    (moved / "a.txt").rename(moved / "b.txt")
    done = tiryns_here(moved, f"resume={run.path}", "data.source=b.txt")
    assert done.returncode == 0, done.stderr
    assert "data.source=b.txt" in run.overrides()
    (run.path / "overrides.json").unlink()
    assert "data.source=b.txt" in run.overrides(), "command.txt has what overrides.json had"
    assert not any(word.startswith("resume=") for word in (run.path / "command.txt").read_text().split())
    assert "source: b.txt" in (run.path / "config.yaml").read_text()


@pytest.mark.slow
def test_data_that_is_gone_is_asked_for_by_its_setting(moved: Path) -> None:
    run, elsewhere = moved / "runs" / "o", moved.parent / "elsewhere"
    Run(run).update_status(begun_in=[str(moved), "../.."])
    (moved / "a.txt").unlink()
    gone = f"data.source=a.txt in {moved}, is gone (looked in {elsewhere}, {moved})"
    for words in ([f"resume={run}"], ["order", str(run), "--steps", "1:6"]):
        error = refused(elsewhere, *words)
        assert gone in error
        assert "data.source=NEW_PLACE" in error
    assert "(looked in" in tiryns_here(elsewhere, f"resume={run}", "data.source=b.txt").stderr


@pytest.mark.slow
def test_new_relative_place_leads_from_where_it_was_typed(moved: Path) -> None:
    """The same words lead to other data from where the run was begun, and to none from a third place."""
    run, deep, elsewhere = moved / "runs" / "o", moved.parent / "deep", moved.parent / "elsewhere"
    for folder in (moved, deep):
        (folder / "data").mkdir(parents=True)
    (moved / "data" / "b.txt").write_text("Other words stand here. " * 90)
    (moved / "a.txt").rename(deep / "data" / "b.txt")
    done = tiryns_here(deep, f"resume={run}", "data.source=data/b.txt")
    assert done.returncode == 0, done.stderr
    assert Run(run).status["step"] == 6
    shutil.rmtree(run / "model")
    (run / "checkpoints" / "step-00000006.ckpt").unlink()
    Run(run).update_status(state="interrupted", step=3)
    assert tiryns_here(elsewhere, f"resume={run}").returncode == 0
    assert not list(elsewhere.iterdir())
    told = tiryns_here(moved.parent, "order", str(run), "--steps", "1:6")
    assert "6 steps agree with order.txt" in told.stderr


@pytest.mark.slow
def test_run_is_known_by_every_place_that_its_data_had(moved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(moved)
    run, known = Run(moved / "runs" / "o"), []
    with initialize([Path("conf")]):
        for name in ("a.txt", "b.txt", "c.txt", "b.txt", "a.txt"):
            words = [f"data.source={name}" if w.startswith("data.source=") else w for w in run.overrides()]
            config = compose(words)
            known.append(config_hash(config))
            run.begin(config, words)
            assert run.identity() == known[-1]
            assert [newest_run(moved, one) for one in known] == [run.path] * len(known)
    assert len(run.status["identities"]) == 3
    assert newest_run(moved, "other") is None


@pytest.mark.slow
def test_python_goes_on_with_the_configs_of_a_run_and_without_them(
    moved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = moved / "runs" / "o"
    Run(run).update_status(begun_in=[str(moved), "../.."])
    monkeypatch.chdir(moved.parent / "elsewhere")
    assert tiryns.compose(f"resume={run}").optimizer.lr == 0.004
    (moved / "conf").rename(moved / "gone")
    assert tiryns.compose(f"resume={run}").optimizer.lr == 0.004
    assert tiryns.compose(f"resume={run}", config_dir=moved / "gone").optimizer.lr == 0.004
    assert tiryns.run(f"resume={run}").path == run


PLACES: dict[str, tuple[str, str, list[str], bool]] = {
    "the same": ("a.txt", "", [], True),
    "by its whole path": ("a.txt", "", ["data.source={moved}/a.txt"], True),
    "by another relative path": ("a.txt", "", ["data.source=../moved/a.txt"], True),
    "under another name": ("b.txt", "", ["data.source={moved}/b.txt"], True),
    "other words": ("b.txt", "\n\nOne more.", ["data.source={moved}/b.txt"], False),
    "other settings": ("a.txt", "", ["data.source={moved}/a.txt", "seed=9"], False),
    "nothing there": ("a.txt", "", ["data.source={moved}/c.txt"], False),
}
"""What the text is now named, what was added to it, the words of the command, and whether it is the same run."""


@pytest.mark.rows(2)
@pytest.mark.parametrize("place", PLACES)
def test_same_data_at_another_place_is_no_branch(
    moved: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    name, added, words, same = PLACES[place]
    text = (moved / "a.txt").rename(moved / name)
    text.write_text(text.read_text() + added)
    run, elsewhere = moved / "runs" / "o", moved.parent / "elsewhere"
    words = [word.format(moved=moved) for word in words]
    found = folder_of(elsewhere, monkeypatch, f"resume={run}", *words)
    assert (found == run) is same


@pytest.mark.slow
def test_configs_are_found_where_the_run_was_begun(moved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = moved / "runs" / "o"
    Run(run).update_status(begun_in=[str(moved), "../.."])
    monkeypatch.chdir(moved.parent / "elsewhere")
    assert saved_overrides([f"resume={run}"])[:2] == ["--config-dir", str(moved / "conf")]
    (moved / "conf").rename(moved / "gone")
    words = saved_overrides([f"resume={run}"], composing_words)
    assert "optimizer.lr=0.004" in words
    assert not any("experiment" in word or word.startswith("--") for word in words)
    (run / "config.yaml").write_text("{")
    with pytest.raises(ValueError, match=r"say where the folder is \(--config-dir FOLDER resume="):
        saved_overrides([f"resume={run}"], composing_words)


def test_words_of_a_foreign_config_are_held_to_those_of_a_run(
    moved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = moved / "runs" / "o"
    shutil.rmtree(moved / "conf")
    Run(run).update_status(begun_in=None)
    config = run / "config.yaml"
    config.write_text(config.read_text() + "hydra.run.dir: evil\n")
    monkeypatch.chdir(moved.parent / "elsewhere")
    with pytest.raises(ValueError, match=r"hydra\.run\.dir"):
        saved_overrides([f"resume={run}"], composing_words)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a.txt", "{there}/a.txt"),
        ("store:s", "store:{there}/s"),
        ("a*.txt", "{there}/a*.txt"),
        ("s@train", "{there}/s@train"),
        ("clone:de@train", "{there}/clone:de@train"),
        ("s:de", "s:de"),
        ("here.txt", "here.txt"),
        ("bert-base-uncased", "bert-base-uncased"),
        ("s3://a.txt", "s3://a.txt"),
        ("/a.txt", "/a.txt"),
        ("", ""),
    ],
)
def test_relative_paths_lead_from_the_begin_where_they_are_not_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, found: str
) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    (there / "s").mkdir(parents=True)
    (there / "clone").mkdir()
    here.mkdir()
    for file in (there / "clone" / "README.md", there / "a.txt", there / "here.txt", here / "here.txt"):
        file.touch()
    monkeypatch.chdir(here)
    assert path_from(text, [tmp_path / "gone", there]) == found.format(there=there)


def test_branch_finds_what_its_run_was_begun_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two", "x", "y"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    status = {"begun_in": [str(tmp_path / "x"), "nowhere"], "branched_from": str(tmp_path / "two")}
    (tmp_path / "one" / "status.json").write_text(json.dumps(status))
    status = {"begun_in": ["gone", "../y"], "branched_from": str(tmp_path / "one/checkpoints/step-1.ckpt")}
    (tmp_path / "two" / "status.json").write_text(json.dumps(status))
    assert begun_in(tmp_path / "one") == [tmp_path / "x", tmp_path / "y"]
    assert begun_in(tmp_path / "x") == []
    assert {"train", "images", "name_or_path", "tokenizer", "teacher", "text_from"} <= path_settings()
    assert not {"adapter_targets", "architecture", "label_column"} & path_settings()
