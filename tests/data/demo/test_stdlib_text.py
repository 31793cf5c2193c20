"""The documentation that ships with Python, as documents."""

import sys
from pathlib import Path

import pytest

from tiryns.runner.data.demo import stdlib_text
from tiryns.runner.data.demo.stdlib_text import StdlibText, docstrings_in, source_files


@pytest.fixture
def some(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The documents of the files whose names begin with `a` or `t`."""
    files = [file for file in source_files() if file.name.startswith(("a", "t"))]
    monkeypatch.setattr(stdlib_text, "source_files", lambda: files)
    return list(StdlibText().documents())


def test_documents_are_topics_and_docstrings(some: list[str]) -> None:
    import textwrap

    assert any(text.startswith('The "assert" statement\n') for text in some)
    assert textwrap.indent.__doc__ is not None
    assert any(text.startswith(textwrap.indent.__doc__.splitlines()[0]) for text in some)
    assert not any(text.startswith((" ", "\n")) for text in some)
    assert not any("----" in text for text in some)


def test_they_come_in_the_order_of_paths_and_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdlib_text, "library", lambda: tmp_path)
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    for name in ("z/a.py", "b.py", "a.py", "test/x.py", "z/site-packages/y.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        text = f"Documentation of {name}, of more than thirty characters."
        twice = '"""  Twice the same, of more than thirty characters."""'
        (tmp_path / name).write_text(f'"""{text}"""\ndef f():\n    {twice}')
    documents = list(StdlibText().documents())
    assert [text.split()[2].rstrip(",") for text in documents if "Twice" not in text] == [
        "a.py",
        "b.py",
        "z/a.py",
    ]
    assert documents[1] == "Twice the same, of more than thirty characters."
    assert len(documents) == 4


def test_nothing_is_imported(some: list[str]) -> None:
    assert "antigravity" not in sys.modules
    assert "turtle" not in sys.modules


def test_the_fingerprint_is_found_without_reading() -> None:
    source = StdlibText()
    assert source.fingerprint() == StdlibText().fingerprint()
    assert "_documents" not in vars(source)


def test_the_fingerprint_changes_with_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module.py").write_text('"""Some words that are long enough to be a document."""')
    monkeypatch.setattr(stdlib_text, "library", lambda: tmp_path)
    first = StdlibText().fingerprint()
    assert any(text.startswith("Some words") for text in StdlibText().documents())
    (tmp_path / "other.py").write_text("")
    stdlib_text._listing.cache_clear()  # as in the next process
    assert StdlibText().fingerprint() != first


def test_a_python_without_sources_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdlib_text, "library", lambda: tmp_path)
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(FileNotFoundError, match=r"without the sources of its standard library.*data=files"):
        StdlibText().documents()


def test_docstrings_stand_in_the_order_of_the_source() -> None:
    source = b'"""Module."""\nclass A:\n    """A."""\n    async def f(self):\n        """f."""\ndef g():\n    """g."""\n'
    assert [text for _, text in docstrings_in(source)] == ["Module.", "A.", "f.", "g."]
    assert list(docstrings_in(b"def broken(:")) == []
