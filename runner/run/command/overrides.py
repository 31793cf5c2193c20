"""Makes a one-line message for overrides that Hydra cannot compose, with close matches of a wrong name."""

import re
from collections.abc import Callable, Sequence

from tiryns.conf.fields import fields_of, is_part, root_fields
from tiryns.conf.registry import OPTIONS
from tiryns.conf.values import close_matches, suggest

Match = re.Match[str]
Errors = Sequence[BaseException]

OTHER_WORDS = {
    "accumulate_grad_batches": "data.micro_batch_tokens", "batch_size": "sampler.global_batch_size",
    "bf16": "trainer.precision", "epochs": "trainer.max_epochs", "fp16": "trainer.precision",
    "gpus": "trainer.devices", "gradient_clip_val": "module.max_grad_norm", "learning_rate": "optimizer.lr",
    "max_seq_length": "data.max_length", "num_gpus": "trainer.devices",
    "num_train_epochs": "trainer.max_epochs", "steps": "trainer.max_steps",
    "train_batch_size": "sampler.global_batch_size", "warmup": "scheduler.warmup_steps",
}  # fmt: skip
"""Names of settings in other programs, with the names of our settings."""

_MISSPELT = "no viable alternative|missing EQUAL|mismatched input|token recognition|extraneous"
"""Messages of Hydra's grammar for a word it cannot read."""

SIGNS = re.compile(r"([^=]+)=([^\w\s'\"\\]{1,3})")
"""An override whose value consists of signs only, such as a separator."""

EXPECTED = {
    "to Float": "expected a number",
    "to Integer": "expected a whole number",
    "valid bool": "expected true or false",
    "is not a ListConfig": "expected a list, such as [1,2]",
}
"""What a setting expects, by words in Hydra's reason for refusing a value."""

_NOISE = (
    "full_key:", "reference_type=", "object_type=", "provider=", "To append to your config", "Config search path",
    "See https://hydra.cc/docs/1.2/advanced/override_grammar",
)  # fmt: skip
"""Starts of lines of Hydra and OmegaConf that do not help the user."""


def message_of(composing: Sequence[BaseException]) -> str:
    """Returns the message for Hydra's and OmegaConf's errors of one command, the outermost first."""
    every = (line.strip() for error in composing for line in str(error).splitlines())
    lines = dict.fromkeys(
        line for line in every if line and "$VALUE" not in line and not line.startswith(_NOISE)
    )
    message = "\n".join(lines)
    for pattern, answer in EXPLAINED.items():
        if match := re.search(pattern, message):
            text = answer.format(*match.groups()) if isinstance(answer, str) else answer(match, composing)
            if text:
                return text
    return "; ".join(lines) + _remedy(message)


def _unreadable(match: Match, composing: Errors) -> str:
    from hydra.errors import OverrideParseException

    word = next((error.override for error in composing if isinstance(error, OverrideParseException)), "")
    if signs := SIGNS.fullmatch(word):
        name, value = signs.groups()
        noun = "the sign" if len(value) == 1 else "the signs"
        return (
            f"{word}: {noun} {value} must be quoted within the quotes of the shell: type \"{name}='{value}'\""
        )
    return (
        f"cannot read the override {word!r}: {match[0].partition(' expecting {')[0]}; expected GROUP=OPTION or "
        "FIELD=VALUE; in a shell, quote brackets or spaces: 'a.b=[1,2]', and quote a value of signs twice: "
        "\"a.b=';'\""
    )


def _other_option(match: Match, _: Errors) -> str:
    group, wrong = match.groups()
    available = match.string.partition("Available options in")[2].splitlines()[1:]
    there = available or [*OPTIONS.get(group, {}), "default"]
    # models have many similar names
    alike = [name for name in there if group != "model" or name[:1] == wrong[:1]]
    near = suggest(wrong, alike)
    more = ""
    if group == "model" and not near:
        more = "; a class of transformers is model=encoder model.architecture=NAME, and weights are model=pretrained"
        more += " model.name_or_path=NAME"
    return f"there is no {group}={wrong}; `tiryns info {group}` lists what there is{more}{near}"


def _other_value(match: Match, _: Errors) -> str:
    reason = " ".join(match.string[match.end() :].split()) or "this value is refused"
    return f"{match[1]}: {next((said for words, said in EXPECTED.items() if words in reason), reason)}"


