"""Names of the hub where nobody answers."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from tiryns.runner.launch.processes import spare_retries


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


@pytest.mark.usefixtures("closed_port")
def test_hub_that_does_not_answer_is_asked_once(caplog: pytest.LogCaptureFixture) -> None:
    assert offline_with({"name_or_path": "someone/encoder"}, {"tokenizer": None})
    assert "127.0.0.1 cannot be reached" in caplog.text


@pytest.mark.usefixtures("closed_port")
@pytest.mark.parametrize(
    "data",
    [{"source": ["here/*.txt", "wikitext"]}, {"mixture": {"web": {"source": "wikitext", "weight": 1}}}],
)
def test_sources_in_lists_and_mixtures_are_seen(data: dict[str, Any]) -> None:
    assert offline_with({}, data)


@pytest.mark.usefixtures("closed_port")
def test_teachers_are_seen() -> None:
    assert not offline_with({}, {}, teacher=None)
    assert offline_with({}, {}, teacher="someone/teacher")


@pytest.mark.usefixtures("closed_port")
def test_hub_is_not_asked_for_files_and_folders(tmp_path: Path) -> None:
    assert not offline_with({"name_or_path": str(tmp_path)}, {"source": "books/*.txt", "tokenizer": None})


def test_hub_that_answers_is_used(monkeypatch: pytest.MonkeyPatch, closed_port: None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        assert not offline_with({"name_or_path": "someone/encoder"}, {})


@pytest.mark.usefixtures("closed_port")
def test_proxy_may_know_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    assert not offline_with({"name_or_path": "someone/encoder"}, {})
