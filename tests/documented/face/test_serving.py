"""The server on the page about serving answers what `tiryns.Predictor` predicts."""

import json
import socket
import sys
import time
import urllib.request
from pathlib import Path
from subprocess import Popen
from urllib.error import HTTPError

import pytest

import tiryns
from tests.conftest import ROOT
from tests.support.commands import blocks

(SERVER,) = [block for block in blocks(ROOT / "docs" / "serving.md") if block.title == "serve.py"]


@pytest.mark.slow
def test_server_of_the_page_answers(tmp_path: Path, trained: tiryns.Run) -> None:
    (tmp_path / SERVER.title).write_text(SERVER.text)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    texts = ["seven herons [MASK] the river"]
    server = Popen([sys.executable, SERVER.title, str(trained.path.resolve()), str(port)], cwd=tmp_path)
    try:
        assert asked(port, texts) == tiryns.Predictor(trained.path).predict(texts)
        for posted in (b"[", b"3", b"[1]", b'[{"txt": "a"}]', b'[{"text": "a [MASK]"}, {"text": ""}]'):
            with pytest.raises(HTTPError) as wrong:
                urllib.request.urlopen(f"http://127.0.0.1:{port}", posted)
            assert wrong.value.code == 400
            assert json.load(wrong.value)["error"]
    finally:
        server.kill()
        server.wait()


def asked(port: int, texts: list[str]) -> list[dict[str, object]]:
    """The answer of the server, once it listens."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}", json.dumps(texts).encode())
    for _ in range(240):
        try:
            with urllib.request.urlopen(request) as answer:
                return list(json.load(answer))
        except OSError:
            time.sleep(0.25)
    raise TimeoutError("the server does not answer")
