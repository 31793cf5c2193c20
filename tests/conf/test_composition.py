"""The command line: help, printing, sweeping, a user's own configs, and wrong words."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hydra import compose, initialize_config_module
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from tests.conftest import ROOT, Command
from tiryns.runner.run.command import overrides

NO_TORCH = """
import runpy, sys
sys.argv = ["runner.train", *{arguments!r}]
try:
    runpy.run_module("runner.train", run_name="__main__")
except SystemExit as end:
    assert not end.code, end.code
heavy = [name for name in ("torch", "lightning", "transformers", "numpy", "datasets") if name in sys.modules]
assert not heavy, heavy
"""


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    "arguments", [["--cfg", "job", "--resolve"], ["--help"], ["--cfg", "job"], ["--info", "defaults"]]
)
def test_config_commands_import_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    program = NO_TORCH.format(arguments=arguments)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir()), "a config command wrote files"


@pytest.mark.slow
def test_installed_command_works_from_another_folder(tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("tiryns")
    done = subprocess.run(
        [command, "--cfg", "job"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "bert" in done.stdout


@pytest.fixture
def own_configs(tmp_path: Path) -> Path:
    """A user's folder with a recipe, and an option whose keys and class are the user's own."""
    folder = tmp_path / "own"
    (folder / "experiment").mkdir(parents=True)
    (folder / "experiment" / "mine.yaml").write_text(
        "# @package _global_\ndefaults:\n  - override /model: modernbert_tiny\n  - override /objective: shouted\n"
        "trainer:\n  max_steps: 3\nallowed_targets: [my_objective]\n"
    )
    (folder / "objective").mkdir()
    (folder / "objective" / "shouted.yaml").write_text("_target_: my_objective.Shouted\nvolume: 11\n")
    (tmp_path / "my_objective.py").write_text(
        "from tiryns.runner.objectives import MaskedLanguageModelingCollator\n\n\n"
        "class Shouted(MaskedLanguageModelingCollator):\n"
        "    def __init__(self, volume, **collator):\n"
        "        super().__init__(**collator)\n"
        "        print('volume', volume)\n"
    )
    return folder


def test_users_recipe_and_component_compose(tiryns: Command, own_configs: Path) -> None:
    text = tiryns("--config-dir", str(own_configs), "--cfg", "job", "experiment=mine").stdout
    assert "volume: 11" in text
    assert "architecture: modernbert" in text
    text = tiryns("--cfg", "job", f"hydra.searchpath=[file://{own_configs}]", "objective=shouted").stdout
    assert "volume: 11" in text


def test_what_others_call_a_setting_leads_to_one_that_exists() -> None:
    assert set(overrides.OTHER_WORDS.values()) <= set(overrides._config_keys())


def test_full_error_gives_the_traceback(tiryns: Command) -> None:
    assert "Traceback" in tiryns("optimizer=adamm", check=False, HYDRA_FULL_ERROR="1").stderr


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    ("override", "mapping"),
    [
        ("data.processor_options={do_image_splitting: false}", "data.processor_options"),
        ("data.train_options.shuffle_over_epochs_multiplier=2", "data.train_options"),
        ("model.text_config={rope_theta: 1000.0}", "model.text_config"),
        ("+model.vision_config.hidden_act=gelu", "model.vision_config"),
        ("hydra.launcher.additional_parameters={mail-type: END}", "hydra.launcher.additional_parameters"),
    ],
)
def test_mapping_takes_any_key_with_or_without_a_plus(override: str, mapping: str) -> None:
    chosen = ["data=energon", "data.path=x", "model=llava_tiny", "hydra/launcher=slurm", override]
    with initialize_config_module("tiryns.conf", version_base="1.3"):
        config = compose("config", chosen, return_hydra_config=True)
    _, _, key = override.replace("={", ".").partition(f"{mapping}.")
    assert re.split("[=:]", key)[0] in OmegaConf.select(config, mapping)


def test_mapping_with_keys_of_its_own_still_refuses_others() -> None:
    with (
        initialize_config_module("tiryns.conf", version_base="1.3"),
        pytest.raises(HydraException, match="sizee"),
    ):
        compose("config", ["data=shapes", "data.train.sizee=3"])


def test_options_are_made_configs_once_and_every_config_has_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    def muon() -> DictConfig:
        with initialize_config_module("tiryns.conf", version_base="1.3"):
            return compose("config", ["optimizer=muon"])

    first, before = muon(), muon().optimizer.lr
    first.optimizer.lr = 5.0
    monkeypatch.setattr(OmegaConf, "structured", None)
    assert muon().optimizer.lr == before != 5.0
