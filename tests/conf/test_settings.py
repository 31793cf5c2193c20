"""What stands at a field: what it may be, and whether it says how a run is executed or what it computes."""

import inspect
import re
from dataclasses import MISSING, dataclass, fields
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

from tests.support.composed import composed
from tiryns.conf.config import LATER
from tiryns.conf.registry import OPTIONS, execution_names
from tiryns.conf.values import Bounds, rules_of, setting
from tiryns.runner.build import bind
from tiryns.runner.config.checks import check_config
from tiryns.runner.run.recording import STOPS_EARLY, config_hash


@pytest.fixture(scope="module")
def default() -> DictConfig:
    return composed([])


def with_value(config: DictConfig, key: str, value: Any) -> DictConfig:
    copy = config.copy()
    OmegaConf.update(copy, key, value)
    return copy


@dataclass
class Base:
    size: int = setting(1, allowed=Bounds(1), execution=True)
    other: int = 2


@dataclass
class Derived(Base):
    size: int = 3
    other: int = setting(4, runs_code=True)


def test_field_declared_again_keeps_the_rules_of_its_base() -> None:
    assert rules_of(Derived) == {
        "size": {"allowed": Bounds(1), "execution": True},
        "other": {"runs_code": True},
    }
    assert rules_of(Base)["other"] == {}


def test_each_config_has_a_list_of_its_own() -> None:
    one, other = (OPTIONS["optimizer"]["adamw"]() for _ in range(2))
    assert one.betas is not other.betas
    one, other = (setting({"inner": [1]}).default_factory()["inner"] for _ in range(2))
    assert one is not other


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("module.gradient_checkpointing", True), ("module.log_parameter_norms", True), ("optimizer.fused", False),
        ("trainer.devices", 2), ("trainer.accelerator", "gpu"), ("trainer.log_every", 3), ("trainer.profile", True),
        ("trainer.strategy", "ddp"), ("data.num_workers", 5), ("data.micro_batch_tokens", 77),
        ("data.layout", "padded"), ("data.cache_dir", "elsewhere"), ("checkpoint.every_steps", 3),
        ("outputs", "elsewhere"), ("resume", "auto"), ("allowed_targets", ["mine"]), ("mode", "inspect"),
    ],
)  # fmt: skip
def test_execution_may_change_on_resume(default: DictConfig, key: str, value: Any) -> None:
    changed = with_value(default, key, value)
    assert OmegaConf.select(changed, key) != OmegaConf.select(default, key)
    assert config_hash(changed) == config_hash(default)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seed", 7), ("data.seed", 7), ("data.max_length", 64), ("data.vocab_size", 512), ("model.dropout", 0.1),
        ("module.max_grad_norm", 2.0), ("optimizer.lr", 0.5), ("optimizer.betas", [0.9, 0.95]),
        ("trainer.precision", "32-true"), ("trainer.max_steps", 7), ("trainer.max_tokens", 5), ("trainer.max_flops", 5),
        ("trainer.max_seconds", 5), ("sampler.global_batch_size", 7),
        ("scheduler.warmup_steps", 3), ("objective.mlm_probability", 0.2),
        ("objective.masking", "words"), ("objective.mask_share", 1.0), ("objective.fixed_count", True),
        ("checkpoint.monitor", "val/held_out/accuracy"), ("checkpoint.mode", "max"),
    ],
)  # fmt: skip
def test_content_makes_another_run(default: DictConfig, key: str, value: Any) -> None:
    assert config_hash(with_value(default, key, value)) != config_hash(default)


def test_callbacks_that_choose_the_last_step_make_another_run() -> None:
    default = {"_target_": "runner.callbacks.EarlyStopping", **LATER["callback"]}
    parts = [
        {"progress": {"_target_": "runner.callbacks.Progress"}, "early_stopping": default},
        {"early_stopping": {**default, "patience": 9}},
        {"mine": {"_target_": "runner.callbacks.StopAfter", "steps": 3}},
    ]
    hashes = [config_hash(OmegaConf.create({"callback": part})) for part in ({}, *parts)]
    assert hashes[1] == hashes[0] + STOPS_EARLY, "by which runs of earlier versions are found"
    assert len({*hashes}) == 4


