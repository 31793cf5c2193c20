"""The table of commands for programs: the arguments of each as a JSON schema, whether it writes, and what it prints."""

from argparse import Action
from collections.abc import Mapping, Sequence
from pathlib import Path

from tiryns.runner.cli.commands import COMMANDS, parser_of
from tiryns.runner.cli.schema import Schema
from tiryns.runner.patches.parsers import actions_of
from tiryns.runner.run.command.failure import CODES, coded
from tiryns.runner.run.command.status import MEANINGS

DOCUMENTS = {
    "runs": (
        "folder state started ended step max_steps seconds monitor mode results overrides plateau "
        "branch_of failure error"
    ),
    "runs show": "folder state step results overrides recipe settings restarts rewinds command go_on_with",
    "runs compare": "ranked_by settings runs notes",
    "report": "ranked_by settings runs notes",
    "info": "groups settings",
    "info WORD": "recipe chosen fields",
    "plan": "dataset phases samples lengths optimization model ranks budget steps epochs memory time",
    "plan without data": "model parameters steps tokens flops phases gpus published_hours points",
    "info scale": "scales",
    "schedule": "steps lr phases rates",
    "audit": "runs same steps first_difference",
    "order --steps": "step place epoch index source file row part",
    "order --find": "trained_steps texts",
    "order RUN RUN": "steps same_data different_steps different_masks shared_of_a_step samples shared_samples",
    "verify": "run unchanged problems signature",
    "reproduce": (
        "run rebuilt verdict steps first_difference largest_loss_difference "
        "largest_weight_difference files reasons"
    ),
    "predict": "predictions figures",
    "ladder": "folder figure of page widths transfer law predictions coordinates",
    "mine": "target rows queries passages fewer settings",
    "push": "model target",
    "consolidate": "checkpoint target",
    "average": "target method models",
    "prepare": "folder samples",
    "prepare corpus": "folder submitted sets stores",
    "new": "folder package files",
    "doctor": (
        "processor memory gpus driver disk slurm compiler versions extras chosen reasons problems hints"
    ),
    "version": "tiryns torch lightning transformers hydra-core",
    "evaluate": "model precision layout micro_batch_tokens micro_batch_size interval sets",
    "judge": "metric direction against error note clear folder page comparisons",
}
"""Top-level keys of each JSON document, by command and its arguments; `docs/commands.md` lists the nested keys too."""

LISTS = ("runs", "order --steps")
"""Entries of `DOCUMENTS` that are lists; each object in the list has these keys."""

READERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("plan", "info", "runs", "audit", "schedule", "doctor", "schema", "version"), ()),
    **{"report": ("out",), "order": ("out",), "verify": ("sign",)},
    **dict.fromkeys(("predict", "evaluate"), ("out", "import")),
}
"""Commands that write nothing but caches, each with the arguments by which it writes a file or runs the user's code."""

TYPES: dict[object, str] = {int: "integer", float: "number"}

SETTINGS = {
    "settings": {
        "type": "array",
        "items": {"type": "string"},
        "description": "GROUP=OPTION chooses an option, FIELD=VALUE sets a field; `info` lists both",
    }
}
"""The arguments of `train` and `plan`, which Hydra parses."""

OF_HYDRA = ("train", "plan")


def commands_schema() -> Schema:
    """Returns the schemas of all commands but `mcp`, and the meanings of exit statuses and failure codes.

    Example:
        >>> next(one for one in commands_schema()["commands"] if one["command"] == "audit")["arguments"]["required"]
        ['runs']
    """
    statuses = {number: {"code": word, "meaning": about} for number, (word, about) in MEANINGS.items()}
    codes = {code: about for code, (about, _) in CODES.items()}
    commands = [command_schema(name) for name in COMMANDS if name != "mcp"]
    return {"commands": commands, "exit_statuses": statuses, "failures": codes}


