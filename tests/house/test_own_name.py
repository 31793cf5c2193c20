"""What a user is told to install is this distribution or one of its dependencies, never a stranger's package."""

import re
import tomllib
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PLACES = [
    *("README.md", "CONTRIBUTING.md", "Makefile", ".ci", ".devcontainer", ".github"),
    *("conf", "docs", "hydra_plugins", "runner", "tiryns"),
]
COMMAND = re.compile(r"\b(pip3? install|uv add|uv pip install|uv tool install|uvx)\s+([^`#&|\"()]*)")
NAME = re.compile(r"[A-Za-z0-9][\w.-]*(?:\[[\w,-]+\])?(?:[<>=!~]=\S+)?")
TAKES_A_VALUE = ("--index-url", "--torch-backend", "--wheel-dir", "--from")
OF_ITS_OWN = {"uv"}
"""A tool that `make lock` installs where it is needed."""


def installed_by(line: str) -> Iterator[str]:
    """The packages that the commands in a line take from an index, as they are typed."""
    for command, rest in COMMAND.findall(line):
        words = re.findall(r"[^\s']+", rest.split("\\n")[0])
        for before, word in zip(["", *words], words, strict=False):
            if (
                word.startswith(("-", ".", "$", "{"))
                or before in TAKES_A_VALUE
                or "/" in word
                or ".whl" in word
            ):
                continue
            if not (name := NAME.match(word)):
                break
            yield name[0].rstrip(".")
            if command == "uvx" or word.endswith((",", ".", ":", ";")):
                break  # what follows is an argument of the package, or prose


def own_names() -> set[str]:
    """This distribution and everything that its pyproject.toml names."""
    project = PROJECT["project"]
    needed = [*project["dependencies"], *PROJECT["build-system"]["requires"]]
    needed += [line for lines in project["optional-dependencies"].values() for line in lines]
    return {project["name"], *(canonicalize_name(Requirement(line).name) for line in needed)}


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("pip install 'stranger[search]'", ["stranger[search]"]),
        ("needs it: pip install stranger, or else", ["stranger"]),
        ("uvx --torch-backend auto --from . tiryns", ["tiryns"]),
        ("`pip install torch==2.13.0 'tiryns[mteb]'`. With the", ["torch==2.13.0", "tiryns[mteb]"]),
        ("pip install -e '.[dev]' && pytest", []),
        ("pip install --no-cache-dir /wheels/*.whl && rm -r /wheels", []),
        ("pip install torch --index-url https://download.pytorch.org/whl/cpu", ["torch"]),
    ],
)
def test_commands_are_read(line: str, names: list[str]) -> None:
    assert [*installed_by(line)] == names


def test_commands_install_this_project_and_its_dependencies_alone() -> None:
    known, named, strangers = own_names() | OF_ITS_OWN, set(), []
    for place in PLACES:
        path = ROOT / place
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            if not file.is_file() or file.suffix in (".pyc", ".png", ".svg"):
                continue
            for number, line in enumerate(file.read_text().splitlines(), 1):
                for word in installed_by(line):
                    name = canonicalize_name(re.split(r"[\[<>=!~]", word)[0])
                    named.add(name)
                    if name not in known:
                        strangers.append(f"{file.relative_to(ROOT)}:{number}: {word}")
    assert strangers == []
    assert {"tiryns", "torch"} <= named