def test_execution_names_of_a_component_of_the_users_own_are_those_of_its_group() -> None:
    own = {"_target_": "mine.Data", "num_workers": 1}
    assert {"num_workers", "layout", "cache_dir", "num_val_workers"} <= execution_names("data", own)
    lion = {"_target_": "runner.optim.lion"}
    assert execution_names("optimizer", lion) == set(), "lion has no field that is execution"
    assert "fused" in execution_names("optimizer", {"_target_": "mine.Optimizer"})


def test_moved_class_makes_no_other_run(default: DictConfig) -> None:
    moved = with_value(default, "optimizer._target_", "tiryns.optim.elementwise.adamw")
    moved = with_value(moved, "data.source._target_", "tiryns.demo.StdlibText")
    moved = with_value(moved, "module._target_", "tiryns.modules.pretraining.PretrainingRun")
    assert config_hash(moved) == config_hash(default)
    assert config_hash(with_value(default, "optimizer._target_", "runner.optim.adam")) != config_hash(default)


def test_settings_that_came_later_change_no_hash_until_they_are_set(default: DictConfig) -> None:
    values: Any = OmegaConf.to_container(default, resolve=False)
    values.pop("skip_batches")
    for group, later in LATER.items():
        values[group] = {name: value for name, value in values[group].items() if name not in later}
    assert config_hash(OmegaConf.create(values)) == config_hash(default)


@pytest.mark.parametrize("group", LATER)
def test_settings_that_came_later_are_left_out_at_their_defaults(group: str) -> None:
    """Those of the option that had them first; a new option may have its own."""
    later, found = LATER[group], set()
    for option in OPTIONS[group].values():
        for f in fields(option):
            if f.name in later:
                found.add(f.name)
                owner: Any = [c for c in option.__mro__ if f.name in inspect.get_annotations(c)][-1]
                first: Any = owner.__dataclass_fields__[f.name]
                default = first.default if first.default_factory is MISSING else first.default_factory()
                assert later[f.name] == default, f"{option.__name__}.{f.name}"
    assert found == set(later)


def test_targets_of_a_group_differ_in_their_last_names() -> None:
    """So the last name alone tells them apart in the hash."""
    for group, options in OPTIONS.items():
        targets = {target for o in options.values() if (target := getattr(o, "_target_", None))}
        assert len({target.rpartition(".")[2] for target in targets}) == len(targets), group


FROZEN = {
    "92e924ec11917cd2": {
        "seed": 42,
        "optimizer": {"_target_": "runner.optim.adamw", "lr": 1e-3, "betas": [0.9, 0.999], "fused": True},
        "trainer": {"_target_": "runner.loop.build_trainer", "max_steps": 3, "devices": 2},
        "checkpoint": {"_target_": "runner.checkpoints.Checkpoint", "keep_last": 9, "monitor": None},
        "outputs": "here",
    },
    "d2f8f80346bfcb23": {
        "seed": 42,
        "data": {"_target_": "mine.Data", "source": {"_target_": "mine.source.Birds"}, "num_workers": 3},
        "callback": {"progress": {"_target_": "runner.callbacks.Progress"}},
    },
}
"""Hashes by which `resume` finds runs that were made before."""


@pytest.mark.parametrize(("expected", "values"), FROZEN.items())
def test_hash_of_a_config_stays_what_it_was(expected: str, values: dict[str, Any]) -> None:
    """Where this fails, `resume=auto` finds no earlier run and `resume=RUN` branches: say so in the changelog."""
    assert config_hash(OmegaConf.create(values)) == expected


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    "chosen", [["data=files", "data.source=x"], ["experiment=classification"], ["experiment=vlm_shapes"]]
)
def test_held_out_samples_are_the_same_for_every_seed(chosen: list[str]) -> None:
    assert composed(chosen).data.seed == composed([*chosen, "seed=7"]).data.seed == 0


