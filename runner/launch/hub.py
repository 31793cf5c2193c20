"""The Hugging Face hub, where it cannot be reached."""

import os
import socket
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from tiryns.runner import log

NAMING = ("name_or_path", "tokenizer", "source", "teacher")
"""Settings that may hold a name of the hub."""


def spare_retries(config: DictConfig) -> None:
    """Sets the hub's libraries offline where the config names hub models and the hub does not answer.

    Otherwise each file they look for is asked for again and again, for the better part of a minute. To be called before
    they are imported, which is when they read `HF_HUB_OFFLINE`.
    """
    if "HF_HUB_OFFLINE" in os.environ or not any(_hub_names(config)):
        return
    from urllib.parse import urlsplit
    from urllib.request import getproxies

    if getproxies():
        return
    address = urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))
    try:
        socket.create_connection((address.hostname, address.port or 443), timeout=3.0).close()
    except OSError as error:
        log.warning(
            "%s cannot be reached (%s): only what was downloaded before is found", address.hostname, error
        )
        os.environ["HF_HUB_OFFLINE"] = "1"


def _hub_names(config: DictConfig) -> Iterator[str]:
    """Names, of a source or of each in a list, that are no files here and may be on the hub."""
    groups = ("model", "data", "objective")
    nodes: list[Any] = [OmegaConf.to_container(config[group], resolve=True) for group in groups]
    mixture = nodes[1].get("mixture")
    nodes += mixture.values() if isinstance(mixture, dict) else []
    for node, name in product(nodes, NAMING):
        given: Any = node.get(name) if isinstance(node, dict) else None
        for value in given if isinstance(given, list) else [given]:
            named = isinstance(value, str) and value.count("/") <= 1 and "*" not in value
            if named and not value.startswith("store:") and not Path(value).exists():
                yield value
