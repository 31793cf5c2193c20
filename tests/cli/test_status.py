"""Exit statuses: those that `docs/commands.md` explains, and no others."""

import re

from tests.conftest import ROOT
from tiryns.runner.run.command import status

NUMBERS = {name: value for name, value in vars(status).items() if isinstance(value, int)}


def test_page_has_each_number_once() -> None:
    page = (ROOT / "docs" / "commands.md").read_text().partition("\n## Exit statuses\n")[2]
    rows = re.findall(r"^\| ([\d, ]+) \|", page, re.MULTILINE)
    assert sorted(int(number) for row in rows for number in row.split(",")) == sorted(NUMBERS.values())


def test_no_module_ends_with_a_number_of_its_own() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for top in ("runner", "hydra_plugins")
        for path in (ROOT / top).rglob("*.py")
        for line in path.read_text().splitlines()
        if re.search(r"(?:\bexit|_exit|SystemExit)\(\d|EXIT\w* = \d", line)
    ]
    assert not found
