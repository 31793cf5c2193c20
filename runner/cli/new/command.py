"""`tiryns new NAME`: makes a project of your own, in a folder of that name.

It has an objective, a data source, a metric, an option and a recipe, which `tiryns` finds once the project is installed.
Its tests run in seconds. NAME may be a path; its last part names the project and, with `_` for `-`, its package.
"""

import json
import re
import sys
from argparse import ArgumentParser, Namespace
from importlib.metadata import distribution
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path

from tiryns.runner.run.command.json_output import print_json
from tiryns.runner.run.files import naming, staging

TEMPLATE = Path(__file__).parent / "project"
"""The files of a project called `my-project`, whose package is `my_project`."""

OURS = "tiryns @ file:///checkout"
"""Placeholder in the template for the requirement that `own_requirement` returns."""

HIDDEN = {"gitignore": ".gitignore"}
"""New names of template files in a project; a leading dot in the template would make them apply to this repository."""


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("folder", type=Path, metavar="NAME", help="such as my-project, or a path to it")


def main(arguments: Namespace) -> None:
    """Makes the project and prints what to do with it."""
    folder = arguments.folder
    files = make_project(folder)
    if arguments.json:
        print_json({"folder": folder, "package": package_of(folder), "files": files})
        return
    (commands,) = re.findall(
        r"^```sh\n(.*?)^```", (folder / "README.md").read_text(), re.MULTILINE | re.DOTALL
    )
    print(f"made {folder} of {len(files)} files; go on with\n", f"cd {folder}\n{commands}", sep="\n", end="")


def package_of(folder: Path) -> str:
    """Returns the name of a project's package; raises ValueError if it is invalid, or the name of a module."""
    name = folder.name
    package = name.replace("-", "_").lower()
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*(?:[-_][A-Za-z0-9]+)*", name) or iskeyword(package):
        rule = "a project's name has letters, digits, - and _, begins with a letter, and is no Python keyword"
        raise ValueError(f"tiryns new {name}: {rule}")
    if package in sys.stdlib_module_names or find_spec(package):
        raise ValueError(f"tiryns new {name}: there is a module {package} already; choose another name")
    return package


def make_project(folder: Path) -> list[str]:
    """Writes the files of a project, all or none, and returns their names; raises ValueError or OSError."""
    package, requires, files = package_of(folder), own_requirement(), dict[str, str]()
    for path in TEMPLATE.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            place = path.relative_to(TEMPLATE)
            name = str(place.with_name(HIDDEN.get(place.name, place.name)))
            text = path.read_text(encoding="utf-8").replace("my-project", folder.name).replace(OURS, requires)
            files[name.replace("my_project", package)] = text.replace("my_project", package)
    if folder.exists() or folder.is_symlink():
        problem = "it is there already, and nothing was changed; give another name"
        raise FileExistsError(f"tiryns new {folder}: {problem}")
    with naming(folder), staging(folder) as partial:
        for name, text in files.items():
            target = partial / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    return sorted(files)


def own_requirement() -> str:
    """Returns a project's requirement of tiryns: a released version, else the wheel, folder or commit of this program."""
    checkout = Path(__file__).resolve().parents[3]
    if (checkout / "pyproject.toml").is_file():
        return f"tiryns @ {checkout.as_uri()}"
    program = distribution("tiryns")
    # PEP 610: none for a package of an index
    origin = json.loads(program.read_text("direct_url.json") or "{}")
    if not origin:
        return f"tiryns>={program.version}"
    if commit := origin.get("vcs_info"):
        return f"tiryns @ {commit['vcs']}+{origin['url']}@{commit['commit_id']}"
    return f"tiryns @ {origin['url']}"
