"""`tiryns average RUN... --out FOLDER`: one model from the weights of several checkpoints, runs or folders.

RUN is a run folder (the model that it has exported, else its newest checkpoint), the folder of a sweep (all its runs), a
folder of a model, or a checkpoint (`<run>/checkpoints/step-<n>.ckpt`). `RUN@300,600` takes the checkpoints of these
steps, `RUN@best` the best one, and `--last 5` the last five of each run. The mean is in at least fp32; `--weights 2,1`
weighs models. `--ties BASE` merges the differences of models from a base. `--soup greedy` measures the finetuned models
of runs, their soups and their ensemble on the validation and test sets of the runs, prints a table and writes the greedy
soup; `--soup uniform` writes the mean of all models. FOLDER gets the config and tokenizer of the first model.
"""

import json
import math
import shutil
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiryns.conf.objective.labelled import THRESHOLDS
from tiryns.conf.values import Settings
from tiryns.runner import log
from tiryns.runner.cli.models.consolidate import consolidate
from tiryns.runner.cli.models.reading import is_setting
from tiryns.runner.run.command.json_output import print_json
from tiryns.runner.run.files import copy_folder, naming, read_json, resume_word, staging
from tiryns.runner.run.folder import Run, find_runs
from tiryns.runner.run.model_folder import TASK
from tiryns.runner.run.yaml_files import read_config

if TYPE_CHECKING:
    from torch import Tensor

    from tiryns.runner.checkpoints.averages import Source

RECORD = "average.json"

