"""The configs of a sweep's jobs, which are checked before anything is launched. Imports no torch.

Hydra needs a quarter of a second to compose a config. So jobs that choose the same options share one composed config,
and each job applies its own values to a copy.
"""

import copy
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf, flag_override

from tiryns.runner.config.checks import check_config
from tiryns.runner.patches.hydra.composition import apply_overrides
from tiryns.runner.run.recording import config_hash


class JobConfigs:
    """Wraps Hydra's config loader: checks jobs for the sweeper, and composes their configs for the launcher."""

    def __init__(self, loader: ConfigLoader) -> None:
        self.loader = loader
        self._composed: dict[tuple[str, ...], DictConfig] = {}  # by options
        self._groups: dict[str, bool] = {}

    def __getattr__(self, name: str) -> Any:
        if name == "loader":  # not there yet while being unpickled
            raise AttributeError(name)
        return getattr(self.loader, name)

    def __getstate__(self) -> dict[str, Any]:
        return {"loader": self.loader, "_composed": {}, "_groups": {}}  # others compose for themselves

    def check(self, master: DictConfig, overrides: list[str]) -> str:
        """Returns the hash of the config that the overrides make; raises an error for a wrong config."""
        config = self.compose(master, overrides)
        check_config(config)
        return config_hash(config)

    def compose(self, master: DictConfig, overrides: list[str]) -> DictConfig:
        """Returns the config of a job, equal to Hydra's own."""
        objects = OverridesParser.create(config_loader=self.loader).parse_overrides(overrides)
        values = [override for override in objects if self._is_value(override)]
        options = tuple(str(override.input_line) for override in objects if override not in values)
        if options not in self._composed:
            self._composed[options] = self.loader.load_sweep_config(master, list(options))
        config = copy.deepcopy(self._composed[options])
        apply_overrides(values, config)
        task, job = [override for override in objects if not override.is_hydra_override()], config.hydra.job
        with flag_override(config, ["struct", "readonly"], [False, False]):
            config.hydra.overrides.task = [override.input_line for override in task]
            dirname = OmegaConf.to_container(job, resolve=False)["override_dirname"]  # type: ignore[call-overload, index]
            if not str(dirname).startswith("${"):  # Hydra 1.4 resolves it when it is used
                rules = job.config.override_dirname
                words = [str(o.input_line) for o in task if o.key_or_group not in rules.exclude_keys]
                job.override_dirname = rules.item_sep.join(sorted(words)).replace("=", rules.kv_sep)
        OmegaConf.copy_cache(from_config=master, to_config=config)
        return config

    def _is_value(self, override: Override) -> bool:
        """Whether an override sets a field, not a group's option; cached, as Hydra searches its folders for groups."""
        name = override.key_or_group
        if name not in self._groups:
            self._groups[name] = bool(self.loader.get_group_options(name))
        return not (self._groups[name] or override.package or override.is_hydra_override())

    def load_sweep_config(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        """Returns the config of a job, as Hydra's method does; the last override must be `hydra.sweep.subdir=...`."""
        *overrides, subdir = sweep_overrides
        config = self.compose(master_config, overrides)
        with flag_override(config, ["struct", "readonly"], [False, False]):
            config.hydra.sweep.subdir = subdir.partition("=")[2]
            config.hydra.overrides.hydra.append(subdir)
        return config
