"""The settings of an objective as one typed object of its collator."""

from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import wraps
from inspect import Parameter, signature
from typing import Any

from tiryns.conf.objective.pretraining import Taught

TAUGHT = tuple(f.name for f in fields(Taught))
"""Settings of objectives that may have a teacher."""

FIRST = ("pad_token_id", "mask_token_id", "vocab_size")
COMMON = {"text_column": "text", "label_column": None, "max_sequence_length": 1024}


def takes_options(
    option: type, *leading: str, **defaults: object
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorates a collator's `__init__`: it also takes the fields of `option`, with defaults, and sets them as `options`.

    Positional arguments are `FIRST`, which every collator needs, and then `leading`; if this is empty, the names in
    `COMMON`. All other arguments are keyword-only. `defaults` are the defaults of arguments; they override `COMMON` and
    the defaults of the fields.

    Example:
        >>> from dataclasses import dataclass
        >>> from tiryns.runner.objectives import Collator
        >>> @dataclass
        ... class Shift:
        ...     by: int = 1
        >>> class ShiftCollator(Collator):
        ...     __init__ = takes_options(Shift)(Collator.__init__)
        ...     def compute_labels(self, tokenized):
        ...         return {"labels": tokenized["input_ids"].roll(-self.options.by, 1)}
        >>> ShiftCollator(0, 4, 50, by=2)([{"input_ids": [7, 8, 9]}])["labels"].tolist()
        [[9, 7, 8]]
    """
    spec = {f.name: f for f in fields(option) if f.name != "_target_"}
    base = {**COMMON, **{name: f.default for name, f in spec.items() if f.default is not MISSING}, **defaults}
    order = (*FIRST, *(leading or COMMON))

    def decorate(init: Callable[..., None]) -> Callable[..., None]:
        original = signature(init)
        first, *others = original.parameters.values()
        parameters = [
            first,
            *(Parameter(n, Parameter.POSITIONAL_OR_KEYWORD, default=base.get(n, Parameter.empty)) for n in order),
            *(Parameter(n, Parameter.KEYWORD_ONLY, default=base[n]) for n in spec if n not in order),
            *(p.replace(kind=Parameter.KEYWORD_ONLY) for p in others if p.name not in order and p.kind != p.VAR_KEYWORD),
            *(p for p in others if p.kind == p.VAR_KEYWORD),
        ]  # fmt: skip
        taken = original.replace(parameters=parameters)

        @wraps(init)
        def taking(self: Any, *positional: object, **values: object) -> None:
            try:
                bound = taken.bind(self, *positional, **values)
            except TypeError as error:
                raise TypeError(f"{type(self).__name__}: {error}") from None
            bound.apply_defaults()
            arguments = dict(list(bound.arguments.items())[1:])
            arguments |= arguments.pop(others[-1].name, {})
            self.options = option(**{name: arguments.pop(name) for name in spec})
            init(self, **arguments)

        taking.__signature__ = taken  # type: ignore[attr-defined]
        return taking

    return decorate
