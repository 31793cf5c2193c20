"""Files of data, weights and chat templates of others: one line says what is wrong and where, in bounded memory."""

import gzip
import io
import json
import os
import signal
import struct
import tarfile
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers import AutoModelForMaskedLM

from tiryns.runner.config.loading import cannot_load, from_pretrained
from tiryns.runner.data.read.documents import open_source
from tiryns.runner.data.vision import chat_templates
from tiryns.runner.data.vision.chat_templates import render_chat
from tiryns.runner.data.vision.conversation_encoder import PLAIN_TEMPLATE


def archive(*members: tuple[str, str | None]) -> bytes:
    """A tar file with members, some of which are links."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for name, link in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = (tarfile.SYMTYPE, link) if link else (tarfile.REGTYPE, "")
            info.size = 0 if link else 4
            tar.addfile(info, None if link else io.BytesIO(b"evil"))
    return content.getvalue()


def zipped(name: str, content: bytes) -> bytes:
    """A zip file with one member."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(name, content)
    return made.getvalue()


def parquet(values: Any) -> bytes:
    """A parquet file with a column of text."""
    made = io.BytesIO()
    pq.write_table(pa.table({"text": values}), made)
    return made.getvalue()


UUIDS = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16] * 3, pa.binary(16)))
PACK = "has an unknown format"
LONG = gzip.compress(b"a" * (1 << 26), 1)

FILES: dict[str, tuple[bytes, str]] = {
    "link.tar": (archive(("a.txt", "/etc/passwd")), PACK),
    "upwards.tar": (archive(("../up.txt", None)), PACK),
    "absolute.tar": (archive(("/tmp/pwned", None)), PACK),
    "link.tar.gz": (gzip.compress(archive(("a.txt", "/etc/passwd"))), PACK),
    "bomb.zip": (zipped("a.txt", bytes(1 << 24)), PACK),
    "upwards.zip": (zipped("../../pwned", b"evil"), PACK),
    "bomb.txt.gz": (LONG, "holds a line of more than 33,554,432 characters"),
    "bomb.jsonl.gz": (LONG, "holds a line of more than 33,554,432 characters"),
    "twice.txt.gz": (gzip.compress(LONG), "UTF-8"),
    "deep.jsonl": (
        b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
        "line 1: no valid JSON: it is nested",
    ),
    "objects.jsonl": (
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\n",
        "line 1: no valid JSON: it is nested",
    ),
    "digits.jsonl": (b'{"text": ' + b"9" * 100_000 + b"}\n", "line 1"),
    "uuid.parquet": (parquet(UUIDS), "column 'text' holds UUID, not text"),
    "dates.parquet": (parquet(pa.array([0] * 3, pa.timestamp("ns", "UTC"))), "column 'text' holds"),
    "bytes.parquet": (parquet(pa.array([b"\xff\xfe"] * 3)), "column 'text' holds bytes, not text"),
    "cut.parquet": (b"PAR1" + struct.pack("<I", 0xFFFFFFF0) + b"PAR1", "is no readable parquet file"),
    "cut.arrow": (b"ARROW1\0\0" + struct.pack("<i", 1 << 30) + b"ARROW1", "is no readable arrow file"),
}
"""Files of data with what is said of them."""


@pytest.mark.parametrize("name", FILES)
def test_file_of_data_is_refused_in_bounded_memory(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    content, said = FILES[name]
    Path(name).write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=name) as caught:
            for _ in open_source(name, "text", "train", "paragraph").documents():
                pass
        assert tracemalloc.get_traced_memory()[1] < 1 << 29
    finally:
        tracemalloc.stop()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def weights(header: bytes, length: int | None = None) -> bytes:
    """A file of safetensors with this header, whose length it may misstate."""
    return struct.pack("<Q", len(header) if length is None else length) + header + bytes(64)


def tensor(start: int, end: int, shape: list[int]) -> dict[str, Any]:
    """An entry of a header."""
    return {"dtype": "F32", "shape": shape, "data_offsets": [start, end]}


