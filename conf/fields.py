"""Every option with its fields: type, default, documentation. Imports nothing heavy."""

import ast
import inspect
import sys
from collections.abc import Mapping
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import dataclass, fields
from functools import cache
from itertools import pairwise
from typing import Any, get_args, get_type_hints

from omegaconf import MISSING

from tiryns.conf.config import DEFAULTS, Config
from tiryns.conf.registry import OPTIONS
from tiryns.conf.values import Named, Rule, rules_of


@dataclass(frozen=True)
class Field:
    """One setting of an option."""

    key: str
    """Name of the setting on the command line, such as `optimizer.lr`."""
    type: Any
    """The annotation."""
    default: Any
    """The default, with unresolved interpolations; `???` if a value is required."""
    doc: str
    allowed: Rule | None = None
    execution: bool = False
    runs_code: bool = False
    """`allowed`, `execution` and `runs_code` are the arguments of `setting`."""

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rpartition(".")[2]

    @property
    def about(self) -> str:
        """The documentation of the setting, followed by its rules for resuming and for recipes."""
        on_resume = " May change on resume." if self.execution else ""
        return self.doc + on_resume + (" Counts on the command line alone." if self.runs_code else "")

    @property
    def type_name(self) -> str:
        """The allowed values in words; without a rule, or with a `Named` rule, the type."""
        if self.allowed is not None and not isinstance(self.allowed, Named):
            optional = self.type is Any or type(None) in get_args(self.type)
            return f"{self.allowed}" + (" | none" if optional else "")
        if isinstance(self.type, type):
            return self.type.__name__
        return "any" if self.type is Any else str(self.type).replace("tiryns.conf.optimizer.elementwise.", "")


def fields_of(node: type, prefix: str) -> list[Field]:
    """Returns the settings of an option's dataclass; `prefix` begins their keys, such as `logger.wandb`."""
    hints, docs, rules = get_type_hints(node), field_docs(node), rules_of(node)
    all_fields = []
    for f in fields(node):
        if f.name not in ("_target_", "_convert_"):  # which are no settings
            default = f.default_factory() if f.default_factory is not NO_DEFAULT else f.default
            key = f"{prefix}.{f.name}".lstrip(".")
            all_fields.append(Field(key, hints[f.name], default, docs.get(f.name, ""), **rules[f.name]))
    return all_fields


def check_fields(node: type, prefix: str, values: Mapping[str, Any]) -> None:
    """Raises ValueError for a value of an option that its field does not allow; missing values are allowed."""
    for name, rules in rules_of(node).items():
        value, rule = values.get(name), rules.get("allowed")
        problem = rule.problem(value) if rule and value not in (None, MISSING) else None
        if problem:
            key = f"{prefix}.{name}".lstrip(".")
            raise ValueError(f"{key}={value if value != '' else repr(value)}: {problem}")


def root_fields() -> list[Field]:
    """Returns the settings of the whole run."""
    names = {"defaults", "hydra", *OPTIONS}
    return [field for field in fields_of(Config, "") if field.key not in names]


def default_options() -> dict[str, str]:
    """Returns the default option of each group."""
    pairs = [pair for entry in DEFAULTS if isinstance(entry, dict) for pair in entry.items()]
    return {group.removeprefix("override "): str(option) for group, option in pairs if option}


def is_part(group: str, option: str) -> bool:
    """Whether an option only adds an entry with its name to the group, as loggers and callbacks do."""
    from hydra.core.config_store import ConfigStore

    return list(ConfigStore.instance().load(f"{group}/{option}.yaml").node) == [option]


def summary(node: type) -> str:
    """Returns the first line of a dataclass's docstring."""
    return (inspect.getdoc(node) or "").partition("\n\n")[0].replace("\n", " ")


def field_docs(node: type) -> dict[str, str]:
    """Returns the documentation of each field: the string below it, in the dataclass or in a base class."""
    docs: dict[str, str] = {}
    for cls in reversed(node.__mro__[:-1]):
        docs |= _docs_of_module(cls.__module__).get(cls.__qualname__, {})
    return docs


@cache
def _docs_of_module(name: str) -> dict[str, dict[str, str]]:
    """Returns the strings below the fields of a module's classes, by class and field; parses each module once."""
    docs: dict[str, dict[str, str]] = {}
    module = ast.parse(inspect.getsource(sys.modules[name]))
    for cls in (node for node in module.body if isinstance(node, ast.ClassDef)):
        for pair in pairwise(cls.body):
            match pair:
                case ast.AnnAssign(target=ast.Name(id=field)), ast.Expr(value=ast.Constant(value=text)):
                    docs.setdefault(cls.name, {})[field] = " ".join(str(text).split())
    return docs
