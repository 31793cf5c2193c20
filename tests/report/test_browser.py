"""The pages in a real browser: on a phone and on a desk, in light and dark, zoomed, sorted, searched and printed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.report.browser import DESK, PHONE, opened, running_browser
from tests.report.pages import make_run, read, sweep
from tiryns.runner.report.comparison.pages import write_comparison
from tiryns.runner.report.runs import load_run
from tiryns.runner.report.single import write_report
from tiryns.runner.report.svg import SCALE

TOO_WIDE = """() => [...document.querySelectorAll("body *")].filter((e) => !e.closest(".scroll, svg") &&
  e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.className)"""

VIEWS = """() => [...document.querySelectorAll("svg")].map((svg) => svg.getAttribute("viewBox"))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with running_browser() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each kind: a run with everything in it, a long run, a sweep and a comparison."""
    folder = tmp_path_factory.mktemp("pages")
    runs = sweep(folder / "sweep")
    long = make_run(folder / "long", steps=10_000)
    return {
        "run": write_report(evaluated_run(folder / "run")),
        "long": write_report(long),
        "sweep": write_comparison(folder / "sweep", runs),
        "comparison": write_comparison(folder, [*runs[:2], long]),
    }


def evaluated_run(folder: Path) -> Path:
    """A run with an evaluation of 25 classes, 80 predictions and samples."""
    run = make_run(folder)
    labels = [f"a_class_of_some_length_{i}" for i in range(25)]
    figures = {"precision": 0.5, "recall": 0.25, "f1": 0.33, "support": 40}
    found = {
        "examples": 80,
        "metrics": {"accuracy": 0.75},
        "labels": labels,
        "confusion": [[30 if i == j else (i * j) % 3 for j in range(25)] for i in range(25)],
        "per_class": [{"label": label, **figures} for label in labels],
    }
    (run / "evaluation.json").write_text(json.dumps({"task": "x", "step": 1, "sets": {"val/held": found}}))
    rows = [
        {"set": "val/held", "id": i, "text": f"example {i} " + "some words " * 30, "gold": labels[i % 25],
         "predicted": labels[(i + i % 2) % 25], "probability": i / 80}
        for i in range(80)
    ]  # fmt: skip
    (run / "predictions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    guess = {"true": "bridge", "right": False, "guesses": [["river", 0.5], ["bridge", 0.25]]}
    (run / "samples.json").write_text(json.dumps({"books": [["the old ", guess, " runs on" * 40]]}))
    return run


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("name", ["run", "long", "sweep", "comparison"])
def test_nothing_runs_over_the_page(
    browser: Any, pages: dict[str, Path], name: str, width: int, scheme: str, tmp_path: Path
) -> None:
    with opened(browser, pages[name], width, scheme) as tab:
        tab.evaluate("() => document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        assert tab.evaluate("innerWidth") == width
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.evaluate(TOO_WIDE) == []
        tab.screenshot(path=tmp_path / "page.png")
    corner = np.asarray(Image.open(tmp_path / "page.png").convert("L"))[2, 2]
    assert (corner > 240) if scheme == "light" else (corner < 40)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(
    browser: Any, pages: dict[str, Path], scheme: str, tmp_path: Path
) -> None:
    """A contrast of 4.5, as WCAG 2.2 asks for (section 1.4.3)."""
    colours = """() => ["--ink", "--soft", "--good", "--bad", "--wait", "--c0", "--ground", "--panel"].map((name) =>
      getComputedStyle(document.documentElement).getPropertyValue(name).trim())"""
    with opened(browser, pages["run"], DESK, scheme) as tab:
        *inks, ground, panel = tab.evaluate(colours)
    for ink in inks:
        for paper in (ground, panel):
            bright, dim = sorted((luminance(ink), luminance(paper)), reverse=True)
            assert (bright + 0.05) / (dim + 0.05) >= 4.5, (ink, paper)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_values_are_read_out_and_charts_zoom_together(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["run"]) as tab:
        area = tab.locator(".area").first
        area.scroll_into_view_if_needed()  # a mouse reaches only what is in sight
        box = area.bounding_box()
        across = lambda share: box["x"] + share * box["width"]  # noqa: E731
        tab.mouse.move(across(0.5), box["y"] + 20)
        lines = tab.locator(".tip").first.inner_text().split()
        before = tab.evaluate(VIEWS)
        tab.mouse.move(across(0.25), box["y"] + 20)
        tab.mouse.down()
        tab.mouse.move(across(0.5), box["y"] + 20)
        tab.mouse.up()
        zoomed, ticks = tab.evaluate(VIEWS), tab.locator(".xs").all_inner_texts()
        tab.locator(".reset").first.click()
        after = tab.evaluate(VIEWS)
        tab.mouse.dblclick(across(0.5), box["y"] + 20)
    curves = read(pages["run"]).charts["Loss"]["curves"]
    assert str(float(f"{curves[0]['y'][curves[0]['x'].index(int(lines[1]))]:.4g}")) in lines
    lefts_and_widths = {(round(float(v.split()[0]), -2), round(float(v.split()[2]), -2)) for v in zoomed}
    assert lefts_and_widths == {(2500, 2500)}
    assert after == before == [f"0 0 {SCALE} {SCALE}"] * len(before)
    assert len(set(ticks)) == 1


def test_values_are_read_out_with_the_keyboard(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["run"]) as tab:
        tab.locator(".plot").first.focus()
        tab.keyboard.press("ArrowRight")
        assert tab.locator(".tip").first.inner_text().startswith("step 2")
        tab.keyboard.press("Escape")
        assert not tab.locator(".tip").first.is_visible()


def test_table_is_sorted_by_a_click(browser: Any, pages: dict[str, Path]) -> None:
    order = "() => [...document.querySelectorAll('tr[data-run]')].map((row) => Number(row.dataset.run))"
    with opened(browser, pages["sweep"]) as tab:
        runs_table = tab.locator("table").filter(has=tab.locator("tr[data-run]"))
        head = runs_table.locator("th button", has_text="best validation loss")
        head.click()
        up = tab.evaluate(order)
        head.click()
        down = tab.evaluate(order)
        assert head.locator("xpath=..").get_attribute("aria-sort") == "descending"
    runs = [pages["sweep"].parent / str(i) for i in range(5)]
    finals = [load_run(run).final("objective") or 0.0 for run in runs]
    assert up == sorted(range(5), key=finals.__getitem__)
    assert down == up[::-1]


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_predictions_are_browsed(browser: Any, pages: dict[str, Path], width: int) -> None:
    with opened(browser, pages["run"], width) as tab:
        tab.get_by_text("Predictions: 40 wrong, 40 right").click()
        rows = tab.locator(".browse tbody tr")
        shown = lambda: sum(row.is_visible() for row in rows.all())  # noqa: E731
        assert shown() == 80
        tab.get_by_label("only wrong").check()
        assert shown() == 40
        tab.get_by_label("find").fill("EXAMPLE 7")
        assert shown() == 6, "7, 71, 73, 75, 77, 79"
        assert tab.locator(".browse output").inner_text() == "6 shown"


def test_long_run_is_a_small_page_that_opens_at_once(browser: Any, pages: dict[str, Path]) -> None:
    assert pages["long"].stat().st_size < 2_000_000
    with opened(browser, pages["long"]) as tab:
        loaded = "() => performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
        assert tab.evaluate(loaded) < 5_000, "milliseconds, on a busy machine"


def test_print_is_light_and_shows_what_was_folded(
    browser: Any, pages: dict[str, Path], tmp_path: Path
) -> None:
    with opened(browser, pages["run"], DESK, "dark") as tab:
        tab.emulate_media(media="print", color_scheme="dark")
        tab.evaluate("() => dispatchEvent(new Event('beforeprint'))")
        assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert tab.locator(".browse").get_by_text("example 79").is_visible()
        assert not tab.get_by_label("only wrong").is_visible()
        pdf = tab.pdf(path=tmp_path / "page.pdf", format="A4")
    assert pdf.startswith(b"%PDF")
