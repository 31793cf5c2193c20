"""The functions that ship with Python, as documents."""

import pytest

from tiryns.runner.data.demo.stdlib_text import SHORTEST, Stdlib, StdlibCode, StdlibText, functions

MODULE = '''
"""About the module."""

class Heron:
    """About herons."""

    def watch(self, river):
        """Watches.

        For long.
        """
        return river

    async def fly(self): return 1

@cached
def alone():
    inner = 3
    def within(): pass
'''


def test_functions_and_methods_come_without_docstrings() -> None:
    assert list(functions(MODULE.encode())) == [
        "def watch(self, river):\n    return river",
        "async def fly(self): return 1",
        "def alone():\n    inner = 3\n    def within(): pass",
    ]
    assert list(functions(b"def broken(:\n")) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "number", "size"), [(StdlibCode, 10_000, 4_000_000), (StdlibText, 5000, 1_500_000)]
)
def test_there_are_megabytes_of_documents(kind: type[Stdlib], number: int, size: int) -> None:
    documents = list(kind().documents())
    assert len(documents) > number
    assert sum(map(len, documents)) > size
    assert len(set(documents)) == len(documents)
    assert min(map(len, documents)) >= SHORTEST
    assert StdlibCode().fingerprint() != StdlibText().fingerprint()
    assert StdlibCode().describe().startswith("source code of Python ")
