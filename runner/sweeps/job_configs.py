"""The configs of a sweep's jobs, which are checked before anything is launched. Imports no torch.

Composing takes Hydra a quarter of a second. So what jobs have beside plain values is composed once, and each job is a
copy of it with its own values.
"""

import copy
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from omegaconf import DictConfig, OmegaConf, flag_override
from omegaconf.errors import OmegaConfBaseException

from tiryns.runner.config.checks import check_config
from tiryns.runner.run.recording import config_hash


class JobConfigs:
    """A config loader for the sweeper, which checks jobs, and for the launcher."""

    def __init__(self, loader: ConfigLoader) -> None:
        self.loader = loader
        self._composed: dict[tuple[str, ...], DictConfig] = {}  # by overrides without plain values
        self._groups: dict[str, bool] = {}

    def __getattr__(self, name: str) -> Any:
        if name == "loader":  # not there yet while being unpickled
            raise AttributeError(name)
        return getattr(self.loader, name)

    def __getstate__(self) -> dict[str, Any]:
        return {"loader": self.loader, "_composed": {}, "_groups": {}}  # others compose for themselves

    def check(self, master: DictConfig, overrides: list[str]) -> str:
        """The hash of the config that the overrides make; a wrong one raises."""
        config = self.compose(master, overrides)
        check_config(config)
        return config_hash(config)

    def compose(self, master: DictConfig, overrides: list[str]) -> DictConfig:
        """The config of a job, equal to Hydra's own."""
        parsed = OverridesParser.create(config_loader=self.loader).parse_overrides(overrides)
        plain = [override for override in parsed if is_value(override) and not self._is_group(override)]
        if self._order_matters(parsed, plain):
            return self.loader.load_sweep_config(master, overrides)
        others = tuple(str(override.input_line) for override in parsed if override not in plain)
        if others not in self._composed:
            self._composed[others] = self.loader.load_sweep_config(master, list(others))
        config = copy.deepcopy(self._composed[others])
        try:
            for override in plain:
                OmegaConf.update(config, override.key_or_group, override.value())
        except OmegaConfBaseException:
            return self.loader.load_sweep_config(master, overrides)  # which raises Hydra's own error
        task, job = [override for override in parsed if not override.is_hydra_override()], config.hydra.job
        with flag_override(config, ["struct", "readonly"], [False, False]):
            config.hydra.overrides.task = [override.input_line for override in task]
            dirname = OmegaConf.to_container(job, resolve=False)["override_dirname"]  # type: ignore[call-overload, index]
            if not str(dirname).startswith("${"):  # Hydra 1.4 resolves it when it is used
                named = job.config.override_dirname
                kept = [str(o.input_line) for o in task if o.key_or_group not in named.exclude_keys]
                job.override_dirname = named.item_sep.join(sorted(kept)).replace("=", named.kv_sep)
        OmegaConf.copy_cache(from_config=master, to_config=config)
        return config

    def _order_matters(self, parsed: list[Override], plain: list[Override]) -> bool:
        """Whether what is no plain value comes after a plain one of the same field, or of a field within it."""
        fields: list[str] = []
        for override in parsed:
            name = f"{override.key_or_group}."
            if override in plain:
                fields.append(name)
            elif not self._is_group(override) and any(
                name.startswith(f) or f.startswith(name) for f in fields
            ):
                return True
        return False

    def _is_group(self, override: Override) -> bool:
        """Whether it chooses an option of a group, which is asked once: Hydra reads its folders for an answer."""
        name = override.key_or_group
        if name not in self._groups:
            self._groups[name] = bool(self.loader.get_group_options(name))
        return self._groups[name]

    def load_sweep_config(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        """As Hydra's; the last of the overrides is that of the job's folder."""
        *own, subdir = sweep_overrides
        config = self.compose(master_config, own)
        with flag_override(config, ["struct", "readonly"], [False, False]):
            config.hydra.sweep.subdir = subdir.partition("=")[2]
            config.hydra.overrides.hydra.append(subdir)
        return config


def is_value(override: Override) -> bool:
    """Whether an override gives a single value to what has one: a field, or a group of options."""
    value = override.value()
    return (
        override.type is OverrideType.CHANGE
        and not override.is_hydra_override()
        and override.package is None
        and (value is None or isinstance(value, str | int | float))
        and "${" not in str(value)
    )
