"""The pages as `make docs` builds them: without a warning, in six groups, and with a search that needs no server."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT
from tests.report.browser import running_browser
from tests.support import needs

GROUPS = ["Start here", "Data", "Training", "Measuring", "Comparing", "Machines", "Extending"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs.package("material")
    folder = tmp_path_factory.mktemp("pages") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_pages_build_without_a_warning_and_ask_for_nothing_outside(site: Path) -> None:
    reference = (site / "reference" / "optimizer.html").read_text()
    assert "optimizer.layer_decay" in reference
    assert "learning rate to that of the layer above it" in reference
    outside = r"""<(?:script|link|img|iframe)[^>]*(?:src|href)=["']?(?:https?:)?//(?!squidfunk)[^"'> ]*"""
    for page in site.rglob("*.html"):
        assert not re.findall(outside, page.read_text()), page


def test_search_finds_a_page_that_is_opened_from_disk(site: Path) -> None:
    with running_browser() as browser:
        tab = browser.new_page()
        requests: list[str] = []
        tab.on("request", lambda request: requests.append(request.url))
        tab.goto(f"file://{site}/tutorials/mlm.html")
        tab.click("input.md-search__input")
        tab.keyboard.type("loss spikes", delay=20)
        found = tab.locator(".md-search-result__item").filter(has_text="When it fails").first
        found.wait_for(timeout=20_000)
        assert "troubleshooting.html" in found.locator("a").first.get_attribute("href")
    assert [url for url in requests if not url.startswith(("file://", "data:"))] == []


def test_every_page_is_in_one_of_the_groups() -> None:
    """At most 42 pages, so that each is found; what is generated stands behind them."""
    navigation = yaml.safe_load(re.sub(r"!\S*", "", (ROOT / "mkdocs.yml").read_text()))["nav"]
    groups = {title: pages for entry in navigation for title, pages in entry.items()}
    assert list(groups) == [*GROUPS, "Configuration"]
    listed = [page for name in GROUPS for entry in groups[name] for page in entry.values()]
    there = {
        str(page.relative_to(ROOT / "docs"))
        for page in (ROOT / "docs").rglob("*.md")
        if "examples" not in page.parts
    }
    assert sorted(listed) == sorted(there)
    assert len(listed) <= 42
    assert (ROOT / "README.md").stat().st_size <= 9000
