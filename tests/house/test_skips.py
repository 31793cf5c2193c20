"""A skip for what could have been installed is a failure in `.ci/run`, and each reason says where such tests run."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support import needs

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
Outcomes = Callable[..., dict[str, int]]

EACH_WAY = """
import pytest

from tests.support import needs
from tests.support.needs import EXTRAS, package

EXTRAS["no_such_package"] = "mteb"
BODY
"""


@pytest.fixture
def outcomes(tmp_path: Path) -> Outcomes:
    """Runs a test file in a process of its own, where the extras are said to be installed; counts its outcomes."""

    def run(body: str, extras: str | None) -> dict[str, int]:
        path = tmp_path / "test_each_way.py"
        path.write_text(EACH_WAY.replace("BODY", body))
        environment = {"PATH": "/nowhere", "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        if extras is not None:
            environment[needs.VARIABLE] = extras
        command = [
            sys.executable, "-m", "pytest", "-p", "tests.support.needs.skips", "-p", "no:cacheprovider",
        ]  # fmt: skip
        command += ["--rootdir", str(tmp_path), str(path)]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        last = done.stdout.strip().splitlines()[-1]
        return {word.rstrip("s"): int(count) for count, word in re.findall(r"(\d+) ([a-z]+)", last)}

    return run


IN_TEST = "def test_it(): package('no_such_package')"
IN_FIXTURE = "@pytest.fixture\ndef it(): package('no_such_package')\ndef test_it(it): ..."
OF_MODULE = "package('no_such_package')\ndef test_it(): ..."
BY_MARK = "@pytest.mark.skipif(True, reason='not today')\ndef test_it(): ..."
BY_PYTEST = "def test_it(): pytest.importorskip('no_such_package')"


@pytest.mark.rows(1)
@pytest.mark.parametrize("body", [IN_TEST, IN_FIXTURE, OF_MODULE, BY_MARK, BY_PYTEST])
def test_skip_is_a_failure_where_the_extra_is_installed(outcomes: Outcomes, body: str) -> None:
    assert outcomes(body, None).get("skipped") == 1
    refused = outcomes(body, "dev,mteb")
    assert "skipped" not in refused
    assert refused.get("failed", refused.get("error")) == 1


@pytest.mark.slow
def test_skip_for_an_extra_that_was_left_out_is_none(outcomes: Outcomes) -> None:
    assert outcomes(IN_TEST, "dev,ray").get("skipped") == 1
    assert outcomes(OF_MODULE, "dev,ray").get("skipped") == 1


def test_further_package_is_needed_only_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "find_spec", lambda name: None)
    with pytest.raises(pytest.skip.Exception, match="needs the package spacy: pip install spacy") as skip:
        needs.package("spacy")
    assert needs.is_allowed(str(skip.value.msg), ["dev"])
    assert not needs.is_allowed(str(skip.value.msg), ["dev", "spacy"])


@pytest.mark.parametrize("can_install", [False, True])
def test_browser_and_cluster_may_lack_only_where_they_cannot_be_installed(
    monkeypatch: pytest.MonkeyPatch, can_install: bool
) -> None:
    monkeypatch.setattr(needs, "can_install", lambda: can_install)
    monkeypatch.setattr(needs.shutil, "which", lambda name: None)
    with pytest.raises(pytest.skip.Exception) as browser:
        needs.browser()
    with pytest.raises(pytest.skip.Exception) as cluster:
        needs.slurm("munge is missing,\nand this is no Debian")
    for reason in (browser.value.msg, cluster.value.msg):
        assert reason is not None
        assert needs.is_allowed(reason, ["dev"]) is not can_install


def test_gpus_and_processors_are_never_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "can_install", lambda: True)
    allowed = ["needs a GPU", "needs a processor with AMX", "the processor has no avx512_bf16"]
    assert all(needs.is_allowed(reason, ["dev"]) for reason in allowed)
    assert not needs.is_allowed("needs a GPU that is free", ["dev"])


def test_page_says_where_each_reason_runs() -> None:
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", CONTRIBUTING, re.MULTILINE))
    for pattern, where in {**needs.NOT_INSTALLABLE, **needs.FROM_DEBIAN}.items():
        places = {place for names, place in rows.items() for name in re.findall("`([^`]+)`", names)
                  if re.fullmatch(pattern, name)}  # fmt: skip
        assert places == {where}, pattern


def test_every_extra_is_installed_somewhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (every,) = re.findall(r"^EVERY_EXTRA = (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert sorted(every.split(",")) == sorted(project["optional-dependencies"])
    assert set(needs.EXTRAS.values()) <= set(every.split(","))
    (in_ci,) = re.findall(r"^extras=(\S+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert set(needs.EXTRAS.values()) == {*in_ci.split(","), "lmms-eval", "ray"}, "the two are for test-all"
    (further,) = re.findall(r"^further=(\S+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert further == re.findall(r" FURTHER=(\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[0]
    assert further == " ".join(needs.FURTHER)
