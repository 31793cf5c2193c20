"""What readers see at once: text that stands out, whole words, numbers below each other, marks in their places."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.report.browser import DESK, PHONE, opened
from tests.report.pages import read


@pytest.mark.rows(2)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["run", "sweep", "judge"])
def test_text_stands_out_from_what_is_behind_it(
    browser: Any, pages: dict[str, Path], name: str, scheme: str
) -> None:
    """A contrast of 4.5, as WCAG 2.2 asks for (section 1.4.3), of every text with the colours behind it."""
    with opened(browser, pages[name], DESK, scheme) as tab:
        tab.evaluate("() => document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        found = tab.evaluate(CONTRASTS)
    assert len(found) > 20
    assert [each for each in found if each["contrast"] < 4.5] == []


CONTRASTS = """() => {
  const context = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d");
  const over = (colours) => {
    context.clearRect(0, 0, 1, 1);
    for (const colour of colours) { context.fillStyle = colour; context.fillRect(0, 0, 1, 1); }
    const parts = [...context.getImageData(0, 0, 1, 1).data].slice(0, 3).map((part) => part / 255);
    const [r, g, b] = parts.map((p) => (p <= 0.04045 ? p / 12.92 : ((p + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  return [...document.querySelectorAll("main *, footer")].filter((e) => e.checkVisibility() &&
    [...e.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())).map((e) => {
    const behind = [];
    for (let up = e; up; up = up.parentElement) behind.unshift(getComputedStyle(up).backgroundColor);
    const style = getComputedStyle(e), ink = e.closest("svg") ? style.fill : style.color;
    const [dim, bright] = [over(behind), over([...behind, ink])].sort((a, b) => a - b);
    return { text: e.textContent.slice(0, 40), ink, behind: behind.at(-1), contrast: (bright + 0.05) / (dim + 0.05) };
  });
}"""


BROKEN = """() => {
  const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT), found = [];
  const range = document.createRange();
  while (texts.nextNode()) {
    const { data, parentElement } = texts.currentNode;
    if (!parentElement.checkVisibility() || parentElement.closest("svg, pre:not(.command)")) continue;
    for (const { 0: word, index } of data.matchAll(/[\\p{L}\\d]{2,24}/gu)) {
      range.setStart(texts.currentNode, index);
      range.setEnd(texts.currentNode, index + word.length);
      if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1) found.push(word);
    }
  }
  return found;
}"""


@pytest.mark.rows(2)
@pytest.mark.parametrize("name", ["run", "sweep", "comparison", "folds", "judge"])
def test_no_word_is_broken_on_a_phone(browser: Any, pages: dict[str, Path], name: str) -> None:
    with opened(browser, pages[name], PHONE) as tab:
        tab.evaluate("() => document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        assert tab.evaluate(BROKEN) == []
        tab.add_style_tag(content="main * { word-break: break-all; }")
        assert tab.evaluate(BROKEN) != []


@pytest.mark.parametrize("width", [PHONE, pytest.param(DESK, marks=pytest.mark.slow)])
def test_forest_plot_has_the_numbers_of_the_answer_in_their_places(
    browser: Any, pages: dict[str, Path], width: int
) -> None:
    page = read(pages["judge"])
    ((_, zero, ticks, rows),) = page.of("forest")[0]["panels"]
    places = """() => [...document.querySelectorAll('.forest .strip')].map((strip) => {
      const { left, width } = strip.getBoundingClientRect(), at = (x) => (x - left) / width;
      const all = (kind) => [...strip.querySelectorAll(kind)].map((mark) => mark.getBoundingClientRect());
      return { width, right: left + width, pairs: all('.pair').map((box) => at(box.x + box.width / 2)),
        mean: all('.mean').map((box) => at(box.x + box.width / 2)), zero: all('.zero').map((box) => at(box.x)),
        ends: all('.ends').flatMap((box) => [at(box.x), at(box.right)]) };
    })"""
    with opened(browser, pages["judge"], width) as tab:
        shown = tab.evaluate(places)
        words = tab.locator(".forest").inner_text()
    assert len(shown) == len(rows) + 1, "the axis is below them"
    for (name, numbers, pairs, mean, ends), strip in zip(rows, shown, strict=False):
        assert 150 < strip["width"] < width
        assert strip["right"] < width
        assert strip["pairs"] == pytest.approx(pairs, abs=0.01)
        assert strip["mean"] == pytest.approx([mean], abs=0.01)
        assert strip["ends"] == pytest.approx(ends, abs=0.01)
        assert strip["zero"] == pytest.approx([zero], abs=0.01)
        assert name in words
        assert numbers in words
    assert all(text in words or text for _, text in ticks)
    zeros = [place for place, text in ticks if float(text) == 0]
    assert zeros == pytest.approx([zero])


RIGHTS = """() => [...document.querySelectorAll('table:not(.matrix)')].filter((table) => table.checkVisibility())
  .flatMap((table) => {
  const right = (cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return Math.round(cell.getBoundingClientRect().right - range.getBoundingClientRect().right);
  };
  return [...table.tBodies[0].rows].flatMap((row) => [...row.cells].slice(1).map((cell) => ({
    text: cell.textContent, right: right(cell), head: right(table.tHead.rows[0].cells[cell.cellIndex]) })));
})"""


@pytest.mark.rows(2)
@pytest.mark.parametrize("name", ["run", "sweep", "folds", "judge"])
def test_numbers_are_aligned_right_below_their_heads(browser: Any, pages: dict[str, Path], name: str) -> None:
    with opened(browser, pages[name]) as tab:
        cells = [
            each for each in tab.evaluate(RIGHTS) if re.fullmatch(r"[+-]?\d[\d.,]*(e-?\d+)?", each["text"])
        ]
    assert len(cells) > 5
    assert {(each["right"], each["head"]) for each in cells} == {(14, 14)}, "the padding of cells"
