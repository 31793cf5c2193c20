"""The configs of a sweep's jobs, which are checked before anything is launched. Imports no torch.

Composing takes Hydra a quarter of a second. So of jobs that differ in plain values alone only the first is composed; the
others are copies of it with their own values.
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
        self._first: dict[tuple[str, ...], DictConfig] = {}  # by overrides without plain values

    def __getattr__(self, name: str) -> Any:
        if name == "loader":  # not there yet while being unpickled
            raise AttributeError(name)
        return getattr(self.loader, name)

    def __getstate__(self) -> dict[str, Any]:
        return {"loader": self.loader, "_first": {}}  # other processes compose for themselves

    def check(self, master: DictConfig, overrides: list[str]) -> str:
        """The hash of the config that the overrides make; a wrong one raises."""
        config = self.compose(master, overrides)
        check_config(config)
        return config_hash(config)

    def compose(self, master: DictConfig, overrides: list[str]) -> DictConfig:
        """The config of a job, equal to Hydra's own."""
        parsed = OverridesParser.create(config_loader=self.loader).parse_overrides(overrides)
        plain = [override for override in parsed if self._is_plain(override)]
        shape = tuple(str(o.key_or_group if o in plain else o.input_line) for o in parsed)
        if len(set(shape)) < len(shape):  # one name twice: the order matters
            return self.loader.load_sweep_config(master, overrides)
        if shape not in self._first:
            self._first[shape] = self.loader.load_sweep_config(master, overrides)
        config = copy.deepcopy(self._first[shape])
        try:
            for override in plain:
                OmegaConf.update(config, override.key_or_group, override.value())
        except OmegaConfBaseException:
            return self.loader.load_sweep_config(master, overrides)  # which raises Hydra's own error
        task, job = [override for override in parsed if not override.is_hydra_override()], config.hydra.job
        with flag_override(config, ["struct", "readonly"], [False, False]):
            config.hydra.overrides.task = [override.input_line for override in task]
            if not OmegaConf.is_interpolation(
                job, "override_dirname"
            ):  # Hydra 1.4 resolves it when it is used
                named = job.config.override_dirname
                kept = [str(o.input_line) for o in task if o.key_or_group not in named.exclude_keys]
                job.override_dirname = named.item_sep.join(sorted(kept)).replace("=", named.kv_sep)
        OmegaConf.copy_cache(from_config=master, to_config=config)
        return config

    def _is_plain(self, override: Override) -> bool:
        """Whether it sets a field to a single value, and no more."""
        return is_value(override) and not self.loader.get_group_options(override.key_or_group)

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
