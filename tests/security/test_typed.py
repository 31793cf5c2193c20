"""What counts as typed: the words of the user's own, never those that a folder or a recipe notes."""

import json
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from tests.config.test_foreign_code import strangers_run
from tests.report.pages import make_run
from tests.security.attacks import LOOKUPS, SUITES
from tests.security.conftest import COUNTS, Problem
from tiryns.runner.cli.commands import parser_of
from tiryns.runner.cli.models import average
from tiryns.runner.config import run_config
from tiryns.runner.config.permissions import check_permissions, on_command_line, words_to_repeat
from tiryns.runner.run.command.words import literal, seal_record
from tiryns.runner.run.folder import Run
from tiryns.runner.run.model_folder import is_sealed, own_words
from tiryns.runner.sweeps.suite.definition import check_evaluations


def test_run_from_elsewhere_asks_once_and_seals_what_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, cache = tmp_path / "theirs", ["data.cache_dir=/elsewhere/a"]
    evil = ["data.validation=s3://evil/x", *cache]
    strangers_run(theirs, evil)
    run, config = Run(theirs), OmegaConf.create({"seed": 1, "mode": "train"})
    with on_command_line([f"resume={theirs}"]):
        run.begin(config, evil)
    assert not is_sealed(theirs), "resuming alone makes nothing of theirs the user's own"
    assert run.overrides() == evil
    typed = [f"resume={theirs}", "data.cache_dir=/elsewhere/b,/elsewhere/c", "seed=2"]
    with on_command_line(typed):
        run.begin(config, [*evil, "data.cache_dir=/elsewhere/b", "seed=2"])
        run.update_status(seal=str(run.status["seal"]))
    assert own_words(theirs) == ["data.cache_dir=/elsewhere/b", "seed=2"]
    assert run.overrides() == [*evil, "data.cache_dir=/elsewhere/b", "seed=2"], "the command is written anew"
    with on_command_line([f"resume={theirs}"]):
        check_permissions(OmegaConf.create({"data": {"cache_dir": "/elsewhere/b"}}))
        for node in ({"cache_dir": "/elsewhere/a"}, {"validation": "s3://evil/x"}):
            with pytest.raises(ValueError, match="it counts on the command line"):
                check_permissions(OmegaConf.create({"data": node}))
    run.begin(
        OmegaConf.create({"seed": 3}), [*evil, "seed=3"]
    )  # a job without a command, after its data was moved
    assert own_words(theirs) == []
    monkeypatch.setenv("TIRYNS_CACHE", str(tmp_path / "cache of another machine"))
    assert not is_sealed(theirs)
    run.begin(config, evil)
    assert own_words(theirs) == []


def test_branch_and_sweep_of_a_strangers_run_seal_what_is_typed(tmp_path: Path) -> None:
    with on_command_line(["seed=2"]):
        Run(tmp_path / "branch").begin(OmegaConf.create({"seed": 2}), ["outputs=/elsewhere", "seed=2"])
        assert seal_record(["outputs=/elsewhere", "seed=2"])["own"] == ["seed=2"]
    assert own_words(tmp_path / "branch") == ["seed=2"]
    status = Run(tmp_path / "branch").status
    (tmp_path / "branch" / "status.json").write_text(json.dumps({**status, "own": ["outputs=/elsewhere"]}))
    assert own_words(tmp_path / "branch") == []
    (tmp_path / "branch" / "status.json").write_text(json.dumps({**status, "own": "outputs=/elsewhere"}))
    assert own_words(tmp_path / "branch") == []


def test_words_that_reach_further_are_typed_again_without_a_seal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reaching = ["data.source=https://mine.org/x", "outputs=/elsewhere", "allowed_targets=[mine]"]
    with on_command_line([f"resume={tmp_path}/mine", "seed=1", *reaching, "hydra/launcher=slurm"]):
        assert words_to_repeat(tmp_path / "mine") == [*reaching, "hydra/launcher=slurm"]
        Run(tmp_path / "mine").announce("abc", ["seed=1", *reaching])
        assert words_to_repeat(tmp_path / "mine") == []