def _remedy(message: str) -> str:
    """Returns what to write instead in a recipe or an override, to append to the message; empty for most messages."""
    if "Key 'experiment' not in 'Config'" in message:
        return "; a recipe begins with the line: # @package _global_"
    if match := re.search(r"Key '([^']+)' (?:is )?not in", message):
        return suggest(match[1], {key.split(".")[-1] for key in _config_keys()})
    if match := re.search(r"Multiple values for (\S+)\. To .* use 'override \S+: (\S+)'", message):
        return f"; write {match[1]}={match[2]}, without a +: there is such a group already"
    return ""


def _other_key(match: Match, _: Errors) -> str:
    wrong, keys = match[1], _config_keys()
    if options := keys.get(wrong):
        group = wrong.partition(".")[0]
        whole = f"{group}=[..., {options[0]}]" if wrong.count(".") > 1 else f"{group}={' or '.join(options)}"
        return f"{wrong} is a setting of {whole}, which is not chosen here"
    section, field = wrong.rpartition(".")[::2]
    fields = {key.rpartition(".")[2] for key in keys if key.rpartition(".")[0] == section}
    same = [key for key in keys if key.rpartition(".")[2] == field and not section]
    usual = [key for key in keys if key == OTHER_WORDS.get(field)]
    groups = [] if section else close_matches(field, [*OPTIONS, "experiment", "scale"])
    inside = [f"{section}.{name}" for name in close_matches(field, fields)] if section else []
    elsewhere = [] if section and fields else close_matches(wrong, keys)
    names = same or usual or groups or inside or elsewhere
    meant = f". Did you mean {' or '.join(map(repr, names[:3]))}?" if names else ""
    within = next(
        (f"; `tiryns info {g}` lists those of {g}" for g in OPTIONS if wrong.startswith(f"{g}.")), ""
    )
    return f"there is no setting {wrong}{meant or within}"


def _foreign_key(match: Match, composing: Errors) -> str:
    """Returns the message for a recipe's setting that belongs to another option of its group; empty if none has it."""
    recipe, name, kind = match.groups()
    key = next((str(key) for cause in composing if (key := getattr(cause, "full_key", None))), name)
    group = key.partition(".")[0]
    names = [option for option, node in OPTIONS.get(group, {}).items() if node.__name__ == kind]
    if not names or not _config_keys().get(key):
        return ""
    return (
        f"experiment={recipe.removeprefix('experiment/')} sets {key}, which {group}={names[0]} does not have: copy the "
        f"file of the recipe to configs/experiment/mine.yaml, write `override /{group}: {names[0]}` in its defaults and "
        f"settings of that option below {group}:, and run it by --config-dir configs experiment=mine"
    )


def _config_keys() -> dict[str, list[str]]:
    """Returns every dotted key of any option of any group, with the options that have it."""
    keys: dict[str, list[str]] = {field.key: [] for field in root_fields()}
    for group, nodes in OPTIONS.items():
        for name, node in nodes.items():
            prefix = f"{group}.{name}" if is_part(group, name) else group
            for field in fields_of(node, prefix):
                keys.setdefault(field.key, []).append(name)
    return keys


EXPLAINED: dict[str, str | Callable[[Match, Errors], str]] = {
    r"^Could not override 'data.folds?'": (
        "folds are for labelled data, such as data=classification: text and images are not cut into folds"
    ),
    r"Could not (?:load|find) 'experiment/([^/']+)/([^']+)'": (
        "scale={0}: experiment={1} has no such size; `tiryns info scale` lists the recipes of each size; "
        "a file experiment/{0}/{1}.yaml of your own adds this size"
    ),
    r"In '((?:\w+/)*experiment/[^']+)'.*\nKey '([^']+)' not in '(\w+)'": _foreign_key,
    r"Error merging override (phases=.*)\nCannot merge (?:DictConfig with|incompatible container)": (
        "{0}: expected a list such as phases=[{{name: stable, steps: 90}}, ...]"
    ),
    r"Ambiguous value for argument '([^=]+)=(.*)'": (
        "{0}={1} has several values: add -m for a sweep of them; a list is '{0}=[{1}]'"
    ),
    rf".*(?:{_MISSPELT}).*": _unreadable,
    r"Could not (?:find|load) '(\S+)/([^/']+)'": _other_option,
    r"Could not override '([^']+)'": _other_key,
    r"Error merging override (.*)": _other_value,
}
"""Patterns of messages of Hydra and OmegaConf, with the message for the user; the first that is not empty is used."""