def command_schema(name: str) -> Schema:
    """Returns a command's arguments, whether it writes, and the top-level keys of each JSON document that it prints."""
    actions = [] if name in OF_HYDRA else _arguments(name)
    properties = SETTINGS if name in OF_HYDRA else {argument(a): _property(a) for a in actions}
    writing = READERS.get(name, ())
    entries = {key: one | ({"writes": True} if key in writing else {}) for key, one in properties.items()}
    return {
        "command": name,
        "about": COMMANDS[name][0],
        "writes": name not in READERS,
        "arguments": {
            "type": "object",
            "properties": entries,
            "required": [argument(a) for a in actions if a.required and a.nargs not in ("*", "?")],
            "additionalProperties": False,
        },
        "prints": {
            form: {"type": "array" if form in LISTS else "object", "keys": keys.split()}
            for form, keys in DOCUMENTS.items()
            if max((one for one in COMMANDS if f"{form} ".startswith(f"{one} ")), key=len) == name
        },
    }


def words_of(name: str, inputs: Mapping[str, object]) -> list[str]:
    """Returns the command line of a command with the arguments `inputs`; raises ValueError for an unknown argument.

    Example:
        >>> words_of("runs", {"what": "show", "runs": ["outputs/a"], "state": "done"})
        ['runs', 'show', 'outputs/a', '--state=done']
    """
    values = {key: value for key, value in inputs.items() if value is not None}
    arguments = {argument(a): a for a in _arguments(name)}
    all_arguments = SETTINGS if name in OF_HYDRA else arguments
    if unknown := sorted(values.keys() - all_arguments.keys()):
        there = ", ".join(all_arguments) or "none"
        raise coded("bad_arguments", f"{name} has no argument {unknown[0]!r}; it has: {there}")
    if name in OF_HYDRA:
        return [name, *_plain_words(values.get("settings"))]
    flags = [(a, values[key]) for key, a in arguments.items() if a.option_strings and key in values]
    places = [(action, values.get(key)) for key, action in arguments.items() if not action.option_strings]
    last = max((i for i, (_, value) in enumerate(places) if value not in (None, [])), default=-1)
    positionals = [action.default if value is None else value for action, value in places[: last + 1]]
    words = [word for value in positionals for word in _plain_words(value)]
    return [*name.split(), *words, *(word for action, value in flags for word in _flag(action, value))]


def argument(action: Action) -> str:
    """Returns the name of an argument; the name of the flag `--label-column` is `label_column`."""
    return action.option_strings[-1].lstrip("-").replace("-", "_") if action.option_strings else action.dest


def has_document(name: str) -> bool:
    """Returns whether a command has `--json`."""
    return name == "plan" or any(a.dest == "json" for a in actions_of(parser_of(name)))


def _arguments(name: str) -> Sequence[Action]:
    return [a for a in actions_of(parser_of(name)) if a.dest not in ("help", "json")]


def _property(action: Action) -> Schema:
    flag = {"flag": action.option_strings[-1]} if action.option_strings else {}
    if action.nargs == 0:
        return {"type": "boolean", "default": False, "description": action.help} | flag
    kind: Schema = {"type": TYPES.get(action.type, "string")}
    if action.choices is not None:
        kind["enum"] = list(action.choices)
    if action.nargs not in (None, "?"):
        kind = {"type": "array", "items": kind} | ({"minItems": 1} if action.nargs != "*" else {})
    if _is_repeated(action):
        kind = {"type": "array", "items": kind}
    about = (action.help or "").replace("%(default)s", str(action.default))
    value = str(action.default) if isinstance(action.default, Path) else action.default
    default = {} if value is None or value == [] else {"default": value}
    return kind | default | {"description": about} | flag


def _is_repeated(action: Action) -> bool:
    """Returns whether a flag may be repeated; argparse has no public attribute for this."""
    return bool(action.option_strings) and action.default == [] and action.nargs != 0


def _flag(action: Action, value: object) -> list[str]:
    flag = action.option_strings[-1]
    if action.nargs == 0:
        return [flag] if value else []
    values = value if _is_repeated(action) and isinstance(value, list) else [value]
    if action.nargs is None:
        return [f"{flag}={one}" for one in values]
    return [word for one in values for word in (flag, *_plain_words(one))]


def _plain_words(value: object) -> list[str]:
    """Returns the value of an argument as words; raises ValueError for a word that begins with a dash, as a flag does."""
    words = [str(one) for one in (value if isinstance(value, list) else [] if value is None else [value])]
    if wrong := next((word for word in words if word.startswith("-")), None):
        raise coded("bad_arguments", f"{wrong!r} begins with a dash: pass a flag as an argument of its own")
    return words