def test_all_that_is_to_be_typed_is_told_at_once(problem: Problem) -> None:
    said = problem("outputs: /elsewhere\ndata: {cache_dir: /elsewhere/cache}\nallowed_targets: [mine]")
    assert "allowed_targets=[mine]" in said, said
    typed = said.partition("give it there: ")[2].replace("'", "").split()
    assert sorted(word.partition("=")[0] for word in typed) == [
        "allowed_targets",
        "data.cache_dir",
        "outputs",
    ]
    allowed = problem(
        "outputs: /elsewhere\ndata: {cache_dir: /elsewhere/cache}\nallowed_targets: [mine]", *typed
    )
    assert COUNTS not in allowed
    assert "alone, not in a recipe" not in allowed


@pytest.mark.rows(2)
@pytest.mark.parametrize("name", LOOKUPS)
def test_recipe_reads_no_secret_of_the_environment(
    name: str, problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = {
        "AWS_SECRET_ACCESS_KEY": "FAKE/secret-of-tests",
        "PGPASS": "hunter22-of-the-tests",
        "SHORT_TOKEN": "abc",
    }
    for variable, value in secrets.items():
        monkeypatch.setenv(variable, value)
    said = problem(LOOKUPS[name])
    assert "looks up a variable of the environment" in said, said
    assert "\n" not in said
    assert not any(value in said for value in secrets.values())
    monkeypatch.setenv("TIRYNS_CONF", str(tmp_path / "recipes"))
    assert "looks up" not in problem(LOOKUPS[name])


@pytest.mark.slow
def test_recipe_reads_what_is_no_secret(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "corpus.txt").touch()
    values = {
        "SCRATCH_OF_TESTS": str(tmp_path),
        "CORPUS": f"{tmp_path}/corpus.txt",
        "STEPS": "1000",
        "USER": "somebody-else",
    }
    for variable, value in values.items():
        monkeypatch.setenv(variable, value)
        assert "looks up" not in problem(f"data: {{text_column: '${{oc.env:{variable}}}'}}")
    monkeypatch.setenv("TEAM", "the-herons")
    recipe = "data: {text_column: '${oc.env:TEAM}', split: '${data.text_column}'}"
    assert "'data.text_column=${oc.env:TEAM}'" in problem(recipe)
    assert "looks up" not in problem(recipe, "data.text_column='${oc.env:TEAM}'")


@pytest.mark.parametrize("word", SUITES)
def test_words_of_a_recipe_for_its_suites_are_none_that_are_typed(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    node = {"_target_": "runner.callbacks.SuiteEvaluation", "suite": "probe", "overrides": [word]}
    config = OmegaConf.create({"mode": "train", "callback": {"suite": node}})
    with (
        on_command_line(["seed=1"]),
        pytest.raises(ValueError, match=r"^callback\.suite\.overrides: ") as caught,
    ):
        check_evaluations(config, tmp_path / "run")
    assert "\n" not in str(caught.value)
    typed = [f"callback.suite.overrides={literal([word])}"]
    code = ("allowed", "hydra.job", "outputs", "hydra.sweep.dir")
    if not word.startswith(code):
        with on_command_line(typed):
            check_evaluations(config, tmp_path / "run")


def test_what_runs_from_elsewhere_reach_is_allowed_for_their_soup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_config, "complete", lambda config: config)
    run = make_run(tmp_path / "theirs")
    (run / "config.yaml").write_text("data: {cache_dir: /elsewhere}\n")
    with pytest.raises(ValueError, match=r"give it there: data\.cache_dir=/elsewhere"):
        run_config.recorded_config(run, [])
    assert run_config.recorded_config(run, ["data.cache_dir=/elsewhere"]).data.cache_dir == "/elsewhere"
    given = dict[str, object]()
    parser = parser_of("average")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(average, "average", lambda **settings: given.update(settings) or tmp_path)
        (tmp_path / "average.json").write_text("{}")
        average.main(parser.parse_args(["a=b@1", str(run), "data.cache_dir=/elsewhere", "--out", "x"]))
    assert given["sources"] == [str(run)]
    assert given["allow"] == ["a=b@1", "data.cache_dir=/elsewhere"]
