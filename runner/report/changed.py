"""The settings of a run that are not the default."""

from contextlib import nullcontext
from functools import cache

from omegaconf import OmegaConf

from tiryns.runner.run.folder import Settings
from tiryns.runner.run.yaml_files import flatten

EXECUTION = ("hydra.", "callback.", "logger.", "resume", "outputs")
"""Settings of how a run is shown and kept, which do not count as a difference between runs."""

RECIPE = "experiment"
"""The override that names a run's recipe, which its config does not tell."""

SCALE = "scale"
"""The override that names the size of the recipe."""


def changed_settings(
    settings: Settings, recipe: str | None = None, scale: str | None = None
) -> list[tuple[str, object, object]] | None:
    """(name, value, default) of every setting unlike its default, which a recipe and its scale may have set.

    None where the defaults, or those of the recipe, cannot be read.
    """
    try:
        defaults = _default_settings(recipe, scale)
    except Exception:  # an older run, or a plugin that is gone: the page does without this table
        return None
    unset = (None, None)  # a setting that only this run's config has
    return [
        (name, value, defaults.get(name, unset)[0])
        for name, value in settings.items()
        if not name.startswith((*EXECUTION, "resolved.")) and value not in defaults.get(name, unset)
    ]


@cache
def _default_settings(
    recipe: str | None = None, scale: str | None = None
) -> dict[str, tuple[object, object]]:
    """Each default, with a recipe the value that it gives, resolved and as it stands.

    A run folder keeps lookups of the environment as they stand.
    """
    from hydra import compose, initialize_config_module
    from hydra.core.global_hydra import GlobalHydra

    import tiryns.conf  # noqa: F401  registers the groups
    from tiryns.runner.patches.hydra.plugins import plugins
    from tiryns.runner.patches.hydra.versions import VERSION_BASE

    plugins()
    running = GlobalHydra.instance().is_initialized()
    with nullcontext() if running else initialize_config_module("tiryns.conf", **VERSION_BASE):
        chosen = {RECIPE: recipe, SCALE: scale}
        config = compose("config", [f"{name}={value}" for name, value in chosen.items() if value])
    resolved = dict(flatten(OmegaConf.to_container(config, resolve=True)))
    raw = dict(flatten(OmegaConf.to_container(config, resolve=False)))
    return {name: (value, raw.get(name)) for name, value in resolved.items()}
