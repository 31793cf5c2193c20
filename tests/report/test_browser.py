import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from runner.report import write_comparison, write_report
from runner.report.runs import load_run
from runner.report.svg import SCALE
from tests.report.pages import Page, make_run, read, sweep

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


def in_browser(page: Path, script: str, width: int, tmp_path: Path) -> dict[str, Any]:
    """What `script` finds in a page that a real browser shows, `width` pixels wide."""
    frame, outer = page.with_name("frame.html"), page.with_name("outer.html")
    frame.write_text(
        page.read_text().replace("</body>", f"<script>found = () => {{ {script} }}</script></body>")
    )
    outer.write_text(
        f'<title></title><iframe src="frame.html" style="width: {width}px; height: 900px; border: 0"></iframe>'
        "<script>onload = () => { document.title = JSON.stringify(frames[0].found()); }</script>"
    )
    flags = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    )
    flags += (
        "--disable-component-update --disable-sync --allow-file-access-from-files --window-size=1600,1000 "
    )
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    command = [str(BROWSER), *flags.split(), profile, "--dump-dom", f"file://{outer}"]
    dom = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return json.loads(Page(dom).texts("title")[0])


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
@pytest.mark.parametrize("width", [390, 1440])
def test_nothing_runs_over_the_page(tmp_path: Path, width: int) -> None:
    runs = sweep(tmp_path / "sweep")
    script = """
      const wide = [...document.querySelectorAll("body *")].filter((e) => !e.closest(".scroll, svg") &&
        e.getBoundingClientRect().right > innerWidth + 1);
      return { page: document.documentElement.scrollWidth, window: innerWidth, wide: wide.map((e) => e.className) };
    """
    for page in (write_report(runs[0]), write_comparison(tmp_path / "sweep", runs)):
        found = in_browser(page, script, width, tmp_path)
        assert found["window"] == width
        assert found["page"] <= width
        assert found["wide"] == []


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
def test_values_are_read_out_and_charts_zoom_together(tmp_path: Path) -> None:
    page = write_report(make_run(tmp_path / "a"))
    script = """
      const area = document.querySelector(".area"), box = area.getBoundingClientRect();
      area.setPointerCapture = () => {};
      const send = (kind, at) => area.dispatchEvent(new PointerEvent(kind, { pointerType: "mouse", button: 0,
        clientX: box.left + at * box.width, clientY: box.top + 20, bubbles: true }));
      const views = () => [...document.querySelectorAll("svg")].map((svg) => svg.getAttribute("viewBox"));
      send("pointermove", 0.5);
      const tip = document.querySelector(".tip").innerText, before = views();
      send("pointerdown", 0.25); send("pointermove", 0.5); send("pointerup", 0.5);
      const zoomed = views(), ticks = [...document.querySelectorAll(".xs")].map((e) => e.innerText);
      document.querySelector(".reset").click();
      return { tip, before, zoomed, ticks, after: views() };
    """
    found = in_browser(page, script, 1440, tmp_path)
    lines = found["tip"].split()
    curves = read(page).charts["Loss"]["curves"]
    step = int(lines[1])
    assert str(float(f"{curves[0]['y'][curves[0]['x'].index(step)]:.4g}")) in lines
    assert all(view.startswith("2500 ") and view.split()[2] == "2500" for view in found["zoomed"])
    assert found["after"] == found["before"] == [f"0 0 {SCALE} {SCALE}"] * len(found["before"])
    assert len(set(found["ticks"])) == 1


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
def test_table_is_sorted_by_a_click(tmp_path: Path) -> None:
    runs = sweep(tmp_path / "sweep")
    script = """
      const heads = [...document.querySelectorAll("table")][0].querySelectorAll("th button");
      const order = () => [...document.querySelectorAll("tr[data-run]")].map((row) => Number(row.dataset.run));
      heads[5].click();
      const up = order();
      heads[5].click();
      return { up, down: order(), marked: heads[5].closest("th").getAttribute("aria-sort") };
    """
    found = in_browser(write_comparison(tmp_path / "sweep", runs), script, 1440, tmp_path)
    finals = [load_run(run).final("objective") or 0.0 for run in runs]
    assert found["up"] == sorted(range(5), key=finals.__getitem__)
    assert found["down"] == found["up"][::-1]
    assert found["marked"] == "descending"