def test_every_option_that_holds_out_samples_has_the_same_default() -> None:
    found = [f.default for option in OPTIONS["data"].values() for f in fields(option) if f.name == "seed"]
    assert set(found) == {0}


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("optimizer.lr", -1.0, "optimizer.lr=-1.0: it must be a number, 0 or more"),
        ("callback.throughput.window", 0, "callback.throughput.window=0: it must be a whole number, 1 or more"),
        ("mode", "look", "mode=look: there are: train, inspect"),
        ("data.validation_documents", float("inf"), "data.validation_documents=inf: it must be a number"),
    ],
)  # fmt: skip
def test_check_reads_the_rules_of_fields(default: DictConfig, key: str, value: Any, expected: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(expected)):
        check_config(with_value(default, key, value))


def test_shares_of_targets_are_checked_together_in_the_run_and_in_phases() -> None:
    message = r"objective\.mask_share=0\.9 and objective\.random_share=0\.2 are more than 1 together"
    check_config(composed(["objective.mask_share=0.8", "objective.random_share=0.2"]))
    check_config(composed(["objective.mask_share=0.9"]))
    with pytest.raises(ValueError, match=message):
        check_config(composed(["objective.mask_share=0.9", "objective.random_share=0.2"]))
    phases = "phases=[{name: a, steps: 2}, {name: b, steps: 2, objective: {mask_share: 0.9}}]"
    with pytest.raises(ValueError, match=message):
        check_config(composed(["objective.random_share=0.2", phases]))


def test_sophiah_is_refused_in_fp16() -> None:
    with pytest.raises(ValueError, match=r"too large for fp16: set trainer\.precision=bf16-mixed"):
        check_config(composed(["optimizer=sophiah", "trainer.precision=16-mixed"]))


BUILT = [
    ("callback.x", "runner.callbacks.Progress", {"refresh_per_second": 0}, "callback.x.refresh_per_second=0: it must"),
    ("callback.x", "runner.callbacks.Divergence", {"action": "back"}, "callback.x.action=back: there are: stop, rewind"),
    ("checkpoint", "runner.checkpoints.Checkpoint", {"keep_last": 0}, "checkpoint.keep_last=0: it must be"),
    ("data", "runner.data.FinetuningData", {"max_length": 4}, "data.max_length=4: it must be a whole number, 8"),
    ("model", "runner.models.build_encoder", {"hidden_size": 0}, "model.hidden_size=0: it must be a whole number"),
    ("trainer", "runner.loop.build_trainer", {"validate_every": -1}, "trainer.validate_every=-1: it must be"),
]  # fmt: skip


@pytest.mark.parametrize(("place", "target", "values", "expected"), BUILT)
def test_part_is_built_by_the_rules_of_its_fields(
    place: str, target: str, values: dict[str, Any], expected: str
) -> None:
    """A program that builds parts without the command line is told the same."""
    config = OmegaConf.create({})
    OmegaConf.update(config, place, {"_target_": target, **values})
    with pytest.raises(ValueError, match="^" + re.escape(expected)):
        bind(OmegaConf.select(config, place))


@pytest.mark.rows(1)
@pytest.mark.parametrize("data", ["stdlib_text", "files", "classification"])
def test_tokenizer_is_that_of_the_pretrained_model_unless_another_one_is_named(data: str) -> None:
    named = ["model=pretrained", "model.name_or_path=some/model"]
    assert composed([f"data={data}"]).data.tokenizer is None
    assert composed([f"data={data}", *named]).data.tokenizer == "some/model"
    assert composed([f"data={data}", *named, "data.tokenizer=null"]).data.tokenizer is None