HEADERS = {
    "header beyond the file": weights(b"{}", 1 << 40),
    "header of an endless length": weights(b"{}", (1 << 64) - 1),
    "header cut off": weights(b"{}" * 9, 1 << 20),
    "overlapping": weights(json.dumps({"a": tensor(0, 16, [4]), "b": tensor(8, 24, [4])}).encode()),
    "same place": weights(json.dumps({"a": tensor(0, 64, [16]), "b": tensor(0, 64, [16])}).encode()),
    "beyond the end": weights(json.dumps({"a": tensor(0, 1 << 40, [1 << 38])}).encode()),
    "backwards": weights(json.dumps({"a": tensor(64, 0, [16])}).encode()),
    "shape that overflows": weights(json.dumps({"a": tensor(0, 64, [1 << 62, 16])}).encode()),
    "negative": weights(json.dumps({"a": tensor(-4, 60, [16])}).encode()),
    "hole": weights(json.dumps({"a": tensor(0, 4, [1]), "b": tensor(60, 64, [1])}).encode()),
    "nested": weights(b'{"a":' * 100_000),
    "no JSON": weights(b"evil" * 9),
}
"""Files of weights that lie about themselves."""


@pytest.mark.parametrize("name", HEADERS)
def test_weights_that_lie_about_themselves_are_one_line(name: str, model: Path) -> None:
    (model / "model.safetensors").write_bytes(HEADERS[name])
    with pytest.raises(Exception, match="header") as caught:
        from_pretrained(AutoModelForMaskedLM, model)
    said = str(cannot_load(str(model), caught.value))
    assert f"{str(model)!r}: its weights are damaged" in said
    assert "\n" not in said


TEMPLATES = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}", "{{ cycler.__init__.__globals__.os.popen('touch pwned') }}",
    "{{ self.__init__.__globals__ }}", "{{ raise_exception.__globals__['__builtins__'] }}", "{{ messages.append(1) }}",
    "{{ strftime_now.__globals__ }}", "{% for i in range(10 ** 9) %}a{% endfor %}", "{{ messages.__class__.__base__ }}",
    "{% include '/etc/passwd' %}", "{% import 'os' as os %}", "{{ ''|attr('__class__')|attr('__mro__') }}",
    "{{ '{0.__class__.__mro__}'.format(messages)[99] }}", "{% set messages.x = 1 %}", "{{ lipsum.__globals__['os'] }}",
]  # fmt: skip
"""Chat templates that would leave their sandbox."""


BOMBS = {
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}": "more than 1 seconds",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) ~ f(n - 1) }}{% endif %}{% endmacro %}{{ f(99) }}": "more than 1 seconds",
    "{{ (10 ** (9 ** 9)) > 1 }}": "more than",
    "{% set n = namespace(x='a') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}": "more than 256 MB",
    "{% if messages|length > 1 %}{{ 'a' * 10 ** 10 }}{% endif %}": "more than 256 MB",
    "{{ 'a'|center(10 ** 10) }}": "more than 256 MB", "{{ '%99999999999d' % 1 }}": "more than 256 MB",
    "{{ '{:99999999999}'.format(1) }}": "more than 256 MB", "{{ [0] * 10 ** 10 }}": "more than 256 MB",
    "{{ 'a' * 2 ** 26 }}": "more than", "{{ raise_exception('no\n' * 9999) }}": "no no",
}  # fmt: skip
"""Chat templates that take all time or memory."""

TALK = [{"role": "user", "content": "a river"}, {"role": "assistant", "content": "a bridge"}]


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(chat_templates, "_SECONDS", 1)
    monkeypatch.setattr(chat_templates, "_MEMORY", 1 << 28)
    monkeypatch.setattr(chat_templates, "_RENDERERS", {})
    yield
    for renderer in chat_templates._RENDERERS.values():
        renderer.end()


@pytest.mark.rows(1)
@pytest.mark.parametrize("template", BOMBS)
def test_chat_template_takes_bounded_time_and_memory(template: str, bounded: None) -> None:
    with pytest.raises(ValueError, match=BOMBS[template]) as caught:
        render_chat(template, TALK, {}, generate=False)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1001
    assert (
        render_chat(PLAIN_TEMPLATE, TALK, {"eos_token": "."}, True)
        == "USER: a river ASSISTANT: a bridge.ASSISTANT:"
    )


@pytest.mark.slow
def test_killed_renderer_of_chat_templates_is_started_again(bounded: None) -> None:
    said = render_chat(PLAIN_TEMPLATE, TALK, {}, generate=False)
    [renderer] = chat_templates._RENDERERS.values()
    os.kill(renderer.process.pid, signal.SIGKILL)
    renderer.process.wait()
    assert render_chat(PLAIN_TEMPLATE, TALK, {}, generate=False) == said


@pytest.mark.parametrize("template", TEMPLATES)
def test_chat_template_stays_in_its_sandbox(
    template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = ""
    try:
        made = render_chat(template, TALK, {}, generate=False)
    except ValueError as error:
        made, said = "", str(error)
    assert "\n" not in said
    assert not made, "what is not there is an empty text"
    assert not list(tmp_path.rglob("pwned"))
