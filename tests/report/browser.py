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


DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""Waits until the charts are drawn anew in the size that the page has given them, after the next frame."""


@contextmanager
def opened(browser: Any, page: Path, width: int = DESK, scheme: str = "light") -> Iterator[Any]:
    """Shows a page in the browser's one tab; fails when its script does, or when it asks for anything but itself."""
    tab = browser.contexts[0].pages[0] if browser.contexts else browser.new_page()
    errors: list[str] = []
    requests: list[str] = []
    listeners = {
        "pageerror": lambda error: errors.append(str(error)),
        "console": lambda message: errors.append(message.text) if message.type == "error" else None,
        "request": lambda request: requests.append(request.url),
    }
    for event, listener in listeners.items():
        tab.on(event, listener)
    tab.set_viewport_size({"width": width, "height": 900})
    tab.emulate_media(media="screen", color_scheme=scheme)
    tab.goto(f"file://{page}")
    tab.evaluate(DRAWN)
    try:
        yield tab
    finally:
        for event, listener in listeners.items():
            tab.remove_listener(event, listener)
    assert errors == []
    assert requests == [f"file://{page}"]
