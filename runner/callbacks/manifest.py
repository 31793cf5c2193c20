"""Keeps `manifest.json` up to date in training; writes digests of the weights at regular steps, and the order audit."""

from pathlib import Path
from typing import Any, TextIO

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.strategies import ModelParallelStrategy
from lightning.pytorch.utilities.types import STEP_OUTPUT
from omegaconf import DictConfig, OmegaConf

from tiryns.runner import log
from tiryns.runner.callbacks.throughput import cpu_seconds
from tiryns.runner.checkpoints.digests import state_digest
from tiryns.runner.config.run_config import GROUPS, begun_in, from_begin
from tiryns.runner.data.replicas import Replica, gather_objects
from tiryns.runner.data.text.tokenizer import tokenizer_fingerprint
from tiryns.runner.loop.assembly import preprocessor_of
from tiryns.runner.manifest.digests import value_digest
from tiryns.runner.manifest.inputs import NAMING, checkpoint_of, data_files, read_manifest, weights_of
from tiryns.runner.manifest.record import begin_manifest, update_session
from tiryns.runner.manifest.steps import FILE_NAME, Step, chain_digest
from tiryns.runner.protocols import RunCallback, RunData, State
from tiryns.runner.run.audit import FILE_NAME as ORDER
from tiryns.runner.run.audit import open_at
from tiryns.runner.run.folder import Run
from tiryns.runner.run.model_folder import model_folder
from tiryns.runner.run.yaml_files import parse_yaml, settings_in


