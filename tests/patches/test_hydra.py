"""What is patched in Hydra is still needed, and does what it says; a test that fails here says which file can go."""

import argparse
import copy
import importlib.util
import inspect
import re
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import hydra
import hydra.utils
import omegaconf
import pytest
from hydra import version
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import get_args_parser
from hydra.core.config_store import ConfigStore
from hydra.core.default_element import ConfigDefault
from hydra.core.hydra_config import HydraConfig
from hydra.errors import InstantiationException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from tests.conftest import ROOT
from tiryns.runner.cli.compose import compose, initialize
from tiryns.runner.patches.hydra.composition import checking, reading, register_in_defaults, shared_store
from tiryns.runner.patches.hydra.start import (
    LEFT_OUT,
    VERSION_BASE,
    hydra_parser,
    register_resolver,
    run_composed,
)
from tiryns.runner.patches.parsers import actions_of
from tiryns.runner.run.errors import error_of

IS_OLD = hydra.__version__.startswith("1.3.")
"""Whether this is the older of the two versions of Hydra."""


def admits_1_3() -> bool:
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    return any(word.startswith("hydra-core>=1.3") for word in required)


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_both_versions_of_hydra_are_admitted_and_differ() -> None:
    assert admits_1_3(), "start.py chooses between 1.3 and 1.4"
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        before = version.getbase()
        version.setbase(*VERSION_BASE.values() or [version._UNSPECIFIED_])
        as_ours = len(noted)
        version.setbase(version._UNSPECIFIED_ if IS_OLD else "1.3")
        version.VersionBase.instance().version_base = before
    assert (as_ours, len(noted)) == (0, 1)


def test_resolvers_are_registered_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        register_resolver("of_patches", lambda number: 2 * number)
        register_resolver("of_patches", lambda number: 3 * number)
    assert OmegaConf.create({"a": "${of_patches:4}"}).a == 12
    takes_replace = "replace" in inspect.signature(OmegaConf.register_resolver).parameters
    assert takes_replace is not omegaconf.__version__.startswith("2.3.")


@pytest.mark.slow
def test_hydra_still_loads_the_plugin_of_remote_storage() -> None:
    assert importlib.util.find_spec(LEFT_OUT) is not None, "LEFT_OUT is not needed"
    shown = f"import sys; print('multistorageclient' in sys.modules, {LEFT_OUT!r} in sys.modules)"
    alone = run(f"from hydra.core.plugins import Plugins; Plugins.instance(); {shown}")
    ours = run(f"from tiryns.runner.patches.hydra.start import plugins; plugins(); {shown}")
    assert (alone, ours) == ("True True", "False False")


