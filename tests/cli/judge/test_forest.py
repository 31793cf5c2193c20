"""The page of `tiryns judge`, and `--figure FILE`: a forest plot of the numbers of the answer, as svg and as pdf."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.judge.folders import KEY, make_sweep
from tests.cli.judge.test_answers import BASE, BETTER, MUON, judged, refused
from tests.report.pages import read

SVG = "{http://www.w3.org/2000/svg}"
WORSE = [base + 0.05 for base in BASE]


@pytest.fixture
def swept(tmp_path: Path) -> Path:
    settings = {"optimizer=adamw": BASE, "optimizer=muon": BETTER, "optimizer=lion": WORSE}
    make_sweep(tmp_path / "sweep", settings)
    return tmp_path


def test_marks_are_the_numbers_of_the_answer(swept: Path) -> None:
    found = judged(swept, "sweep", *MUON, "--change", "optimizer=lion", "--figure", "paper.svg")
    assert found["figure"] == "paper.svg"
    drawn = ElementTree.parse(swept / "paper.svg").getroot()
    texts = {text.text: float(text.get("x", 0)) for text in drawn.iter(f"{SVG}text")}
    ticks = {float(words): x for words, x in texts.items() if words and re.fullmatch(r"-?[\d.]+", words)}
    (low, left), (high, right) = min(ticks.items()), max(ticks.items())
    dots = [(float(dot.get("cx", 0)), float(dot.get("r", 0))) for dot in drawn.iter(f"{SVG}circle")]
    of_value = [(low + (x - left) * (high - low) / (right - left), radius) for x, radius in dots]
    pairs = [pair["difference"] for each in found["comparisons"] for pair in each["pairs"]]
    means = [each["difference"] for each in found["comparisons"]]
    assert sorted(v for v, radius in of_value if radius < 2) == pytest.approx(sorted(pairs), abs=1e-4)
    assert [v for v, radius in of_value if radius > 2] == pytest.approx(means, abs=1e-4)
    first = found["comparisons"][0]
    assert f"-0.1, 97.5 % in [-0.12, -0.08], 8 pairs, p {first['p_corrected']:.3g}" in texts
    assert "p is corrected for 2 comparisons" in texts
    assert {"optimizer=muon", "optimizer=lion"} <= texts.keys()
    assert "Validation loss minus that of optimizer=adamw (smaller is better)" in texts


def test_pdf_has_the_same_words_and_a_table_of_its_objects(swept: Path) -> None:
    judged(swept, "sweep", *MUON, "--figure", "paper.pdf")
    file = (swept / "paper.pdf").read_bytes()
    start = int(file.rsplit(b"startxref\n", 1)[1].split()[0])
    assert file[start:].startswith(b"xref\n0 6\n")
    places = [int(line[:10]) for line in file[start:].splitlines()[3:8]]
    assert [file[place:].split(b" ", 1)[0] for place in places] == [b"%d" % n for n in range(1, 6)]
    length = int(file[places[3] :].split(b"/Length ")[1].split()[0])
    assert b"corrected" not in file
    content = file[places[3] :].split(b"stream\n", 1)[1][:length]
    assert content.endswith(b"Tj ET")
    assert b"\\(smaller is better\\)) Tj" in content
    assert b"(optimizer=muon) Tj" in content


def test_other_endings_are_refused_before_anything_is_trained(swept: Path) -> None:
    said = refused(swept, "sweep", *MUON, "--figure", "paper.png")
    assert "--figure paper.png: expected a file that ends with .svg or .pdf" in said
    (swept / "mine.svg").write_text("mine")
    assert "'mine.svg' is there" in refused(swept, "sweep", *MUON, "--figure", "mine.svg")
    assert (swept / "mine.svg").read_text() == "mine"


@pytest.mark.slow
def test_each_question_has_a_page_and_the_same_one_again_its_own(tmp_path: Path) -> None:
    settings = {"optimizer=adamw": BASE, "optimizer=muon": BETTER, "optimizer=lion": BETTER}
    make_sweep(tmp_path / "all", settings)
    both = ["--change", "optimizer=lion"]
    questions: list[list[str]] = [both, [], ["--metric", KEY], [], both]
    pages = [Path(judged(tmp_path, "all", *MUON, *more)["page"]).name for more in questions]
    assert pages == ["judge.html", "judge-2.html", "judge-3.html", "judge-2.html", "judge.html"]
    assert "optimizer=lion is better" in read(tmp_path / "all" / "judge.html").text
    assert "optimizer=lion" not in read(tmp_path / "all" / "judge-2.html").text
