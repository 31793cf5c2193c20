"""The program as a user has it: a wheel in an environment of its own, which knows nothing of this checkout.

`python -m tests.support.installed dist` tells whether the sdist and the wheel in `dist` hold what they should.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import NamedTuple

from tests.conftest import ROOT

SOURCES = ("conf", "runner", "hydra_plugins", "tiryns", "pyproject.toml", "README.md", "LICENSE")

AROUND = ("tests", "outputs", "docs", ".ci", ".github", ".devcontainer", "build", "dist")
"""Folders of a checkout that nobody installs."""

BUILD = (
    "import sys; from setuptools import build_meta; getattr(build_meta, 'build_' + sys.argv[1])(sys.argv[2])"
)


SCRIPT = """#!{python}
import sys
from {module} import {function}
if __name__ == "__main__":
    sys.exit({function}())
"""
"""What pip makes of an entry point."""


class Environment(NamedTuple):
    """A virtual environment with the libraries that the tests have, less this project."""

    folder: Path
    packages: Path

    def run(
        self, command: str, *words: str, cwd: Path, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs one of its programs, such as `tiryns` or `python`, without the paths of the tests."""
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environment
        return subprocess.run(
            [self.folder / "bin" / command, *words],
            cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=1200,
        )  # fmt: skip


def empty_environment(folder: Path) -> Environment:
    """Makes one; it borrows the libraries of the tests' own."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    # A folder that a .pth names is searched, its own .pth files are not: those would bring the editable install.
    (packages / "others.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    return Environment(folder, packages)


def install(wheel: Path, environment: Environment) -> None:
    """Does with a wheel what pip does, which would stumble over the borrowed libraries."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(environment.packages)
    (info,) = environment.packages.glob("tiryns-*.dist-info")
    (entry,) = PathDistribution(info).entry_points.select(group="console_scripts", name="tiryns")
    script, python = (environment.folder / "bin" / name for name in ("tiryns", "python"))
    script.write_text(SCRIPT.format(python=python, module=entry.module, function=entry.attr))
    script.chmod(0o755)


def install_project(source: Path, site: Path) -> str:
    """Installs a project that uses this one into the folder `site`; the PYTHONPATH with which both are found."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index",
               "--disable-pip-version-check", "--target", str(site), str(source)]  # fmt: skip
    environment = {**os.environ, "PIP_NO_CACHE_DIR": "1"}
    subprocess.run(command, check=True, env=environment, stderr=subprocess.DEVNULL)
    return os.pathsep.join([str(site), str(ROOT)])


def build(what: str, source: Path, target: Path) -> Path:
    """The sdist or the wheel of a source tree."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD, what, str(target)], cwd=source, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (built,) = target.glob("*.tar.gz" if what == "sdist" else "*.whl")
    return built


def checkout(folder: Path) -> Path:
    """A copy of what the program is built from, links and all."""
    folder.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def build_from_sdist(folder: Path) -> Path:
    """The wheel as a package index has it: made of what the sdist holds, which has no links."""
    sdist = build("sdist", checkout(folder / "checkout"), folder)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    return build("wheel", unpacked, folder)


def names_in(archive: Path) -> set[str]:
    """The files of a wheel, or of an sdist without the folder that they are in."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return set(wheel.namelist())
    with tarfile.open(archive) as sdist:
        return {member.name.partition("/")[2] for member in sdist if member.isfile()}


def program() -> set[str]:
    """Every file that the program needs, as a wheel names it."""
    found = {"tiryns/py.typed", "hydra_plugins/tiryns.py"}
    found |= {f"tiryns/{path.name}" for path in (ROOT / "tiryns").glob("*.py")}
    for folder in ("conf", "runner"):
        paths = [path.relative_to(ROOT) for path in (ROOT / folder).rglob("*") if path.is_file()]
        found |= {f"tiryns/{path}" for path in paths if "__pycache__" not in path.parts}
    return found


def mistakes(archive: Path) -> list[str]:
    """A line for each file of an sdist or a wheel that is missing or should not be there."""
    names, wheel = names_in(archive), archive.suffix == ".whl"
    outside = (*AROUND, "conf", "runner") if wheel else AROUND
    wrong = sorted(name for name in names if name.split("/")[0] in outside or "__pycache__" in name)
    lines = [f"{name} is missing" for name in sorted(program() - names)]
    lines += [f"{name} should not be there" for name in wrong]
    if not any(name.endswith(".dist-info/licenses/LICENSE" if wheel else "LICENSE") for name in names):
        lines.append("LICENSE is missing")
    return [f"{archive.name}: {line}" for line in lines]


def check(folder: Path) -> int:
    """Prints what is wrong with the sdist and the wheel in a folder, or how many files they have; the exit status."""
    built = [path for pattern in ("*.whl", "*.tar.gz") for path in folder.glob(pattern)]
    found = [line for archive in built for line in mistakes(archive)]
    if [archive.suffix for archive in built] != [".whl", ".gz"]:
        found.append(f"expected one wheel and one sdist in {folder}, found {len(built)} files")
    print(*(found or [f"{archive}: {len(names_in(archive))} files" for archive in built]), sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(check(Path(sys.argv[1])))
