"""The YAML of a suite: what it may say, how it builds on another one, and what is typed beside it."""

from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from tiryns.runner.sweeps.suite.definition import chosen_tasks, merge, with_typed
from tiryns.runner.sweeps.suite.fields import Suite, read_suite
from tiryns.runner.sweeps.words import as_sweep

TASK: dict[str, Any] = {"metric": "accuracy"}


def one(**fields: Any) -> dict[str, Any]:
    return {"tasks": {"a": {**TASK, **fields}}}


WRONG: dict[str, tuple[Any, str]] = {
    "no tasks": ({}, r"suite s: tasks is missing; expected a mapping"),
    "field": ({"task": {}}, r"suite s: field\.task is unknown; .*Did you mean 'tasks'"),
    "field of a task": (
        one(metrics="f1"),
        r"suite s, task a: field\.metrics is .*Did you mean 'metric'",
    ),
    "no metric": ({"tasks": {"a": {}}}, r"suite s, task a: metric is missing"),
    "both ways": (
        one(metric=["f1", "loss"]),
        r"task a: of metric some are better when large, and some when small",
    ),
    "overrides": (one(overrides="x=1"), r"task a: overrides is 'x=1'; expected a list"),
    "no override": (one(overrides=["x"]), r"task a: 'x' is no override"),
    "several values": (one(overrides=["x=1,2"]), r"task a: x=1,2 has several values: they belong in grid"),
    "hydra": (one(overrides=["hydra/launcher=ray"]), r"task a: hydra/launcher=ray: .* on the command line"),
    "grid": (one(grid={"x": 3}), r"task a: grid\.x is 3; expected a list"),
    "twice": (one(grid={"x": ["1", 1]}), r"task a: grid\.x has a value twice"),
    "seeds": (one(seeds=0), r"task a: seeds is 0; expected a list of whole numbers"),
    "keep": (one(keep=2), r"task a: keep is 2; expected a share"),
    "start": (one(start_from="b"), r"task a: it starts from 'b'; the tasks are: a"),
    "circle": (one(start_from="a"), r"task a: it starts from 'a', which starts from it"),
    "summary": ({**one(), "summary": {"m": ["b"]}}, r"suite s: summary\.m\.b; the tasks are: a"),
    "name of a task": ({**one(), "summary": {"a": ["a"]}}, r"summary\.a has the name of a task"),
    "folder": (
        one(sources={"f": ["x='{data}/a'"]}),
        r"task a: the source f is read from files: .*suite\.data=FOLDER",
    ),
}


@pytest.mark.parametrize("content", WRONG.values(), ids=WRONG)
def test_wrong_suite_is_refused_with_its_place_in_one_line(content: tuple[Any, str]) -> None:
    with pytest.raises(ValueError, match=content[1]) as error:
        read_suite("s", content[0])
    assert "\n" not in str(error.value)


def words(suite: Suite, task: str = "a") -> tuple[str, ...]:
    return suite.tasks[task].overrides


def test_shared_fields_hold_for_tasks_that_lack_them() -> None:
    content = {
        "overrides": ["x=1", "y=1"], "seeds": 2, "metric": "f1", "grid": {"z": [1e-5, "1e-4"]},
        "tasks": {"a": {}, "b": {"overrides": ["x=2"], "seeds": [7], "metric": ["mcc"], "chosen_by": "loss"}},
    }  # fmt: skip
    suite = read_suite("s", content)
    assert words(suite) == ("x=1", "y=1")
    assert words(suite, "b") == ("y=1", "x=2")
    assert (suite.tasks["a"].seeds, suite.tasks["b"].seeds) == ((1, 2), (7,))
    assert (suite.tasks["b"].metric, suite.tasks["b"].chosen_by) == (("mcc",), ("loss",))
    assert suite.tasks["a"].settings == [("z=1e-05",), ("z=1e-4",)]
    assert suite.summary == {"mean": ("a", "b")}


def test_source_is_the_first_or_that_of_files_or_the_one_that_is_named() -> None:
    sources = {"files": ["data.train='{data}/f'"], "zip": ["data.train='{data}/z'"]}
    content = one(sources={"hub": ["data.train=h"], **sources})
    assert words(read_suite("s", content)) == ("data.train=h",)
    assert words(read_suite("s", content, "my folder")) == ("data.train='my folder/f'",)
    assert words(read_suite("s", content, "d", "zip")) == ("data.train='d/z'",)
    with pytest.raises(ValueError, match=r"no source 'zp'; there are: hub, files, zip\. Did you mean 'zip'"):
        read_suite("s", content, "d", "zp")
    with pytest.raises(ValueError, match=r"no sources with \{data\}, so suite\.data=d does not count"):
        read_suite("s", one(), "d")


def test_what_is_typed_fixes_a_value_of_the_grid_or_widens_it() -> None:
    suite = read_suite("s", one(overrides=["w=1"], grid={"x": [1, 2], "y": [1, 2]}))
    typed = OverridesParser.create().parse_overrides(["x=3", "z=4,5", "seed=8,9", "w=2"])
    task = with_typed(suite, typed).tasks["a"]
    assert task.overrides == ("x=3", "w=2")
    assert dict(task.grid) == {"y": ("1", "2"), "z": ("4", "5")}
    assert task.seeds == (8, 9)


def test_tasks_are_chosen_with_those_that_they_start_from() -> None:
    suite = read_suite("s", {"metric": "f1", "tasks": {"a": {}, "b": {"start_from": "a"}, "c": {}}})
    assert list(chosen_tasks(suite, ["c"]).tasks) == ["c"]
    assert chosen_tasks(suite, ["c"]).summary == {"mean": ("c",)}
    with pytest.raises(ValueError, match="b starts from a: name both"):
        chosen_tasks(suite, ["b"])
    with pytest.raises(ValueError, match="has no task 'd'"):
        chosen_tasks(suite, ["d"])


def test_base_is_changed_field_by_field() -> None:
    base = {"seeds": 3, "tasks": {"a": {"metric": "f1", "keep": 1}, "b": {"metric": "f1"}}}
    own = {"base": "s", "tasks": {"a": {"seeds": 1}, "b": None, "c": {"metric": "mcc"}}}
    changed = {"a": {"metric": "f1", "keep": 1, "seeds": 1}, "c": {"metric": "mcc"}}
    assert merge(base, own)["tasks"] == changed


def test_command_of_a_suite_is_that_of_a_sweep() -> None:
    typed = "suite=glue model=a/b,c suite.tasks=x,y seed=1,2 data.train=${oc.env:D} outputs=o"
    found = as_sweep(typed.split())
    assert found == [
        "-m", "hydra/sweeper=suite", "hydra.sweeper.suite='glue'", "hydra.sweeper.models=['a/b','c']",
        "hydra.sweeper.tasks=['x','y']", "hydra.sweeper.overrides=['seed=1,2','data.train=\\${oc.env:D}']", "outputs=o",
    ]  # fmt: skip
    again = as_sweep([*found, "seed=3", "model=d"])
    assert "hydra.sweeper.models=['d']" in again
    assert "hydra.sweeper.overrides=['data.train=\\${oc.env:D}','seed=3']" in again
    assert as_sweep(["-m", "seed=1,2"]) == ["-m", "seed=1,2"]
    assert as_sweep(["-sc", "query=bash", "suite=gl"]) == ["-sc", "query=bash", "suite=gl"]
    assert "-m" not in as_sweep(["--cfg", "job", "suite=small"])
    with pytest.raises(ValueError, match="a suite chooses among"):
        as_sweep(["suite=small", "hydra/sweeper=optuna"])
