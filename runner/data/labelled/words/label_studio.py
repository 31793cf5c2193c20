"""Tasks of Label Studio's export: which of their texts and sets of labels count, and the entities of these."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tiryns.runner.data.read.bad_rows import BadRow
from tiryns.runner.data.read.rows import LabelRule, Row

log = logging.getLogger("tiryns")


class Chosen(NamedTuple):
    """The text and the set of labels of tasks; None where all have one."""

    text: str | None = None
    labels: str | None = None


def chosen_of(rows: Sequence[Row], text_column: str, label_column: str, rule: LabelRule) -> Chosen:
    """The text and the set of labels that settings name, or the only ones with entities; none by older rules.

    Raises ValueError where there are several of either, and no setting names one.
    """
    if rule is not LabelRule.AS_NAMED:
        return Chosen()
    rows = [row for row in rows if isinstance(row.values.get(text_column), str | None)]
    texts = {name: row.where for row in reversed(rows) for name in _texts(row.values)}
    tasks = [(row.where, one) for row in rows for one in _marked(row.values)]
    ours = {str(one.get("to_name")) for _, one in tasks} & texts.keys()
    fields = ours or texts.keys() & {"text"} or texts.keys()
    text = _one("texts", "data.text_column", text_column, {n: texts[n] for n in texts if n in fields}, texts)
    named = [(where, one) for where, one in tasks if "from_name" in one and _is_of(one, text, texts)]
    sets = {str(one["from_name"]): where for where, one in reversed(named)}
    return Chosen(text, _one("sets of labels", "data.label_column", label_column, sets, sets))


def _one(
    what: str, setting: str, given: str, found: Mapping[str, str], named: Mapping[str, str]
) -> str | None:
    """The given name if there is one, else the only one found."""
    names = ", ".join(sorted(found))
    told = f"Label Studio's tasks have several {what}, {names}"
    if given in named:
        if len(found) > 1:
            log.info("%s: %s=%s counts", told, setting, given)
        return given
    if len(found) > 1:
        raise ValueError(f"{next(iter(found.values()))}: {told}: set {setting} to the one that counts")
    return next(iter(found), None)


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    data = values.get("data")
    return {n: v for n, v in data.items() if isinstance(v, str)} if isinstance(data, Mapping) else {}


def _is_of(one: Mapping[str, Any], text: str | None, texts: Mapping[str, Any]) -> bool:
    """Whether a result is of a text; its `to_name` may be that of the text's tag, which the export does not tell."""
    return (name := str(one.get("to_name"))) == text or name not in texts


def task_of(
    where: str, values: Mapping[str, Any], text_column: str, chosen: Chosen
) -> tuple[str | None, list[Any] | None]:
    """The text of a task, and the entities of its first annotation that was not cancelled, without their attributes.

    None for either that there is not.
    """
    texts = _texts(values)
    if chosen.text is not None and chosen.text not in texts:
        raise BadRow(where, f"the task has no text {chosen.text!r} in its data", "no text")
    names = (chosen.text,) if chosen.text is not None else (text_column, "text", *texts)
    text = next((texts[name] for name in names if texts.get(name)), None if not texts else "")
    if not (kept := _kept(values)):
        return text, None
    results = kept[0].get("result") or []
    if not isinstance(results, list) or not all(isinstance(one, Mapping) for one in results):
        raise BadRow(where, f"the result of an annotation is {results!r:.60}, expected a list", "no entity")
    found = [one for one in _marked(values) if chosen.text is None or _is_of(one, chosen.text, texts)]
    return text, [
        one["value"]
        for one in found
        if chosen.labels is None or str(one.get("from_name", chosen.labels)) == chosen.labels
    ]


def _marked(values: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The results of a task's first annotation that was not cancelled which mark an entity."""
    results = kept[0].get("result") if _texts(values) and (kept := _kept(values)) else None
    for one in results if isinstance(results, list) else ():
        is_mark = isinstance(one, Mapping) and str(one.get("type", "labels")).endswith("labels")
        if is_mark and isinstance(value := one.get("value"), Mapping) and "start" in value:
            yield one


def _kept(values: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The annotations of a task that were not cancelled."""
    annotations = values.get("annotations", values.get("completions"))
    listed = annotations if isinstance(annotations, list) else []
    return [one for one in listed if isinstance(one, Mapping) and not one.get("was_cancelled")]


def is_contested(values: Mapping[str, Any]) -> bool:
    """Whether annotations of a row in Label Studio's export differ."""
    results = [one.get("result") for one in _kept(values)]
    listed = [result if isinstance(result, list) else [result] for result in results]
    parts = [[one.get("value") if isinstance(one, Mapping) else one for one in result] for result in listed]
    return len({repr(sorted(map(repr, some))) for some in parts}) > 1
