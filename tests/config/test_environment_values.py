"""Overrides are kept as typed, and what a config takes from the environment is written nowhere."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

from tests.conftest import TINY
from tests.support.in_process import refused, tiryns_here
from tiryns.runner.launch.resume import saved_overrides
from tiryns.runner.run import redaction
from tiryns.runner.run.command.words import command_line, public_overrides
from tiryns.runner.run.folder import Run
from tiryns.runner.run.recording import without_secrets
from tiryns.runner.run.redaction import know_secrets, redact

SECRETS = {
    "AWS_ACCESS_KEY_ID": "AKIAFAKEFAKEFAKE", "PGPASS": "hunter22-of-the-tests",
    "PGPASS_OF_A_LONGER_ONE": "hunter22-of-the-tests-which-goes-on", "MY_PAT": "pat_FakeFakeFake",
    "AUTH_HEADER": "Basic ZmFrZTpmYWtl", "DATABASE_URL": "postgres://me@host/fake", "SSH_PASSPHRASE": "correct horse",
    "PASSWD": "fakepasswd1",
}  # fmt: skip
"""None of these names ends in a word that says so, but one in `ID`."""


@pytest.fixture(autouse=True)
def _forgetting() -> Any:
    """A process knows what it has looked up until it ends; this one goes on."""
    yield
    redaction._of_environment.clear()
    redaction._of_configs.clear()


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    return SECRETS


def known(values: dict[str, Any]) -> DictConfig:
    config = OmegaConf.create(values)
    know_secrets(config)
    return config


def files_with(folder: Path, *values: str) -> list[str]:
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return [str(path) for path in files if any(value.encode() in path.read_bytes() for value in values)]


def test_value_from_the_environment_is_named_not_written(secrets: dict[str, str]) -> None:
    config = known({"values": [f"${{oc.env:{name}}}" for name in secrets]})
    assert list(config["values"]) == list(secrets.values())
    for name, value in secrets.items():
        assert redact(f"cannot reach {value}!") == f"cannot reach ${{oc.env:{name}}}!"
    assert redact("other words") == "other words"


def test_value_is_followed_through_other_settings(secrets: dict[str, str]) -> None:
    config = known(
        {
            "a": "${oc.env:PGPASS}", "b": {"c": "${a}", "d": ["x-${b.c}", "plain"]}, "plain": "${seed}", "seed": 7,
            "which": "PASS", "e": "${oc.env:PG${which}}", "f": "${oc.env:NOWHERE,fallback}", "g": "${oc.decode:${a}}",
        }
    )  # fmt: skip
    written = OmegaConf.to_yaml(without_secrets(config))
    assert OmegaConf.to_container(OmegaConf.create(written)) == {
        "a": "${oc.env:PGPASS}", "b": {"c": "${a}", "d": ["x-${b.c}", "plain"]}, "plain": 7, "seed": 7,
        "which": "PASS", "e": "${oc.env:PG${which}}", "f": "${oc.env:NOWHERE,fallback}", "g": "${oc.decode:${a}}",
    }  # fmt: skip


@pytest.mark.parametrize(
    "value", ["1", "/", "12", "0.001", "150000", "1e-5", "adamw", "modernbert_tiny", "classification", "max_steps", "."]
)  # fmt: skip
def test_word_or_number_that_says_nothing_mangles_no_file(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOMETHING", value)
    config = known({"x": "${oc.env:SOMETHING}"})
    text = json.dumps(
        {"step": 150000, "lr": 0.001, "option": "classification", "path": "/a/b.c", "max_steps": 12}
    )
    assert redact(text) == text
    assert "${oc.env:SOMETHING}" in OmegaConf.to_yaml(without_secrets(config)), (
        "where it is looked up it is named"
    )


def test_folder_that_is_there_is_no_secret_but_a_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "corpus.txt").write_text("text")
    monkeypatch.setenv("SCRATCH", str(tmp_path))
    monkeypatch.setenv("CORPUS", str(tmp_path / "corpus.txt"))
    monkeypatch.setenv("TIRYNS_CACHE", "/nowhere/at/all")
    known({"x": "${oc.env:SCRATCH}", "y": "${oc.env:CORPUS}", "z": "${oc.env:TIRYNS_CACHE}"})
    assert redact("/nowhere/at/all") == "/nowhere/at/all", "a setting like others"
    assert redact(f"in {tmp_path}/run") == f"in {tmp_path}/run"
    assert redact(f"{tmp_path / 'corpus.txt'} is empty") == "${oc.env:CORPUS} is empty"


def test_password_in_an_address_is_left_out() -> None:
    assert redact("s3://id:secret@bucket/x") == "s3://***@bucket/x"
    assert (
        redact("'https://me:p%40ss@host:80/x', http://host:80/y@z")
        == "'https://***@host:80/x', http://host:80/y@z"
    )
    assert (
        redact("see https://example.org/a:b and me@example.org")
        == "see https://example.org/a:b and me@example.org"
    )


@pytest.mark.parametrize(
    "said",
    [
        'Invalid bucket name "id:p4ssw0rd@bucket"',
        "cannot reach id:p4ssw0rd@bucket/x",
        "the key p4ssw0rd is not known",
        "s3://id:p4ssw0rd@bucket/x",
        "Basic id:p4ssw0rd",
    ],
)
@pytest.mark.parametrize("typed", [False, True])
def test_password_of_a_known_address_is_left_out_of_any_message(
    said: str, typed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "store:s3://id:p4ssw0rd@bucket/x"
    assert ("p4ssw0rd" in redact(said)) == ("://" not in said), "unknown until a config or a command has it"
    monkeypatch.setattr("sys.argv", ["tiryns", *([f"data.source={address}"] if typed else [])])
    if not typed:
        known({"data": {"source": address}})
    assert "p4ssw0rd" not in redact(said)


def test_overrides_keep_what_was_typed(secrets: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    words = [
        "data.source=${oc.env:PGPASS}", "optimizer.lr=${optimizer.weight_decay}", "x.api_token=${oc.env:MY_PAT}",
        "x.api_key='${oc.env:MY_PAT}'", "data.validation.turkey=gobbling.txt", "x.apiKey=typed-in-clear",
        "x.password=typed-in-clear", "x.password=half-${oc.env:MY_PAT}",
        "data.source=s3://id:secret@bucket", "hydra.run.dir=x", "resume=auto",
    ]  # fmt: skip
    assert public_overrides(words) == [*words[:5], "data.source=s3://***@bucket"]
    monkeypatch.setattr("sys.argv", ["tiryns", *words[2:6]])
    assert shlex.split(command_line()) == ["tiryns", *words[2:5], "x.apiKey=***"]
    assert redact("no gobbling.txt") == "no gobbling.txt"


def test_override_whose_secret_was_left_out_must_be_given_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "status.json").write_text(json.dumps({"state": "failed"}))
    (run / "overrides.json").write_text(json.dumps(["seed=7", "data.source=***"]))
    message = r"data\.source held a secret, which is not written .* give it again"
    with pytest.raises(ValueError, match=message):
        saved_overrides([f"resume={run}"])
    words = [f"resume={run}", "data.source=a.txt"]
    assert saved_overrides(words) == ["seed=7", *words]


@pytest.mark.rows(4)
@pytest.mark.parametrize(
    "words",
    [
        ["data=files", "data.source="], ["data=files", "data.source=['']"],
        ["data=files", "data.source=***"], ["data=files", "data.source=x", "data.validation={a: ''}"],
        ["experiment=classification", "data.test='  '"],
        ["model=pretrained", "model.name_or_path="], ["data=image_text", "data.train=x", "data.images=''"],
        ["data=energon", "data.path="], ["outputs="], ["data.tokenizer=''"], ["resume=''"],
        ["data=files", "data.source=${oc.env:UNSET_BUT_EMPTY}"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_empty_name_is_refused_instead_of_meaning_every_file(
    tmp_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNSET_BUT_EMPTY", "")
    (tmp_path / "notes.txt").write_text("private")
    error = refused(tmp_path, *words)
    assert f"error: {words[-1].partition('=')[0]}=" in error
    assert "it is empty" in error or "a secret was left out" in error
    assert len(error.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.slow
def test_run_with_values_of_the_environment_goes_on_in_its_folder(
    tmp_path: Path, text_file: Path, monkeypatch: pytest.MonkeyPatch, secrets: dict[str, str]
) -> None:
    hidden = tmp_path / "place-of-the-tests.txt"
    hidden.write_text(text_file.read_text())
    monkeypatch.setenv("MY_CORPUS", str(hidden))
    monkeypatch.setenv("MY_STEPS", "4")
    typed = [
        *TINY, "data.source=${oc.env:MY_CORPUS}", "trainer.max_steps=${oc.env:MY_STEPS}", "checkpoint.every_steps=2",
        "checkpoint.keep_last=9", "optimizer.lr=${optimizer.weight_decay}", "optimizer.weight_decay=0.003",
        "data.split=${oc.env:PGPASS}", "trainer.validate_every=0",
    ]  # fmt: skip
    monkeypatch.chdir(tmp_path)
    done = tiryns_here(tmp_path, *typed)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "outputs").glob("*/*")
    run = Run(folder)
    assert run.overrides() == typed
    assert not files_with(folder, str(hidden), SECRETS["PGPASS"])
    assert "source: ${oc.env:MY_CORPUS}" in (folder / "config.yaml").read_text()
    monkeypatch.setenv("MY_STEPS", "6")
    run.update_status(state="failed")
    done = tiryns_here(tmp_path, f"resume={folder}")
    assert done.returncode == 0, done.stderr
    assert [path for path in (tmp_path / "outputs").glob("*/*") if path.is_dir()] == [folder]
    assert run.status["step"] == 6, "the variable is looked up anew"
    assert not files_with(folder, str(hidden), SECRETS["PGPASS"])
    run.update_status(state="failed")
    monkeypatch.setenv("MY_STEPS", "7")
    assert tiryns_here(tmp_path, *typed, "resume=auto").returncode == 0
    assert run.status["step"] == 7, "the same command finds its run"