def test_hydra_still_copies_its_store_for_each_composition(monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[int] = []

    def counted(store: ConfigStore, memo: dict[int, Any]) -> ConfigStore:
        copies.append(1)
        return store

    monkeypatch.setattr(ConfigStore, "__deepcopy__", counted, raising=False)
    with initialize():
        compose([])
    assert copies or not IS_OLD, "files.py: shared_store is not needed"
    assert admits_1_3(), "files.py: shared_store is not needed by Hydra 1.4"


def test_store_is_shared_within_the_context_alone() -> None:
    store = ConfigStore.instance()
    with shared_store(), shared_store():
        assert copy.deepcopy(store) is store
    assert not hasattr(ConfigStore, "__deepcopy__")
    assert copy.deepcopy(store) is not store


def test_hydra_still_has_no_public_list_of_its_flags() -> None:
    assert importlib.util.find_spec("hydra.core.arguments") is None, "hydra_parser"
    flags = {flag for action in actions_of(hydra_parser()) for flag in action.option_strings}
    assert flags >= {"--multirun", "--cfg"}


def test_hydra_still_has_a_help_text_that_is_an_object() -> None:
    lazy = [action for action in actions_of(get_args_parser()) if not isinstance(action.help, str)]
    assert lazy or not IS_OLD, "hydra_parser need not change argparse"


def test_lazy_help_is_accepted_where_argparse_checks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(parser: argparse.ArgumentParser, action: argparse.Action) -> None:
        assert "bad" not in str(action.help + "")  # type: ignore[operator]

    monkeypatch.setattr(argparse.ArgumentParser, "_check_help", check, raising=False)
    hydra_parser()
    parser = argparse.ArgumentParser()
    replaced: Any = argparse.ArgumentParser._check_help  # type: ignore[attr-defined]
    replaced(parser, argparse.Action([], "lazy", help=object()))  # type: ignore[arg-type]
    with pytest.raises(AssertionError):
        replaced(parser, argparse.Action([], "text", help="bad"))


def test_argparse_still_lists_no_arguments_publicly() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    action = parser.add_argument("--json")
    assert list(actions_of(parser)) == [action]
    public = (getattr(parser, name) for name in dir(parser) if not name.startswith("_"))
    assert not any(action in value for value in public if isinstance(value, list | tuple)), "parsers.py"


def test_config_is_checked_before_hydra_builds_of_it() -> None:
    def refuse(config: DictConfig) -> list[str]:
        raise ValueError(f"refused seed {config.seed}")

    with initialize():
        with pytest.raises(ValueError, match="refused seed 7"), checking(refuse):
            compose(["seed=7"])
        assert compose(["seed=7"]).seed == 7
        with checking(lambda config: ["colorsys.rgb_to_yiq"]):
            compose([])
            red = {"r": 1, "g": 0, "b": 0}
            assert hydra.utils.instantiate({"_target_": "colorsys.rgb_to_yiq", **red})[0] == 0.3
            if hasattr(hydra.utils, "execution_whitelist"):
                with pytest.raises(InstantiationException, match="whitelist"):
                    hydra.utils.instantiate({"_target_": "colorsys.rgb_to_hls", **red})
    assert admits_1_3() or "execution_whitelist" not in inspect.signature(hydra.main).parameters, "checking"


def jobs(folder: Path, words: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a program of Hydra's is given for its jobs with the words of a command, or the error that ends it."""
    seen: list[str] = []

    def job(config: DictConfig) -> None:
        shown = OmegaConf.to_yaml(OmegaConf.create({"own": config, "hydra": HydraConfig.get()}))
        seen.append(re.sub(r"\d\d[-/]\d\d.*", "<time>", shown))

    monkeypatch.setattr(sys, "argv", ["program", *words])
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    try:
        hydra.main(config_path=str(folder), config_name="own", **VERSION_BASE)(job)()
    except (hydra.errors.HydraException, AssertionError) as error:
        seen.append(f"{type(error).__name__}: {error}")
    return seen


@pytest.mark.rows(1)
@pytest.mark.filterwarnings("ignore:.*Running Hydra app with --multirun")
@pytest.mark.parametrize("defaults", ["", "defaults: [_self_, {db: '???'}]\n", "hydra: {mode: MULTIRUN}\n"])
@pytest.mark.parametrize(
    "words", ["a=2", "a=2,3", "-m a=2,3", "-m hydra.mode=RUN a=2", "+db=one", "-m +db=one,two"]
)
def test_second_composition_is_spared_and_nothing_differs(
    words: str, defaults: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.yaml").write_text(f"{defaults}a: 1\n")
    (tmp_path / "db").mkdir()
    for name in ("one", "two"):
        (tmp_path / "db" / f"{name}.yaml").write_text(f"name: {name}\n")
    expected = jobs(tmp_path, words.split(), monkeypatch)
    composed, modes = Mock(wraps=ConfigLoaderImpl._load_configuration_impl), list[Any]()
    monkeypatch.setattr(
        ConfigLoaderImpl, "_load_configuration_impl", lambda *asked, **more: composed(*asked, **more)
    )
    with checking(lambda config: modes.append(config.hydra.mode) or []):  # type: ignore[func-returns-value]
        assert jobs(tmp_path, words.split(), monkeypatch) == expected
    assert expected
    if words == "a=2" and not defaults:
        assert (composed.call_count, modes) == (1, [None, RunMode.RUN]), "checked as it is for the run too"


def test_files_are_read_within_the_context_given(tmp_path: Path) -> None:
    seen = []

    @contextmanager
    def around(file: Path) -> Iterator[None]:
        seen.append(file)
        yield

    (tmp_path / "experiment").mkdir()
    file = tmp_path / "experiment" / "mine.yaml"
    file.write_text("# @package _global_\nseed: 7\n")
    with initialize([tmp_path]), reading(around):
        assert compose(["experiment=mine"]).seed == 7
    assert file in seen


def test_hydra_still_names_no_file_in_errors_of_yaml(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("a: 1\n b: 2\n")
    with (
        hydra.initialize_config_dir(str(tmp_path), **VERSION_BASE),
        pytest.raises(Exception, match="mapping values") as error,
    ):
        hydra.compose("mine")
    assert not isinstance(error.value, hydra.errors.HydraException), "reading"


RESOLVED = """
from hydra.core.hydra_config import HydraConfig
from hydra.core.default_element import ConfigDefault
from hydra.errors import InstantiationException
from hydra.types import RunMode
from omegaconf import OmegaConf
getattr(OmegaConf, {name!r})("of_patches", lambda *, _root_: _root_.model + "/x", replace=True)
entry = ConfigDefault(path="${{of_patches:}}")
entry.update_parent("", "")
try:
    entry.resolve_interpolation(OmegaConf.create({{"model": "bert", "scale": None}}))
except Exception:
    print("refused")
else:
    print(entry.path)
"""


def test_hydra_1_4_still_refuses_resolvers_in_defaults() -> None:
    name = "register_new_resolver" if omegaconf.__version__.startswith("2.3.") else "register_resolver"
    assert run(RESOLVED.format(name=name)) == ("bert/x" if IS_OLD else "refused"), "register_in_defaults"


def test_entry_of_defaults_may_name_a_resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConfigDefault, "resolve_interpolation", ConfigDefault.resolve_interpolation)
    register_in_defaults("of_patches", lambda *, _root_: f"{_root_.model}/x")
    for path, expected in (("${of_patches:}", "bert/x"), ("a/${model}", "a/bert")):
        entry = ConfigDefault(path=path)
        entry.update_parent("", "")
        entry.resolve_interpolation(OmegaConf.create({"model": "bert", "scale": None}))
        assert entry.path == expected


def test_hydra_still_has_no_public_class_of_callbacks() -> None:
    assert importlib.util.find_spec("hydra.core.callbacks") is None, "run_composed"


def test_job_runs_with_callbacks_and_its_error_is_returned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(config: DictConfig) -> None:
        raise ValueError("wrong")

    def targets(config: DictConfig) -> list[str]:
        return [callback._target_ for callback in config.hydra.callbacks.values()]

    with initialize(), checking(targets):
        config = compose([f"hydra.run.dir={tmp_path}/run"])
        assert run_composed(lambda given: given.seed, config).return_value == 42
        error = error_of(run_composed(fail, config))
    assert repr(error) == "ValueError('wrong')"
    assert not capsys.readouterr().err
    assert (tmp_path / "run").is_dir()
