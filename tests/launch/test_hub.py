"""Names of the hub where nobody answers."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from tiryns.runner.launch.processes import spare_retries

pytestmark = pytest.mark.usefixtures("closed_port")


@pytest.fixture
def closed_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub at an address where nothing listens, and no settings of the machine."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # so that it is put back, whatever it was
    for name in ("HF_HUB_OFFLINE", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def offline_with(model: dict[str, Any], data: dict[str, Any], **objective: Any) -> bool:
    spare_retries(OmegaConf.create({"model": model, "data": data, "objective": objective}))
    return "HF_HUB_OFFLINE" in os.environ


def test_hub_that_does_not_answer_is_asked_once(caplog: pytest.LogCaptureFixture) -> None:
    assert offline_with({"name_or_path": "someone/encoder"}, {"tokenizer": None})
    assert "127.0.0.1 cannot be reached" in caplog.text


@pytest.mark.parametrize(
    ("model", "data", "objective", "is_asked"),
    [
        ({}, {"source": ["here/*.txt", "wikitext"]}, {}, True),
        ({}, {"mixture": {"web": {"source": "wikitext", "weight": 1}}}, {}, True),
        ({}, {}, {"teacher": "someone/teacher"}, True),
        ({}, {}, {"teacher": None}, False),
        ({"name_or_path": str(Path.cwd())}, {"source": "books/*.txt", "tokenizer": None}, {}, False),
    ],
)
def test_hub_is_asked_for_names_alone(
    model: dict[str, Any], data: dict[str, Any], objective: dict[str, Any], is_asked: bool
) -> None:
    assert offline_with(model, data, **objective) == is_asked


def test_hub_that_answers_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        assert not offline_with({"name_or_path": "someone/encoder"}, {})


def test_proxy_may_know_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    assert not offline_with({"name_or_path": "someone/encoder"}, {})
