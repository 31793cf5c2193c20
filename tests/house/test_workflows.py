"""Workflows, templates of issues and the lock file: well formed, and in step with what they name."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.conftest import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TARGETS = re.findall(r"^([$()A-Za-z0-9_./-]+):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE)

INDEX = "https://download.pytorch.org/whl/cpu"
"""Where torch without CUDA is."""


def load(path: Path) -> Any:
    return yaml.load(path.read_text(), yaml.BaseLoader)  # in YAML 1.1 the word `on` is true


def jobs() -> list[Any]:
    return [pytest.param(job, id=f"{p.stem}-{n}") for p in WORKFLOWS for n, job in load(p)["jobs"].items()]


def run_python(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)


def assert_target(name: str) -> None:
    assert name in TARGETS or name.replace(".venv", "$(VENV)") in TARGETS or name == ".venv/.ready", name


def test_there_is_a_workflow_for_each_purpose() -> None:
    assert [path.stem for path in WORKFLOWS] == ["check", "docs", "newest", "release"]
    assert "schedule" in load(GITHUB / "workflows" / "newest.yml")["on"]
    assert load(GITHUB / "workflows" / "release.yml")["on"] == {"push": {"tags": ["v*"]}}


@pytest.mark.parametrize("job", jobs())
def test_job_names_what_exists(job: Any) -> None:
    assert job["runs-on"] == "ubuntu-latest"
    for step in job["steps"]:
        assert ("uses" in step) != ("run" in step)
        assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+)", step.get("uses", "a/b@v1"))
        command = step.get("run", "")
        for target in re.findall(r"\bmake ([\w-]+)", command):
            assert_target(target)
        for name in re.findall(r"(?<!\S)(\.ci/[\w.]+)", command):
            assert (ROOT / name).exists(), name
        assert subprocess.run(["bash", "-n", "-c", command], check=False).returncode == 0


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_may_read_and_a_single_job_what_it_needs(path: Path) -> None:
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    allowed = {"publish": {"pages", "id-token"}, "page": {"contents"}}
    for name, job in workflow["jobs"].items():
        assert set(job.get("permissions", {})) <= allowed.get(name, set()), name
        for needed in [job["needs"]] if "needs" in job else []:
            assert needed in workflow["jobs"]
        env = {**workflow.get("env", {}), **job.get("env", {})}
        assert env.get("PIP_EXTRA_INDEX_URL", INDEX) == INDEX
    assert "secrets." not in path.read_text(), "a release is trusted, and has no token"


def test_oldest_and_newest_python_are_tested() -> None:
    admitted = SpecifierSet(PROJECT["requires-python"])
    cells = load(GITHUB / "workflows" / "check.yml")["jobs"]["tests"]["strategy"]["matrix"]["include"]
    oldest, newest = (next(c for c in cells if c["versions"] == each) for each in ("oldest", "newest"))
    assert oldest["python"] in admitted
    assert not admitted.contains("3.10")
    assert newest["constraint"] == ".ci/constraints.txt"
    assert oldest["constraint"] == "oldest.txt", "which .ci/oldest.py writes"
    nightly = load(GITHUB / "workflows" / "newest.yml")["jobs"]["tests"]
    assert nightly["strategy"]["matrix"]["python"] == [oldest["python"], newest["python"]]
    assert [step["run"] for step in nightly["steps"] if "make" in step.get("run", "")] == [
        "make test PIP_CONSTRAINT=",
        "make test-bf16 PIP_CONSTRAINT=",
    ]


def test_extras_and_pre_releases_of_hydra_are_tried_each_week() -> None:
    workflow = load(GITHUB / "workflows" / "newest.yml")
    nightly, weekly = (each["cron"] for each in workflow["on"]["schedule"])
    assert nightly.endswith("* * *")
    assert weekly.endswith("* * 0")
    for name in ("extras", "hydra"):
        assert workflow["jobs"][name]["if"] == f"github.event.schedule != '{nightly}'"
    cells = workflow["jobs"]["extras"]["strategy"]["matrix"]["include"]
    assert {cell["extra"] for cell in cells} == {"ray", "mteb", "signing", "lmms-eval"}
    for cell in cells:
        assert cell["extra"] in PROJECT["optional-dependencies"]
        assert all((ROOT / path).exists() for path in cell["tests"].split()), cell
    (upgrade,) = (
        step["run"] for step in workflow["jobs"]["hydra"]["steps"] if "--pre" in step.get("run", "")
    )
    assert {"hydra-core", "omegaconf"} <= set(upgrade.split())


def test_oldest_versions_are_the_lower_bounds() -> None:
    printed = dict(line.split("==") for line in run_python(".ci/oldest.py").stdout.split())
    needed = [Requirement(line) for line in PROJECT["dependencies"]]
    assert {each.name for each in needed} <= set(printed)
    assert all(each.specifier.contains(printed[each.name]) for each in needed)
    assert printed["torch"] == "2.10"
    assert "pytest" not in printed


def test_release_has_the_notes_of_its_version() -> None:
    version = PROJECT["version"]
    done = run_python(".ci/release_notes.py", f"v{version}")
    assert done.returncode == 0, done.stderr
    assert "### Added" in done.stdout
    assert "\n## " not in done.stdout
    wrong = run_python(".ci/release_notes.py", "v9.9.9")
    assert wrong.returncode == 1
    assert wrong.stderr == f"the tag is v9.9.9, and pyproject.toml has the version {version}\n"


def test_version_is_the_same_everywhere() -> None:
    version = PROJECT["version"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == version
    assert re.findall(r"\btiryns:(\d[\d.]*)", (ROOT / "docs" / "clusters.md").read_text()) == [version]
    (first, *_) = re.findall(r"^## (\d[\d.]*), ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first == version


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_form_of_an_issue_is_one_that_github_takes(path: Path) -> None:
    form = load(path)
    assert {"name", "description", "body"} <= set(form)
    assert all(part["type"] in ("textarea", "input", "dropdown", "markdown") for part in form["body"])
    assert all(part["attributes"]["label"] for part in form["body"])
    names = [part["id"] for part in form["body"]]
    assert len(set(names)) == len(names)
    assert any(part["validations"]["required"] == "true" for part in form["body"])


def test_forms_ask_for_what_a_report_needs() -> None:
    assert "tiryns doctor" in (GITHUB / "ISSUE_TEMPLATE" / "bug.yml").read_text()
    for target in re.findall(r"`make (\w+)`", (GITHUB / "pull_request_template.md").read_text()):
        assert_target(target)


def test_container_for_work_makes_the_environment() -> None:
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    python = re.search(r"python:(3\.\d+)", container["image"])
    assert python
    assert python[1] in SpecifierSet(PROJECT["requires-python"])
    make, target = container["postCreateCommand"].split()
    assert make == "make"
    assert_target(target)


def test_lock_is_of_this_project() -> None:
    """`make lock` makes it anew where this fails."""
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    (own,) = [package for package in lock["package"] if package["name"] == PROJECT["name"]]
    locked = {package["name"]: package["version"] for package in lock["package"] if "version" in package}
    assert own["version"] == PROJECT["version"]
    assert lock["requires-python"] == PROJECT["requires-python"]
    told = own["metadata"]["requires-dist"]
    needed = [Requirement(line) for line in PROJECT["dependencies"]]
    assert {(name_of(each), str(each.specifier)) for each in needed} == {
        (each["name"], str(SpecifierSet(each.get("specifier", "")))) for each in told if "marker" not in each
    }
    for extra, lines in PROJECT["optional-dependencies"].items():
        wanted = [Requirement(line) for line in lines]
        found = [each for each in told if each.get("marker") == f"extra == '{extra}'"]
        assert {name_of(each) for each in wanted} == {each["name"] for each in found}, extra
    assert all(each.specifier.contains(locked[name_of(each)]) for each in needed)
    (tested,) = re.findall(r"^torch==(\S+)$", (ROOT / ".ci" / "constraints.txt").read_text(), re.MULTILINE)
    assert locked["torch"] == tested
    assert set(re.findall(r"https?://([^/\"]+)/", (ROOT / "uv.lock").read_text())) == {
        "files.pythonhosted.org",
        "pypi.org",
    }


def test_one_line_starts_a_checkout() -> None:
    """`uvx --from . NAME` runs a script of the project in an environment of its own."""
    lines = re.findall(r"`uvx ([^`]+)`", (ROOT / "README.md").read_text())
    assert lines
    for line in lines:
        assert re.fullmatch(r"--torch-backend auto --from \. (\w+)( doctor)?", line)
        assert line.split()[4] in PROJECT["scripts"]


def name_of(requirement: Requirement) -> str:
    return re.sub(r"[-_.]+", "-", requirement.name).lower()
