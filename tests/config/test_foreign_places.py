"""The few targets that are no option: schedules of transformers, configs of plain models, and nodes left unbuilt."""

import pytest

from tests.config.test_foreign_code import placed
from tiryns.runner.build import bind
from tiryns.runner.config.targets import check_target


def test_schedules_of_transformers_are_the_only_functions() -> None:
    for name in ("get_cosine_schedule_with_warmup", "optimization.get_wsd_schedule"):
        check_target(f"transformers.{name}", "scheduler")
        for place in ("optimizer", "callback.x", "model.config", "data.source"):
            with pytest.raises(ValueError, match="is not allowed"):
                check_target(f"transformers.{name}", place)
    for name in ("get_scheduler", "optimization.get_adafactor_schedule", "get_reduce_on_plateau_schedule"):
        with pytest.raises((ValueError, ImportError)):
            check_target(f"transformers.{name}", "scheduler")


def test_config_of_a_model_is_a_class_of_its_kind() -> None:
    check_target("transformers.BertConfig", "model.config")
    for place in ("model", "model.other", "model.config.x", "data"):
        with pytest.raises(ValueError, match="is not allowed"):
            check_target("transformers.BertConfig", place)
    for target in ("transformers.AutoConfig.from_pretrained", "transformers.BertConfig.from_pretrained",
                   "transformers.BertModel", "transformers.PreTrainedTokenizerFast"):  # fmt: skip
        with pytest.raises(ValueError, match="is not allowed"):
            check_target(target, "model.config")


def test_nodes_that_are_not_built_are_checked_too() -> None:
    inner = {"_target_": "os.system", "command": "touch pwned"}
    node = {"_target_": "lightning.pytorch.Callback", "_recursive_": False, "_convert_": "none", "x": inner}
    for hidden in (node, {**node, "_args_": [inner]}, {**node, "_partial_": True, "x": [{"y": inner}]}):
        with pytest.raises(ValueError, match=r"'os\.system' is not allowed"):
            bind(placed("callback.x", hidden).callback.x)
