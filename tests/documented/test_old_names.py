"""What version 0.1 documents under a name goes by that name still: in Python, in a config, and in the folder of a run."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from tests.conftest import ROOT, TINY
from tests.support.in_process import tiryns_here
from tiryns.conf.registry import OPTIONS, component_of, option_of
from tiryns.old_names import MOVED
from tiryns.runner.cli.compose import compose, initialized
from tiryns.runner.cli.models import consolidate
from tiryns.runner.config.checks import check_config
from tiryns.runner.config.permissions import check_hydra
from tiryns.runner.config.targets import check_target, locate
from tiryns.runner.report.runs import changed_settings, load_run
from tiryns.runner.run.folder import RunFolder, config_hash

NAMES = {
    "runner.data": "EnergonMultiModalDataModule FinetuningDataModule PretrainingDataModule",
    "runner.data.energon": "EnergonDataloader EnergonMultiModalDataModule MultiModalSampleConfig cyclic_iter logger",
    "runner.data.keyed": "sample_keys token_bits",
    "runner.data.microbatches": "prepare_finetuning_batch split_batch_into_microbatches",
    "runner.data.multi_epoch": "EpochIndex IdentityMultiEpochDatasetWrapper MultiEpochDataset MultiEpochDatasetResampler "
    "MultiEpochDatasetWrapper SizedDataset",
    "runner.data.processors": "make_processor train_conversation_tokenizer",
    "runner.data.stdlib_text": "StdlibText",
    "runner.data.tokenizer": "train_tokenizer",
    "runner.metrics": "get_metrics_for_task",
    "runner.models.packed_rows": "encoder_inputs packed_row set_up_packed_rows unpacked",
    "runner.modules": "FinetuningModule PretrainingModule",
    "runner.objectives": "Collator EnhancedMaskedLanguageModelingCollator MaskedDiffusionCollator "
    "MaskedLanguageModelingCollator QuestionAnsweringCollator SequenceClassificationCollator "
    "TokenClassificationCollator get_collator_cls",
    "runner.optim": "InverseSqrtScheduler get_optimizer get_scheduler get_single_scheduler loop_needs",
    "runner.samplers": "GlobalBatchSampler SplitModalitySampler",
}
"""The imports that version 0.1 documents."""

TARGETS = {
    "callback": "runner.callbacks.Divergence runner.callbacks.EarlyStopping runner.callbacks.OrderAudit "
    "runner.callbacks.ParameterGroups runner.callbacks.Plateau runner.callbacks.Progress runner.callbacks.Throughput",
    "checkpoint": "runner.checkpoint.Checkpoint",
    "data": "runner.data.EnergonData runner.data.FinetuningData runner.data.ImageTextDataModule "
    "runner.data.PretrainingData",
    "data.source": "runner.data.scenes.Scenes runner.data.stdlib_text.StdlibText",
    "hydra/callbacks": "runner.checks.EarlyChecks runner.sweep.SweepPage",
    "hydra/launcher": "hydra_plugins.tiryns.SlurmLauncher",
    "hydra/sweeper": "hydra_plugins.tiryns.GridSweeper hydra_plugins.tiryns.OptunaSweeper",
    "logger": "runner.loggers.MetricsFile runner.loggers.tensorboard_logger runner.loggers.wandb_logger",
    "model": "runner.models.build_encoder runner.models.build_image_text runner.models.load_encoder",
    "module": "runner.modules.FinetuningRun runner.modules.PretrainingRun runner.modules.VisionLanguageModule",
    "objective": "runner.objectives.EnhancedMaskedLanguageModelingCollator runner.objectives.MaskedDiffusionCollator "
    "runner.objectives.MaskedLanguageModelingCollator runner.objectives.QuestionAnsweringCollator "
    "runner.objectives.SequenceClassificationCollator runner.objectives.TokenClassificationCollator "
    "runner.objectives.VisionLanguageCollator",
    "optimizer": "runner.optim.adafactor runner.optim.adagrad runner.optim.adam runner.optim.adamw runner.optim.galore "
    "runner.optim.lamb runner.optim.lars runner.optim.lion runner.optim.muon runner.optim.rmsprop runner.optim.sgd "
    "runner.optim.shampoo runner.optim.soap runner.optim.sophiah runner.optim.splus",
    "sampler": "runner.samplers.LengthGrouped runner.samplers.Sequential runner.samplers.Shuffled "
    "runner.samplers.SplitModality",
    "scheduler": "runner.optim.get_scheduler",
    "trainer": "runner.trainer.build_trainer",
}
"""The targets that the options of version 0.1 name, by the group or the place where they stand."""

OLD = [
    "trainer._target_=runner.trainer.build_trainer",
    "checkpoint._target_=runner.checkpoint.Checkpoint",
    "logger.csv._target_=runner.loggers.MetricsFile",
    "optimizer._target_=tiryns.runner.optim.adamw",
]
"""Settings as a config of version 0.1, or one that names our package in full, has them."""


def targets() -> list[Any]:
    return [(place, target) for place, found in TARGETS.items() for target in found.split()]


def path_of(place: str) -> str:
    """Where in a config a component of a group, or of such a place, stands."""
    inside = ".one" if place in ("callback", "logger", "hydra/callbacks") else ""
    return place.replace("/", ".") + inside


@pytest.mark.parametrize("module", NAMES)
def test_documented_import_is_the_thing_of_today(module: str) -> None:
    old, today = import_module(module), import_module(f"tiryns.{MOVED.get(module, module)}")
    for name in NAMES[module].split():
        assert getattr(old, name) is getattr(today, name)


@pytest.mark.slow
def test_every_import_works_in_a_process_of_its_own(tmp_path: Path) -> None:
    lines = [f"from {module} import {', '.join(names.split())}" for module, names in NAMES.items()]
    lines += [f"import {module}" for module in MOVED]
    command = [sys.executable, "-c", "\n".join([*lines, "print('done')"])]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.stdout == "done\n", done.stderr


@pytest.mark.parametrize("prefix", ["", "tiryns."])
@pytest.mark.parametrize(("place", "target"), targets())
def test_target_is_allowed_found_and_known(place: str, target: str, prefix: str) -> None:
    if not target.startswith("runner."):
        prefix = ""
    check_target(prefix + target, path_of(place))
    found = locate(prefix + target, path_of(place))
    assert found.__name__ == target.rpartition(".")[2]
    assert found.__module__.startswith(("tiryns.runner.", "hydra_plugins."))
    if place in OPTIONS:
        option = option_of(place, {"_target_": prefix + target})
        assert option is not None, "its fields are checked, and some of them may change on resume"
        assert component_of(prefix + target) == (place, OPTIONS[place][option])


def test_other_functions_of_modules_that_moved_are_refused() -> None:
    for target in (
        "runner.trainer.quiet_libraries",
        "tiryns.runner.loop.quiet_libraries",
        "runner.loggers.os.system",
    ):
        with pytest.raises((ValueError, ImportError), match=r"is not allowed|cannot find"):
            check_target(target, "trainer")


def test_config_with_old_targets_is_the_same_run() -> None:
    with initialized():
        old, new = compose([*OLD, "data.source._target_=runner.data.stdlib_text.StdlibText"]), compose([])
        check_config(old)
        assert config_hash(old) == config_hash(new)
        hydra = OmegaConf.merge(
            new, {"hydra": {"callbacks": {"checks": {"_target_": "runner.checks.EarlyChecks"}}}}
        )
        assert isinstance(hydra, DictConfig)
        check_hydra(hydra)
        wrong = compose([*OLD, "trainer.validate_every=-1"])
        with pytest.raises(ValueError, match=r"trainer\.validate_every=-1: it must be"):
            check_config(wrong)
        with pytest.raises(HydraException, match="validate_evry"):
            compose([*OLD, "trainer.validate_evry=1"])


def test_users_option_with_an_old_target_composes_and_is_checked(tmp_path: Path) -> None:
    folder = tmp_path / "own" / "trainer"
    folder.mkdir(parents=True)
    values = OmegaConf.to_container(OmegaConf.structured(OPTIONS["trainer"]["cpu"]))
    values |= {"_target_": "runner.trainer.build_trainer", "log_every": 0}  # type: ignore[operator]
    OmegaConf.save(OmegaConf.create(values), folder / "mine.yaml")
    with initialized([tmp_path / "own"]):
        config = compose(["trainer=mine"])
        with pytest.raises(ValueError, match=r"trainer\.log_every=0"):
            check_config(config)
        check_config(compose(["trainer=mine", "trainer.log_every=5"]))


def test_run_of_old_targets_trains_goes_on_and_is_read(tmp_path: Path, text_file: Path) -> None:
    done = tiryns_here(tmp_path, *TINY, f"data.source={text_file}", *OLD)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "outputs").glob("*/*")
    run = RunFolder(folder)
    config = OmegaConf.load(folder / "config.yaml")
    assert config.trainer._target_ == "runner.trainer.build_trainer"
    told = {name for name, _, _ in changed_settings(load_run(folder).settings) or []}
    assert not {name for name in told if name.endswith("_target_")}, "a module that moved is no other setting"
    run.update_status(state="interrupted")
    again = tiryns_here(tmp_path, f"resume={folder}")
    assert again.returncode == 0, again.stderr
    assert list((tmp_path / "outputs").glob("*/*")) == [folder], "in its folder, not as a branch"
    assert run.status()["state"] == "done"
    consolidate.consolidate(folder, tmp_path / "model")
    assert (tmp_path / "model" / "config.json").is_file()


def test_every_option_names_what_its_package_exports() -> None:
    for options in OPTIONS.values():
        for option in options.values():
            values = OmegaConf.to_container(OmegaConf.structured(option))
            target = str(values.get("_target_", "hydra_plugins.x"))  # type: ignore[union-attr]
            package, _, name = target.rpartition(".")
            if package.startswith("runner."):
                assert name in import_module(f"tiryns.{package}").__all__