class Manifest(Callback):
    """Writes what a run is made of to `manifest.json`, and what it has computed to `digests.txt`.

    Each line of the digests has a step, the digest of its order so far, its loss, and digests of weights and of each
    optimizer's state. It is written every `every` steps and at the last one. All ranks have equal digests. Sharded
    weights have one digest over all shards, with the number of shards; it is comparable only for the same sharding.

    Example: `tiryns callback.manifest.every=10`
    """

    def __init__(self, every: int) -> None:
        self.every = every
        self.totals: dict[str, float] = {}
        self._order = "-"
        self._file: TextIO | None = None
        self._last_step, self._cpu_at_start = -1, cpu_seconds()
        self._loss: torch.Tensor | float | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Writes the manifest of a run that begins or resumes; cuts the digests at its step."""
        step = self._last_step = trainer.global_step
        num_trainable = sum(p.numel() for p in pl_module.parameters() if p.requires_grad)
        new = {"counted_from_step": step, "parameters": num_trainable, "tokens": 0, "flops": 0.0}
        self.totals = self.totals or new
        if trainer.is_global_zero:
            folder = Run(Path(trainer.default_root_dir))
            # libraries and switches by which torch chooses its kernels
            cuda = torch.version.cuda if trainer.strategy.root_device.type == "cuda" else None
            kernels = {
                "kernels": torch.backends.cpu.get_cpu_capability(),
                "cuda": cuda,
                "cudnn": torch.backends.cudnn.version() if cuda else None,
                "float32_matmul_precision": torch.get_float32_matmul_precision(),
                "deterministic": torch.are_deterministic_algorithms_enabled(),
            }
            settings = {**(folder.status.get("resolved") or {}), **kernels}
            config = parse_yaml((folder.path / "config.yaml").read_text(encoding="utf-8"))
            groups = [config.get(name) or {} for name in GROUPS]
            names = [part.get(name) for part in groups for name in NAMING]
            # Short runs notice what an object of all settings takes, which only a lookup or another folder needs.
            whole = "${" in str(names) or begun_in(folder.path)
            here = from_begin(DictConfig(config), folder.path) if whole else config
            point = Path(trainer.ckpt_path) if trainer.ckpt_path else None
            branch = point if point and not folder.is_same(point) else None
            # what the run began with in its first session, a later one leaves out
            inputs = inputs_of(trainer.datamodule, here, not read_manifest(folder.path), branch)  # type: ignore[attr-defined]
            begin_manifest(folder, config, inputs, settings, step)
            self._file = open_at(folder.path / FILE_NAME, step)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: STEP_OUTPUT, *_: object
    ) -> None:
        """Counts tokens and operations; takes a digest if one is due; collective."""
        figures = outputs if isinstance(outputs, dict) else {}
        self.totals["tokens"] += int(figures.get("tokens", 0))
        self.totals["flops"] += float(figures.get("flops", 0.0))
        if "order" in figures:
            self._order = chain_digest(self._order, figures["order"])
        step, self._loss = trainer.global_step, figures.get("loss")
        if step % self.every == 0 or step == trainer.max_steps:
            self._take_digest(trainer, pl_module)

    def _take_digest(self, trainer: Trainer, module: LightningModule) -> None:
        """Writes the digests of the last step, once; collective."""
        if (step := trainer.global_step) != self._last_step:
            self._last_step = step
            loss = "-" if self._loss is None else repr(float(self._loss))
            now = Step(step, self._order, loss, tuple(digests_of_ranks(trainer, module)))
            if self._file is not None:
                self._file.write(f"{now.line()}\n")

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: State) -> None:
        """Notes how far the session has come, with the CPU time of all ranks; collective."""
        seconds = torch.tensor(cpu_seconds() - self._cpu_at_start, device=trainer.strategy.root_device)
        self._update(trainer, float(trainer.strategy.reduce(seconds, reduce_op="sum")))

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Takes the digest of the last step, also of a run that ends before its length; ends the session; collective."""
        self._take_digest(trainer, pl_module)
        self.on_exception(trainer)

    def on_exception(self, trainer: Trainer, *_: object, **__: object) -> None:
        """Records the end of the session, its last step and its totals."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._update(trainer, None, ended=True)

    def _update(self, trainer: Trainer, cpu_seconds: float | None, ended: bool = False) -> None:
        if trainer.is_global_zero and self.totals:
            folder = Run(Path(trainer.default_root_dir))
            update_session(folder, trainer.global_step, cpu_seconds, self.totals, ended)

    def state_dict(self) -> State:
        """Returns the totals and the digest of the order, for the checkpoint."""
        return {"order": self._order, **self.totals}

    def load_state_dict(self, state_dict: State) -> None:
        self._order, self.totals = state_dict["order"], {**state_dict}
        del self.totals["order"]


def inputs_of(data: RunData, config: Any, weights: bool, checkpoint: Path | None) -> dict[str, object]:
    """Returns fingerprints of data, order and tokenizer, and digests of local data files, models and the checkpoint.

    `data` is connected; `config` is as in `config.yaml`, or as `from_begin` returns it. If `weights`, pretrained
    weights are included. `checkpoint` is a checkpoint of another run, which a branch starts from.
    """
    inputs: dict[str, object] = {**data.lineage()}
    settings, model, objective = map(config.get, GROUPS)
    settings = settings_in(settings, resolve=True) if OmegaConf.is_config(settings) else settings
    if files := data_files(settings):
        inputs["files"] = files
    preprocessor = preprocessor_of(data)
    tokenizer = getattr(preprocessor, "tokenizer", preprocessor)
    if hasattr(tokenizer, "backend_tokenizer"):
        inputs["tokenizer"] = tokenizer_fingerprint(tokenizer)
    if weights and (source := model and (model.get("name_or_path") or model.get("tiled_from"))):
        inputs["weights"] = weights_of(model_folder(str(source)))
    if teacher := objective and objective.get("teacher"):
        inputs["teacher"] = weights_of(model_folder(str(teacher)))
    if checkpoint is not None:
        inputs["checkpoint"] = checkpoint_of(checkpoint)
    return inputs


def digests_of_ranks(trainer: Trainer, module: LightningModule) -> list[str]:
    """Returns a digest of the weights and one of each optimizer's state; a digest of shards covers all ranks' shards.

    Without shards, all ranks should have equal digests; warns of ranks that differ from rank 0. Collective.
    """
    states = [dict(module.named_parameters()), *(each.state_dict()["state"] for each in trainer.optimizers)]
    mine = [state_digest(state) for state in states]
    ranks: list[list[str]] = gather_objects(mine, Replica(trainer.global_rank, trainer.world_size, None))
    if isinstance(trainer.strategy, ModelParallelStrategy):
        return [f"{value_digest(shards)[-16:]}@{len(shards)}" for shards in zip(*ranks, strict=True)]
    if others := [rank for rank, digests in enumerate(ranks) if digests != ranks[0]]:
        problem = "weights or optimizer state other than those of rank 0"
        log.warning("after step %s rank %s has %s", trainer.global_step, ", ".join(map(str, others)), problem)
    return ranks[0]


class OrderAudit(Callback, RunCallback):
    """Writes the hash of every global batch to `order.txt` in the run folder; main process only.

    A resumed run drops the lines after its checkpoint and writes them again. Example: `tiryns ~callback.audit`
    """

    needs_batches = True
    _file: TextIO | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Keeps the lines of the steps before a resume, and appends to them."""
        if trainer.is_global_zero:
            self._file = open_at(Path(trainer.default_root_dir) / ORDER, trainer.global_step)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *_: object
    ) -> None:
        """Adds a line."""
        if self._file is not None:
            self._file.write(f"{trainer.global_step} {outputs['order']}\n")

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