CARD = """---
library_name: transformers
tags: [tiryns]
---

# {name}, {about} of several models

| model | weight | digest of its weights |
|---|---|---|
{rows}

`average.json` has the same for programs. Config and tokenizer are those of the first model.
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    add = parser.add_argument
    about = "run, RUN@steps, checkpoint, model folder, or an allowed SETTING=VALUE"
    add("sources", nargs="+", metavar="RUN", help=about)
    add("--out", type=Path, required=True, metavar="FOLDER", help="the folder to write")
    add("--weights", metavar="W1,W2", help="the weight of each model (default: equal ones)")
    add("--last", type=int, metavar="N", help="takes the last N checkpoints of each run")
    add("--ema", action="store_true", help="takes the running averages in checkpoints")
    add("--ties", metavar="BASE", help="merges differences from this run, checkpoint or folder")
    add("--density", type=float, default=0.5, help="share of each difference that stays (0.5)")
    add("--scale", type=float, default=1.0, help="factor on the merged difference (1.0)")
    add("--soup", choices=("uniform", "greedy"), help="measures models and soups, and writes that one")


def main(arguments: Namespace) -> None:
    """Writes the folder and prints its path."""
    settings = dict(vars(arguments))
    words, as_json, base = (settings.pop(name) for name in ("sources", "json", "ties"))
    allow = [word for word in words if is_setting(word, r"\+?[a-z][\w.]*")]
    sources = [word for word in words if word not in allow]
    folder = average(sources=sources, base=base, allow=allow, **settings)
    record = json.loads((folder / RECORD).read_text())
    if as_json:
        print_json({**record, "target": folder})
        return
    if "soup" in record:
        from tiryns.runner.report.table import as_text

        ends = (f"/{record['soup']['monitor'].rpartition('/')[2]}", "/loss")
        by_model: dict[str, dict[str, float]] = record["soup"]["figures"]
        columns = list(dict.fromkeys(n for figures in by_model.values() for n in figures if n.endswith(ends)))
        rows = [[name, *map(figures.get, columns)] for name, figures in by_model.items()]
        print(as_text(["model", *columns], rows), end="")
    print(folder)


def average(
    sources: Sequence[str],
    out: Path,
    weights: str | None = None,
    last: int | None = None,
    ema: bool = False,
    base: str | None = None,
    density: float = 0.5,
    scale: float = 1.0,
    soup: str | None = None,
    allow: Sequence[str] = (),
) -> Path:
    """Writes the mean or merge of several models to the folder `out`, as transformers loads it, with a record of sources.

    If `soup` is `uniform` or `greedy`, measures models of runs and writes that soup. `allow` repeats settings of others'
    runs that let code run. Raises ValueError for invalid sources or numbers, OSError if `out` cannot be written.
    """
    if out.exists():
        raise ValueError(f"{str(out)!r} is there already; choose a folder that is not")
    if not 0 < density <= 1:
        raise ValueError(f"--density {density} must be above 0 and at most 1")
    if base is not None and len(bases := _paths(base, None)) > 1:
        raise ValueError(f"--ties {base} names {len(bases)} models: name one, such as {bases[0]}")
    if not math.isfinite(scale):
        raise ValueError(f"--scale {scale} must be a finite number")
    from tiryns.runner.checkpoints.averages import check_alike, combinations, mean, read_folder, ties
    from tiryns.runner.checkpoints.files import read_while_training

    with staging(out) as temporary:

        def read(paths: list[Path]) -> "tuple[list[float], Source, list[Source]]":
            if ema and (exports := [str(path) for path in paths if path.suffix != ".ckpt"]):
                raise ValueError(
                    f"--ema: {exports[0]!r} is an exported model, with one set of weights: name checkpoints (RUN@best, "
                    "--last N), or leave out --ema, as a run with a running average exports it"
                )
            shares = _shares(weights, paths)
            naming(out)(_write_template)(paths[0], temporary, allow)
            template = read_folder(temporary)._replace(path=paths[0])
            return shares, template, [_read(path, ema) for path in paths]

        shares, template, models = read_while_training(
            lambda: [path for source in sources for path in _paths(source, last)], read
        )
        facts: dict[str, Any] = {"method": "mean", "models": []}
        start = None
        if base is not None:
            start = read_while_training(lambda: _paths(base, None), lambda paths: _read(paths[0], ema))
        check_alike(template, [*models, *([start] if start else [])])
        _check_meaning(temporary, models, start)
        if soup is not None:
            from tiryns.runner.cli.models.soups import measure_soups

            facts |= measure_soups(models, soup, [weights, base], allow)
            models = [models[i] for i in facts["soup"]["members"]]
            shares = shares[: len(models)]
        facts["models"] = list(map(_fact, models, shares))
        if start is not None:
            facts |= {"method": "ties", "base": _fact(start), "density": density, "scale": scale}

        def combine(name: str, tensors: "list[Tensor]") -> "Tensor":
            if start is None:
                return mean(tensors, shares)
            return ties(start.tensors[name], tensors, shares, density, scale)

        tensors = dict(combinations(template, models, combine))
        settings = facts.pop("task", None) if soup else _settings_of_mean(models, shares)
        with naming(out):
            if settings and (temporary / TASK).is_file():
                task = json.loads((temporary / TASK).read_text())
                task["objective"] |= settings
                (temporary / TASK).write_text(json.dumps(task, indent=1))
            _replace_weights(temporary, tensors, facts)
    return out


def _paths(source: str, last: int | None) -> list[Path]:
    """Returns the checkpoints or the model folder that a source names; raises ValueError if there are none."""
    from tiryns.runner.checkpoints.callback import file_name, newest_checkpoint, step_of

    name, _, steps = source.partition("@") if not Path(source).exists() else (source, "", "")
    run = Path(name)
    if members := find_runs(run):  # of a sweep
        for one in members:
            if (state := Run(one).state) != "done":
                problem = f"the run {str(one)!r} of the sweep is {state}"
                raise ValueError(f"{problem}: finish it with {resume_word(run)}")
        return [path for one in members for path in _paths(f"{one}@{steps}" if steps else str(one), last)]
    if run.suffix == ".ckpt" and run.exists() and not steps:
        return [run.resolve()]
    folder = run / "checkpoints"
    if steps:
        names = steps.split(",")
        files = [folder / (file_name(int(step)) if step.isdecimal() else f"{step}.ckpt") for step in names]
        if missing := [step for step, file in zip(names, files, strict=True) if not file.exists()]:
            there = ", ".join(str(step_of(p)) for p in sorted(folder.glob("step-*.ckpt"))) or "none"
            raise ValueError(f"{str(run)!r} has no checkpoint {missing[0]!r}; there are: {there}")
        return [file.resolve() for file in files]
    if last is not None:
        checkpoints = sorted(path for path in folder.glob("step-*.ckpt") if not path.is_symlink())
        if not 0 < last <= len(checkpoints):
            raise ValueError(f"--last {last}: {name!r} has {len(checkpoints)} checkpoints")
        return checkpoints[-last:]
    for model in (run / "model", run):
        if (model / "config.json").is_file():
            return [model]
    if newest := newest_checkpoint(folder):
        return [newest.path]
    raise ValueError(f"{source!r} is neither a run with a model or checkpoints, nor a model or checkpoint")


def _check_meaning(folder: Path, sources: "Sequence[Source]", base: "Source | None") -> None:
    """Raises ValueError for weights beside the model's own, models with other tokens or labels, a base's other tokens."""
    if beside := next(folder.glob("*/*.safetensors"), None):
        problem = f"has weights of its own in {beside.parent.name}/, of which no mean is taken"
        raise ValueError(f"{str(sources[0].path)!r} {problem}: it cannot be averaged")
    labels, vocabulary = read_json(folder / "config.json", {}).get("id2label"), _vocabulary(folder)
    paths = [source.path for source in sources]
    for path in [*paths, *([base.path] if base else [])]:
        model = _model_folder(path)
        if vocabulary and _vocabulary(model) not in ({}, vocabulary):
            problem = f"{str(path)!r} numbers tokens otherwise than {str(sources[0].path)!r}"
            raise ValueError(f"{problem}: give the runs the same data.tokenizer")
        names = read_json(model / "config.json", {}).get("id2label", labels) if path in paths else labels
        if names != labels:
            first, other = (", ".join((one or {}).values()) for one in (labels, names))
            raise ValueError(
                f"the labels of {str(path)!r} are {other}, those of {str(sources[0].path)!r} {first}: give the runs "
                "the same labels in the same order (data.labels)"
            )


def _settings_of_mean(sources: "Sequence[Source]", shares: Sequence[float]) -> Settings:
    """Returns the thresholds of a mean, None if they were chosen for other weights, and its temperature, a parameter."""
    settings, folders = Settings(), [_model_folder(source.path) for source in sources]
    objectives = [read_json(folder / TASK, {}).get("objective", {}) for folder in folders]
    modes = [Run(folder.parent).settings.get("objective.thresholds") for folder in folders]
    values = {json.dumps(one.get("thresholds")) for one in objectives}
    stale = any(mode in THRESHOLDS for mode in modes) or len(values) > 1
    if stale and len(sources) > 1:
        log.warning("the thresholds of the models were chosen for other weights: those of the mean are 0.5")
        settings["thresholds"] = None
    if all("temperature" in one for one in objectives):
        logs = [share * math.log(one["temperature"]) for one, share in zip(objectives, shares, strict=True)]
        settings["temperature"] = math.exp(sum(logs) / sum(shares))
    return settings


def _model_folder(path: Path) -> Path:
    """Returns the folder of a model itself, or the folder that the run of a checkpoint has exported or will export."""
    return path.parent.parent / "model" if path.suffix == ".ckpt" else path


def _vocabulary(model: Path) -> object:
    """Returns the vocabulary of a model's tokenizer; empty without its file."""
    return read_json(model / "tokenizer.json", {}).get("model", {}).get("vocab") or {}


