"""The pages in a real browser: on a phone and on a desk, in light and dark, zoomed, sorted, searched and printed."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from tests.report.browser import DESK, PHONE, opened
from tests.report.pages import read
from tiryns.runner.run.folder import load_run

TOO_WIDE = """() => [...document.querySelectorAll("body *")].filter((e) => !e.closest(".scroll, svg") &&
  e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.className)"""

LINES = """() => [...document.querySelectorAll("path.line")].filter((path) => path.checkVisibility())
  .map((path) => path.getAttribute("d"))"""


@pytest.mark.rows(2)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("name", ["run", "long", "sweep", "comparison", "phases", "folds", "judge"])
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


def test_values_are_read_out_and_charts_zoom_together(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["run"]) as tab:
        area = tab.locator(".area").first
        area.scroll_into_view_if_needed()  # a mouse reaches only what is in sight
        box = area.bounding_box()
        across = lambda share: box["x"] + share * box["width"]  # noqa: E731
        tab.mouse.move(across(0.5), box["y"] + 20)
        lines = tab.locator(".tip").first.inner_text().split()
        before = tab.evaluate(LINES)
        tab.mouse.move(across(0.25), box["y"] + 20)
        tab.mouse.down()
        tab.mouse.move(across(0.5), box["y"] + 20)
        tab.mouse.up()
        zoomed, steps = tab.evaluate(LINES), tab.evaluate("() => charts.map((chart) => chart.x)")
        tab.get_by_role("button", name="whole run").first.click()
        after = tab.evaluate(LINES)
        tab.mouse.dblclick(across(0.5), box["y"] + 20)
    curve = read(pages["run"]).charts["Loss"]["curves"][0]
    assert str(float(f"{curve['values'][curve['steps'].index(int(lines[1]))]:.4g}")) in lines
    assert all(ends == pytest.approx([10, 20], abs=0.1) for ends in steps), "all charts, of 40 steps"
    assert after == before != zoomed


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


@pytest.mark.parametrize("width", [PHONE, pytest.param(DESK, marks=pytest.mark.slow)])
def test_predictions_are_browsed(browser: Any, pages: dict[str, Path], width: int) -> None:
    with opened(browser, pages["run"], width) as tab:
        tab.get_by_text("Predictions: 40 wrong, 40 right").click()
        rows = tab.locator("details .browse tbody tr")
        shown = lambda: sum(row.is_visible() for row in rows.all())  # noqa: E731
        assert shown() == 80
        tab.get_by_label("only wrong").check()
        assert shown() == 40
        tab.get_by_label("find").fill("EXAMPLE 7")
        assert shown() == 6, "7, 71, 73, 75, 77, 79"
        assert tab.locator(".find output").inner_text() == "6 shown"


def test_print_is_light_and_shows_what_was_folded(
    browser: Any, pages: dict[str, Path], tmp_path: Path
) -> None:
    with opened(browser, pages["run"], DESK, "dark") as tab:
        tab.emulate_media(media="print", color_scheme="dark")
        tab.evaluate("() => dispatchEvent(new Event('beforeprint'))")
        assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert tab.locator("details .browse").get_by_text("example 79").is_visible()
        assert not tab.get_by_label("only wrong").is_visible()
        pdf = tab.pdf(path=tmp_path / "page.pdf", format="A4")
    assert pdf.startswith(b"%PDF")


@pytest.mark.rows(3)
@pytest.mark.parametrize("name", ["run", "sweep", "comparison", "phases", "folds", "evil", "judge"])
def test_every_text_of_the_facts_is_shown(browser: Any, pages: dict[str, Path], name: str) -> None:
    page = read(pages[name])
    kinds = ("section", "details", "note", "problem", "label", "command", "pre")
    texts = [page.facts["name"], page.facts["state"], page.facts["error"], *page.facts["meta"], *page.heads]
    texts += [text for kind in kinds for text in page.texts(kind)]
    texts += [cell for table in page.tables for row in table.rows for cell in row if isinstance(cell, str)]
    texts += [text for tile in page.tiles for text in tile]
    texts += [text for pair in page.facts_shown.items() for text in pair if all(pair)]
    for title, chart in page.charts.items():
        texts += [title, chart["unit"], chart["note"], *(span[0] for span in chart["spans"])]
        texts += [f"{level} {value:.3f}" if value else level for level, value in chart["levels"].items()]
    wanted = [" ".join(text.split()) for text in texts if text]
    with opened(browser, pages[name]) as tab:
        shown = " ".join(tab.locator("main").text_content().split())
        assert [text for text in wanted if text not in shown] == []
        assert len(wanted) > 20
        assert tab.locator("img, iframe, object, main script").count() == 0


def test_picture_of_each_chart_is_saved_whole(browser: Any, pages: dict[str, Path], tmp_path: Path) -> None:
    with opened(browser, pages["phases"]) as tab:
        tab.get_by_text("More curves").click()
        for button in tab.locator("figcaption button", has_text="svg").all():
            with tab.expect_download() as saved:
                button.click()
            saved.value.save_as(tmp_path / saved.value.suggested_filename)
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["gradient-norm.svg", "learning-rate.svg", "loss.svg", "throughput.svg"]
    text = (tmp_path / "loss.svg").read_text()
    root = ElementTree.fromstring(text)
    texts = ["".join(part.itertext()) for part in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"Loss", "training", "validation", "unigram entropy 6.250", "40", "stablestable"} <= {*texts}
    paths = [
        part for part in root.iter("{http://www.w3.org/2000/svg}path") if "line" in part.get("class", "")
    ]
    colours = ["stroke: rgb(0, 114, 178)" in str(line.get("style")) for line in paths]
    assert colours == [True, False]
    assert "var(" not in text


def test_page_without_scripts_says_so_and_has_the_key_figures(browser: Any, pages: dict[str, Path]) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(f"file://{pages['run']}")
    shown = " ".join(tab.locator("body").inner_text().split())
    context.close()
    assert "scripts are off in this browser" in shown
    assert "Tokens per second 15,020 median" in shown


FRAME = r"""(datas) => datas.map((data) => {
  chartOf(data, spanOf([data]));
  const chart = charts.pop(), box = chart.svg.viewBox.baseVal;
  const paths = [...chart.svg.querySelectorAll("path.line, path.dots")].map((path) => path.getAttribute("d"));
  return { y: chart.y, log: chart.log, wide: box.width, tall: box.height, ticks: valueTicks(chart),
    points: paths.flatMap((d) => d.match(/-?[\d.]+ -?[\d.]+/g) ?? []).map((point) => point.split(" ").map(Number)),
    names: [...chart.svg.querySelectorAll(".tick.x")].map((text) => text.textContent) };
})"""


def chart_of(values: list[Any], **more: Any) -> dict[str, Any]:
    """A chart of one curve, as the facts of a page have it."""
    curve = {"label": "c", "steps": [*range(1, len(values) + 1)], "values": values, "colour": 0, "band": None}
    blank = {"title": "t", "unit": "", "note": "", "levels": {}, "ticks": {}, "spans": [], "across": "step"}
    curves = [{**curve, "dots": True, "run": 0, "faint": False}]
    return {**blank, "curves": curves, "from_zero": False, **more}


def test_every_point_is_drawn_inside_its_frame(browser: Any, pages: dict[str, Path]) -> None:
    random = np.random.default_rng(0)
    sizes = [10.0 ** random.integers(-9, 90, size=random.integers(1, 30)) for _ in range(60)]
    values = [(size * random.choice([1, 1, -1, 0], size=len(size))).tolist() for size in sizes]
    values += [(10.0 ** random.uniform(-9, 9, size=9)).tolist() for _ in range(60)]
    values += [[16.0, -1.0], [None], [3.0, 3.0], [2.0, None, 5.0]]
    charts = [chart_of(own, from_zero=bool(i % 2)) for i, own in enumerate(values)]
    with opened(browser, pages["run"]) as tab:
        found = tab.evaluate(FRAME, charts)
    for own, frame in zip(values, found, strict=True):
        known = [value for value in own if value is not None]
        assert len(frame["points"]) == 2 * len(known), "the line and its dots"
        assert all(0 <= x <= frame["wide"] and 0 <= y <= frame["tall"] for x, y in frame["points"])
        low, high = (10.0**end if frame["log"] else end for end in frame["y"])
        room = 1e-6 * (high - low)
        assert all(low - room <= value <= high + room for value in [*known, *frame["ticks"]])
        assert 1 <= len(frame["ticks"]) <= 12


def test_axes_are_those_that_the_values_ask_for(browser: Any, pages: dict[str, Path]) -> None:
    charts = [
        chart_of([6e4, 900.0, 50.0, 40.0]), chart_of([9.0, 5.0, 4.0, 3.0]), chart_of([900.0, 1.0, 0.0, 3.0]),
        chart_of([0.9, 1.0], highest=1.0), chart_of([1.0, 1.0], from_zero=True),
        chart_of([1.0, 2.0], ticks={"1": 0.001, "2": 0.01}, across="lr"),
    ]  # fmt: skip
    values = [0, 12000, 0.25, 1e-3, 2.5e-4, 1.5e6, 3e12]
    with opened(browser, pages["run"]) as tab:
        wide, narrow, zero, share, rate, named = tab.evaluate(FRAME, charts)
        labels = [tab.evaluate("(value) => label(value)", value) for value in values]
    assert [frame["log"] for frame in (wide, narrow, zero)] == [True, False, False]
    assert wide["ticks"] == [100, 1000, 10000]
    assert (share["y"][1], rate["y"][0]) == (1, 0)
    assert named["names"] == ["1e-3", "0.01"]
    assert labels == ["0", "12,000", "0.25", "1e-3", "2.5e-4", "1.5M", "3.0e12"]


def test_charts_share_their_steps_and_hide_phases_to_come(browser: Any, pages: dict[str, Path]) -> None:
    names = "() => [...document.querySelectorAll('.phase-name title')].map((title) => title.textContent)"
    with opened(browser, pages["phases"]) as tab:
        assert tab.evaluate("() => charts.map((chart) => chart.x)") == [[0, 40]] * 4
        assert tab.evaluate(names) == ["stable", "<long>"] * 4
        tab.evaluate("() => zoomAll([0, 20])")
        assert tab.evaluate(names) == ["stable"] * 4


def test_cells_of_a_confusion_matrix_have_their_share_of_the_true_class(
    browser: Any, pages: dict[str, Path]
) -> None:
    with opened(browser, pages["run"]) as tab:
        first = tab.locator(".matrix tbody tr").nth(1).locator("td")
        marks = first.evaluate_all(
            "(cells) => cells.map((c) => [c.title, c.style.getPropertyValue('--share'), c.className])"
        )
        counts = first.all_inner_texts()
    matrix = read(pages["run"]).of("matrix")[0]
    whole, names = sum(matrix["counts"][1]), matrix["labels"]
    assert counts == [str(count or "") for count in matrix["counts"][1]]
    assert [float(share) for _, share, _ in marks] == pytest.approx([c / whole for c in matrix["counts"][1]])
    assert [title for title, *_ in marks] == [f"{names[1]} as {name}" for name in names]
    assert ["right" in kind for *_, kind in marks] == [i == 1 for i in range(25)]
