"""Every option with its fields: type, default, documentation. Imports nothing heavy."""

import ast
import inspect
import sys
from collections.abc import Mapping
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, get_type_hints

from omegaconf import MISSING

from iolaus.conf.config import DEFAULTS, Config
from iolaus.conf.registry import OPTIONS
from iolaus.conf.values import Choice, Named, Rule, rules_of, suggest

UNSEEN = ("_target_", "_convert_")
"""Fields that say what is built, not how."""


@dataclass(frozen=True)
class Field:
    """One setting of an option."""

    key: str
    """Its name on the command line, such as `optimizer.lr`."""
    type: Any
    """The annotation."""
    default: Any
    """As the dataclass has it, interpolations as they stand; `???` where a value must be given."""
    doc: str
    allowed: Rule | None = None
    """What it may be beyond its type."""
    execution: bool = False
    """Whether it says how a run is executed, not what it computes."""
    runs_code: bool = False
    """Whether it lets code of others run."""

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rpartition(".")[2]

    @property
    def about(self) -> str:
        """What it means, with what only its field says."""
        notes = ["May change on resume."] if self.execution else []
        return " ".join(
            [self.doc, *notes, *(["Counts on the command line alone."] if self.runs_code else [])]
        )

    @property
    def type_name(self) -> str:
        """The type as it is written, or what else is allowed."""
        if self.allowed is not None and not isinstance(self.allowed, Named):
            optional = self.type is Any or type(None) in getattr(self.type, "__args__", ())
            return f"{self.allowed}" + (" | none" if optional else "")
        if self.type is Any:
            return "any"
        return (
            self.type.__name__
            if isinstance(self.type, type)
            else str(self.type).replace("conf.optimizer.elementwise.", "")
        )


def fields_of(node: type, prefix: str) -> list[Field]:
    """The fields of an option's dataclass, less what names its target; `prefix` is its group, or group and part."""
    hints, docs, rules = get_type_hints(node), field_docs(node), rules_of(node)
    found = []
    for f in fields(node):
        if f.name not in UNSEEN:
            default = f.default_factory() if f.default_factory is not NO_DEFAULT else f.default
            key = f"{prefix}.{f.name}".lstrip(".")
            found.append(Field(key, hints[f.name], default, docs.get(f.name, ""), **rules[f.name]))
    return found


def check_fields(node: type, prefix: str, values: Mapping[str, Any]) -> None:
    """Raises ValueError for a value of an option that its field does not allow; missing values are passed over."""
    for field in fields_of(node, prefix):
        value = values.get(field.name)
        if field.allowed is None or value in (None, MISSING):
            continue
        if problem := field.allowed.problem(value):
            near = suggest(str(value), field.allowed.words) if isinstance(field.allowed, Choice) else ""
            raise ValueError(f"{field.key}={value if value != '' else repr(value)}: {problem}{near}")


def root_fields() -> list[Field]:
    """The settings that belong to the whole run."""
    skipped = {"defaults", "hydra", *OPTIONS}
    return [field for field in fields_of(Config, "") if field.key not in skipped]


def default_options() -> dict[str, str]:
    """The option of each group that is taken where none is named."""
    pairs = [pair for entry in DEFAULTS if isinstance(entry, dict) for pair in entry.items()]
    return {group.removeprefix("override "): str(option) for group, option in pairs if option}


def is_part(group: str, option: str) -> bool:
    """Whether an option adds one mapping of its own name to the group, as those of loggers and callbacks do."""
    from hydra.core.config_store import ConfigStore

    node = ConfigStore.instance().load(f"{group}/{option}.yaml").node
    return list(node) == [option]


def summary(node: type) -> str:
    """The first line of a dataclass's docstring."""
    return (inspect.getdoc(node) or "").partition("\n\n")[0].replace("\n", " ")


def field_docs(node: type) -> dict[str, str]:
    """The string under each field, here or in a base class."""
    docs: dict[str, str] = {}
    for cls in reversed(node.__mro__[:-1]):
        docs |= _docs_of_module(cls.__module__).get(cls.__qualname__, {})
    return docs


@cache
def _docs_of_module(name: str) -> dict[str, dict[str, str]]:
    """Documentation of fields by class and field; a module is read once."""
    found = {}
    for body in ast.parse(inspect.getsource(sys.modules[name])).body:
        if isinstance(body, ast.ClassDef):
            found[body.name] = dict(_documented(body))
    return found


def _documented(body: ast.ClassDef) -> list[tuple[str, str]]:
    pairs = zip(body.body, body.body[1:], strict=False)
    return [
        (line.target.id, " ".join(str(below.value.value).split()))
        for line, below in pairs
        if isinstance(line, ast.AnnAssign)
        and isinstance(line.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
    ]