def _shares(weights: str | None, paths: Sequence[Path]) -> list[float]:
    if weights is None:
        return [1.0] * len(paths)
    try:
        shares = [float(word) for word in weights.split(",")]
    except ValueError:
        shares = []
    if len(shares) != len(paths) or min(shares) < 0 or not 0 < sum(shares) < math.inf:
        raise ValueError(f"--weights {weights}: expected {len(paths)} numbers, 0 or more, not all of them 0")
    return shares


def _read(path: Path, ema: bool) -> "Source":
    from tiryns.runner.checkpoints.averages import read_checkpoint, read_folder

    return read_checkpoint(path, ema) if path.suffix == ".ckpt" else read_folder(path)


def _write_template(path: Path, folder: Path, allow: Sequence[str]) -> None:
    """Copies the exported model, for config and tokenizer; if none exists or phases change it, exports the checkpoint."""
    shutil.rmtree(folder, ignore_errors=True)  # of a first try
    folder.parent.mkdir(parents=True, exist_ok=True)
    model = _model_folder(path)
    phases = [] if model == path else read_config(model.with_name("config.yaml")).get("phases") or []
    if model.is_dir() and not any(phase.get("model") for phase in phases):
        copy_folder(model, folder)
    else:
        consolidate(path, folder, allow)


def _fact(source: "Source", share: float | None = None) -> dict[str, Any]:
    from tiryns.runner.checkpoints.digests import state_digest

    fact = {"path": str(source.path), "digest": state_digest(dict(sorted(source.tensors.items())))}
    return fact if share is None else {**fact, "weight": share}


def _replace_weights(folder: Path, tensors: "dict[str, Tensor]", facts: dict[str, Any]) -> None:
    from safetensors.torch import save_file

    from tiryns.runner.checkpoints.averages import name_dtype
    from tiryns.runner.inference.export import open_to_readers

    for old in [*folder.glob("*.safetensors"), *folder.glob("*.safetensors.index.json")]:
        old.unlink()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / RECORD).write_text(json.dumps(facts, indent=1))
    config = name_dtype(folder / "config.json", tensors.values())
    rows = "\n".join(f"| {one['path']} | {one['weight']:g} | {one['digest']} |" for one in facts["models"])
    about = f"a merge by TIES, on the base {facts['base']['path']}," if "base" in facts else "the mean"
    (folder / "README.md").write_text(CARD.format(name=config["architectures"][0], about=about, rows=rows))
    open_to_readers(folder)
