"""Importing the options changes nothing of Hydra and OmegaConf, so that a program of another project keeps its own."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT

PROGRAM = """
import argparse, importlib, pkgutil, sys
import hydra, hydra.main, omegaconf
from omegaconf.basecontainer import BaseContainer

PLUGIN = "hydra_plugins.hydra_msc_plugin"
names = [name for _, name, _ in pkgutil.walk_packages(hydra.__path__, "hydra.") if "test_utils" not in name]
names += [name for _, name, _ in pkgutil.walk_packages(omegaconf.__path__, "omegaconf.") if "pydevd" not in name]
modules = [argparse, *map(importlib.import_module, names)]

def state():
    found = {"plugin": sys.modules.get(PLUGIN, "absent"), "meta_path": tuple(map(id, sys.meta_path))}
    found["resolvers"] = tuple(BaseContainer._resolvers.items())
    for module in modules:
        for name, value in vars(module).items():
            found[module.__name__, name] = value
            if isinstance(value, type) and value.__module__.split(".")[0] in ("hydra", "omegaconf", "argparse"):
                found |= {(module.__name__, name, key): one for key, one in vars(value).items()}
    return found

def changes(before, after):
    ignored = ("__abc", "_abc", "__annotations__", "__weakref__")
    keys = [key for key in {**before, **after} if before.get(key, PLUGIN) is not after.get(key, PLUGIN)]
    keys = [key for key in keys if before.get(key) != after.get(key)]
    return sorted(str(key) for key in keys if not str(key[-1]).startswith(ignored))

import tiryns  # whose old names are found by finders of its own
before = state()
%s
print(changes(before, state()))
"""


def changed(line: str) -> str:
    done = subprocess.run([sys.executable, "-c", PROGRAM % line], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_options_and_the_program_changes_nothing_of_hydra() -> None:
    assert changed("import tiryns.conf, tiryns.runner.train") == "[]"


@pytest.mark.slow
def test_change_of_hydra_is_noticed() -> None:
    line = "from hydra.core.config_store import ConfigStore as S; S.__deepcopy__ = lambda store, memo: store"
    assert "__deepcopy__" in changed(line)
    assert changed("sys.modules[PLUGIN] = None") == "['plugin']"
