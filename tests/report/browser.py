"""A real browser to look at pages with, shared by the tests of a module."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support import needs

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]

PHONE, DESK = 390, 1440
"""Widths in pixels."""


@contextmanager
def running_browser() -> Iterator[Any]:
    """A headless browser; the test is skipped where there is none."""
    program = needs.browser()
    driver = needs.package("playwright.sync_api")
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def opened(browser: Any, page: Path, width: int = DESK, scheme: str = "light") -> Iterator[Any]:
    """A page as it is shown; fails when its script does, or when it asks for anything but itself."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab = context.new_page()
    errors: list[str] = []
    requests: list[str] = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(f"file://{page}")
    yield tab
    context.close()
    assert errors == []
    assert requests == [f"file://{page}"]
