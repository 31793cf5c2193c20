"""What is patched in OmegaConf is still needed, and does what it says."""

import copy
import inspect
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import Node, OmegaConf, _utils, base, errors
from omegaconf import nodes as omegaconf_nodes
from omegaconf.grammar_parser import parse

from tests.patches.test_training import public
from tiryns.runner.patches import omegaconf


def test_omegaconf_still_has_no_public_path_of_a_node() -> None:
    root = OmegaConf.create({"model": {"layers": {"size": 1}}})
    assert omegaconf.full_key(root.model.layers) == "model.layers"
    assert omegaconf.full_key(root) == ""
    assert not [name for name in public(OmegaConf) if "full_key" in name], "omegaconf.py"


def test_omegaconf_parses_a_text_anew_and_kept_trees_resolve_alike() -> None:
    assert parse("${a}") is not parse("${a}"), "omegaconf.py"
    omegaconf.quicken()
    kept: Any = base
    tree = kept.parse("${oc.select:a.b,7}/${a.b}")
    values = [OmegaConf.create({"a": {"b": n}, "c": "${oc.select:a.b,7}/${a.b}"}).c for n in (1, 2)]
    assert values == ["1/1", "2/2"]
    assert kept.parse("${oc.select:a.b,7}/${a.b}") is tree
    for _ in range(2):
        with pytest.raises(errors.GrammarParseError):
            kept.parse("${a")


@dataclass
class Sized:
    size: int = 3
    sizes: list[int] = field(default_factory=lambda: [1, 2])
    rate: float | None = None
    named: int | str = "small"


def nodes(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    yield path, node
    content = node.__dict__.get("_content")
    if isinstance(content, dict | list):
        for key, value in content.items() if isinstance(content, dict) else enumerate(content):
            assert value._get_parent() is node
            yield from nodes(value, f"{path}/{key}")
    elif isinstance(content, Node):
        yield from nodes(content, f"{path}/")


def test_omegaconf_copies_metadata_deeply_and_quick_copies_are_its_own() -> None:
    assert "copy.deepcopy(self._metadata" in inspect.getsource(omegaconf_nodes), "omegaconf.py"
    omegaconf.quicken()
    OmegaConf.register_new_resolver("drawn", lambda: random.random(), use_cache=True, replace=True)
    root = OmegaConf.create(
        {"a": {"b": [1, {"c": None}]}, "d": "${a.b}", "e": "???", "f": "${drawn:}", "g": {}}
    )
    root.sized = OmegaConf.structured(Sized)
    OmegaConf.set_struct(root.sized, True)
    OmegaConf.set_readonly(root.a, True)
    drawn = root.f
    copies: list[Any] = [copy.deepcopy(root), root.copy(), copy.deepcopy({"in": root})["in"]]
    for made in copies:
        for (path, ours), (same, theirs) in zip(nodes(root), nodes(made), strict=True):
            assert (path, type(ours), ours._metadata) == (same, type(theirs), theirs._metadata)
            assert ours is not theirs
            assert ours._metadata is not theirs._metadata
            assert ours._metadata.flags is not theirs._metadata.flags
            assert ours.__dict__.get("_val") is theirs.__dict__.get("_val")
        assert (made, made.f, made.d) == (made.copy(), drawn, [1, {"c": None}])
        with pytest.raises(errors.ReadonlyConfigError):
            made.a.b = 2
        with pytest.raises(errors.ConfigAttributeError):
            made.sized.other = 2
        with pytest.raises(errors.ValidationError):
            made.sized.size = "x"
        made.sized.sizes.append(3)
        OmegaConf.set_readonly(made, False)
        OmegaConf.clear_cache(made)
        assert made.f != drawn
    assert (root.sized.sizes, root.f) == ([1, 2], drawn)
    part = copy.deepcopy(root.a)
    assert part._get_parent() is root
    assert part.b == root.a.b


TEXT = """
anchor: &kept {rate: 1e-3, day: 2026-11-29, on: yes, nothing: ~, quoted: "1e-3"}
again: *kept
list: [1, 0x1f, .5, 1_000, "\u00e9\u4e2d\U0001f600"]
path: !!python/object/apply:pathlib.PosixPath [a, b]
text: |
  two
  lines
"""


def test_omegaconf_reads_yaml_in_python_and_the_quick_loader_reads_alike(tmp_path: Path) -> None:
    omegaconf.quicken()
    python, quick = omegaconf._python_loader(), _utils.get_yaml_loader()
    assert "CParser" not in str(python.__mro__), "omegaconf.py"
    ours, theirs = (yaml.load(TEXT, Loader=loader) for loader in (quick, python))
    assert repr(ours) == repr(theirs)
    assert ours["again"] == {
        "rate": 0.001, "day": "2026-11-29", True: True, "nothing": None, "quoted": "1e-3",
    }  # fmt: skip
    (tmp_path / "twice.yaml").write_text("a: 1\nb: 2\na: 3\n")
    with pytest.raises(yaml.constructor.ConstructorError, match="found duplicate key a"):
        OmegaConf.load(tmp_path / "twice.yaml")


def test_omegaconf_loses_signs_in_yaml_and_what_libyaml_writes_comes_back(tmp_path: Path) -> None:
    values = {
        "of": "one\u0085", "wide": "\U0001f600 é", "numbers": ["1e-3", "yes", 0.001, True, None], "empty": {},
    }  # fmt: skip
    ways = {"default_flow_style": False, "allow_unicode": True, "sort_keys": False}
    by_python = yaml.dump(values, Dumper=omegaconf._python_dumper(), **ways)
    assert yaml.load(by_python, Loader=omegaconf._python_loader()) != values, "omegaconf.py"
    omegaconf.quicken()
    text = OmegaConf.to_yaml(OmegaConf.create(values))
    assert OmegaConf.create(text) == values
    usual = {name: values[name] for name in ("numbers", "empty")}
    assert OmegaConf.to_yaml(usual) == yaml.dump(usual, Dumper=omegaconf._python_dumper(), **ways)


def test_parts_are_those_that_omegaconf_hands_out() -> None:
    config = OmegaConf.create(
        {
            "a": {"b": [1, {"c": None}]},
            "ref": "${a}",
            "used": "${a.b[0]}",
            "no": "???",
            "hydra": {"x": 1},
            "g": [],
        }
    )
    assert [(name, value) for _, name, value in omegaconf.parts(config) if not OmegaConf.is_config(value)] == [
        (0, 1), ("c", None), ("ref", "${a}"), ("used", "${a.b[0]}")
    ]  # fmt: skip
    found = [(name, value) for _, name, value in omegaconf.used_parts(config)]
    assert [name for name, _ in found] == ["a", "b", 0, 1, "c", "ref", "b", 0, 1, "c", "used", "g"]
    assert found[-2:] == [("used", 1), ("g", [])]
    for node, name, value in omegaconf.used_parts(config):
        assert node[name] == value
        assert type(node[name]) is type(value)
    assert omegaconf.raw_values(config.a.b) == [1, {"c": None}]
    with pytest.raises(errors.MissingMandatoryValue):
        omegaconf.used_value(config, "no", "???")
    nested = OmegaConf.create({"model": {"hydra": {"x": 1}}})  # Hydra's own node is at the root alone
    assert [name for _, name, _ in omegaconf.parts(nested)] == ["model", "hydra", "x"]
