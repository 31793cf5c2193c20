"""What the command line answers without a run: --info, --schema, --version."""

import json
from importlib.metadata import version
from pathlib import Path

import pytest
from hydra import compose
from omegaconf import OmegaConf

from tests.support import needs
from tests.support.in_process import refused, tiryns_here
from tiryns.conf import fields as options
from tiryns.conf.registry import OPTIONS
from tiryns.conf.values import Bounds, Choice
from tiryns.runner.cli.commands import command_first
from tiryns.runner.cli.compose import initialize
from tiryns.runner.cli.schema import schema

RECIPES = sorted((Path(__file__).parents[2] / "conf" / "experiment").glob("*.yaml"))


def lines_about(text: str, key: str) -> list[str]:
    """The line that shows a setting, and what follows it up to the next one."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.split()[:1] == [key])
    end = next((i for i in range(start + 1, len(lines)) if not lines[i].startswith("      ")), len(lines))
    return lines[start:end]


def test_info_alone_lists_every_group_and_option_with_a_line(tmp_path: Path) -> None:
    text = tiryns_here(tmp_path, "--info").stdout
    for group, nodes in OPTIONS.items():
        assert f"\n{group}" in f"\n{text}", group
        for name, node in nodes.items():
            first = options.summary(node).split()[:5]
            assert f"  {name} " in text
            assert " ".join(first) in text, name
    assert "question_answering  Answers in docstrings" in text or "question_answering" in text
    assert "(default adamw)" in text
    assert not list(tmp_path.iterdir())


def test_info_shows_where_every_value_comes_from(tmp_path: Path) -> None:
    (tmp_path / "own" / "experiment").mkdir(parents=True)
    recipe = "# @package _global_\n# The recipe of the tests.\noptimizer:\n  weight_decay: 0.03\n"
    (tmp_path / "own" / "experiment" / "mine.yaml").write_text(recipe)
    words = ["--config-dir", "own", "--info", "optimizer=lion", "experiment=mine", "optimizer.lr=0.5"]
    text = tiryns_here(tmp_path, *words).stdout
    assert "The recipe of the tests." in text
    assert lines_about(text, "optimizer.lr")[0].split()[1:] == ["0.5", "[override]"]
    assert lines_about(text, "optimizer.weight_decay")[0].split()[1:] == ["0.03", "[recipe", "mine]"]
    quantized = lines_about(text, "optimizer.quantized")
    assert quantized[0].split()[1:] == ["false", "[default]"]
    assert "bool. Keeps the state in 8 bits" in quantized[1]
    assert "a number, 0 or more. Peak learning rate" in lines_about(text, "optimizer.lr")[1]


def test_info_says_what_may_change_on_resume_and_what_only_a_command_may_set(tmp_path: Path) -> None:
    text = tiryns_here(tmp_path, "--info", "module", "hydra/launcher=slurm").stdout
    assert "May change on resume." in " ".join(lines_about(text, "module.gradient_checkpointing"))
    assert "May change on resume." not in " ".join(lines_about(text, "module.max_grad_norm"))
    assert "Counts on the command line alone." in " ".join(lines_about(text, "hydra.launcher.setup"))


def test_info_of_a_recipe_shows_what_it_changes(tmp_path: Path) -> None:
    text = tiryns_here(tmp_path, "--info", "experiment=diffusion").stdout
    assert "  optimizer=muon" in text
    assert lines_about(text, "data.vocab_size")[0].split()[1:] == ["2048", "[recipe", "diffusion]"]
    assert "data.max_length" not in text


def test_info_of_parts_shows_each_of_them(tmp_path: Path) -> None:
    text = tiryns_here(tmp_path, "--info", "logger=[csv,wandb]", "callback").stdout
    assert "[default]" in lines_about(text, "logger.wandb.project")[0]
    assert lines_about(text, "callback.throughput.window")[0].split()[1] == "50"


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["optimzer"], "there is no group 'optimzer'. Did you mean 'optimizer'?"),
        (["optimizer=lionn"], "Did you mean 'lion'?"),
        (["optimizer.lrr=1"], "Did you mean 'optimizer.lr'?"),
        (["optimizer", "--wrong"], "unrecognized arguments: --wrong"),
        (["optimizer", "--config-dir", "nowhere"], "--config-dir: there is no folder 'nowhere'"),
    ],
)
def test_wrong_word_after_info_is_one_message(tmp_path: Path, words: list[str], expected: str) -> None:
    assert expected in refused(tmp_path, "--info", *words)


def test_flags_are_written_out(tmp_path: Path) -> None:
    done = tiryns_here(tmp_path, "predict", "run", "a text", "--text-colum", "text")
    assert "unrecognized arguments: --text-colum" in done.stderr


def test_version_is_that_of_the_package(tmp_path: Path) -> None:
    assert tiryns_here(tmp_path, "--version").stdout.startswith(f"tiryns {version('tiryns')} (torch ")


def test_every_rule_lets_the_default_of_its_setting_through() -> None:
    every = options.root_fields()
    for group, nodes in OPTIONS.items():
        for name, node in nodes.items():
            every += options.fields_of(node, f"{group}.{name}" if options.is_part(group, name) else group)
    ruled = [field for field in every if field.allowed is not None]
    assert len({field.key for field in ruled}) > 70
    for field in ruled:
        default = field.default
        if default not in (None, "???") and "${" not in str(default):
            assert field.allowed is not None
            assert field.allowed.problem(default) is None, field


def test_rules_say_what_is_wrong() -> None:
    assert Choice(("a", "b")).problem("a") is None
    assert Choice(("a", "b")).problem("c") == "there are: a, b"
    share = Bounds(0, 1, open_low=True)
    fits = [share.problem(x) is None for x in (0, 0.1, 1, 1.1, float("nan"))]
    assert fits == [False, True, True, False, False]
    assert Bounds(0).problem(float("inf")) == "it must be a number, 0 or more"
    assert Bounds(1, whole=True).problem(1.5) == "it must be a whole number, 1 or more"
    assert Bounds(0).problem("much") == "expected a number, 0 or more"
    assert Bounds(0).problem(True) == "expected a number, 0 or more"


@pytest.mark.rows(5)
@pytest.mark.parametrize("recipe", RECIPES, ids=[recipe.stem for recipe in RECIPES])
def test_schema_takes_every_recipe(recipe: Path) -> None:
    jsonschema = needs.package("jsonschema")
    content = OmegaConf.to_container(OmegaConf.load(recipe), resolve=False)
    jsonschema.Draft202012Validator(schema()).validate(content)


@pytest.mark.rows(3)
@pytest.mark.parametrize(
    "recipe",
    [
        {"optimizer": {"lrr": 1}},
        {"optimizer": {"lr": -1}},
        {"trainer": {"max_steps": 1.5}},
        {"data": {"layout": "spiral"}},
        {"logger": {"wandb": {"projekt": "x"}}},
        {"optimizer": {"momentum": 0.9, "betas": [0.9, 0.99]}},
    ],
    ids=str,
)
def test_schema_refuses_what_composing_would(recipe: dict[str, object]) -> None:
    jsonschema = needs.package("jsonschema")
    assert not jsonschema.Draft202012Validator(schema()).is_valid(recipe)


@pytest.mark.slow
def test_schema_takes_a_whole_config_and_components_of_others(tmp_path: Path) -> None:
    jsonschema = needs.package("jsonschema")
    printed = json.loads(tiryns_here(tmp_path, "--schema").stdout)
    validator = jsonschema.Draft202012Validator(printed)
    validator.check_schema(printed)
    with initialize():
        config = OmegaConf.to_container(compose("config"), resolve=False)
    assert isinstance(config, dict)
    validator.validate(config)
    validator.validate({"objective": {"_target_": "mine.Objective", "volume": 11}, "seed": "${oc.env:SEED}"})
    assert printed["$defs"]["optimizer.adamw"]["properties"]["lr"]["description"].startswith(
        "Peak learning rate"
    )


MEANT = [
    (["--config-dir", "conf", "plan", "seed=3"], ["plan", "seed=3", "--config-dir", "conf"]),
    (["-cd", "plan", "plan"], ["plan", "-cd", "plan"]),
    (["--json", "prepare", "corpus", "a.txt"], ["prepare", "corpus", "a.txt", "--json"]),
    (["-m", "train", "seed=1,2"], ["train", "seed=1,2", "-m"]),
    (["--json", "judge", "a", "--", "seed=1"], ["judge", "a", "--json", "--", "seed=1"]),
    (["predict", "RUN", "train"], ["predict", "RUN", "train"]),
    (["--config-name", "plan", "seed=3"], ["--config-name", "plan", "seed=3"]),
    (["--rank", "plan"], ["--rank", "plan"]), (["predcit", "train"], ["predcit", "train"]), ([], []),
]  # fmt: skip


@pytest.mark.parametrize(("typed", "meant"), MEANT, ids=lambda words: " ".join(words))
def test_flags_come_behind_the_command_that_they_stand_before(typed: list[str], meant: list[str]) -> None:
    assert command_first(typed) == meant


@pytest.mark.parametrize(
    "words", [["seed=3", "plan"], ["--json", "seed=3", "plan"], ["seed=3", "-m", "train"]]
)
def test_command_behind_settings_is_told_where_it_stands(tmp_path: Path, words: list[str]) -> None:
    error = refused(tmp_path, *words)
    assert error.startswith(f"error: the command {words[-1]!r} stands behind settings; expected it before")
    assert error.count("\n") == 1 + ("--json" in words)
