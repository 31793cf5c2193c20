"""`tiryns average`: means and merges are those of their formulas, and models like any other."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from transformers import AutoModelForMaskedLM, AutoTokenizer

from tests.conftest import train_here
from tiryns.runner.checkpoints import averages
from tiryns.runner.checkpoints.averages import ties
from tiryns.runner.checkpoints.files import AtomicCheckpointIO
from tiryns.runner.cli.commands import main
from tiryns.runner.run.folder import Run

Tensors = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Run:
    overrides = [
        "checkpoint.every_steps=2", "checkpoint.keep_last=9", "trainer.max_steps=6", "module.ema=0.5",
    ]  # fmt: skip
    folder = tmp_path_factory.mktemp("run") / "outputs" / "day" / "run"
    return train_here(folder, text_file, *overrides, "optimizer.lr=0.01", "trainer.validate_every=0")


def averaged(out: Path, *words: Any) -> Tensors:
    main(["average", *map(str, words), "--out", str(out)])
    return load_file(out / "model.safetensors")


def trained(run: Run, step: int) -> Tensors:
    state = AtomicCheckpointIO().load_checkpoint(run.checkpoint_dir / f"step-{step:08d}.ckpt")["state_dict"]
    return {name.removeprefix("model.pretrained."): tensor for name, tensor in state.items()}


def test_last_checkpoints_are_averaged_once_and_load_as_a_model(run: Run, tmp_path: Path) -> None:
    found = averaged(tmp_path / "mean", run.path, "--last", "2")
    assert found.keys() == load_file(run.path / "model" / "model.safetensors").keys(), "tied weights once"
    first, second = trained(run, 4), trained(run, 6)
    for name, tensor in found.items():
        assert torch.equal(tensor, (first[name] + second[name]) / 2), name
        assert not torch.equal(first[name], second[name])
    model = AutoModelForMaskedLM.from_pretrained(tmp_path / "mean")
    assert torch.equal(model.get_output_embeddings().weight, model.get_input_embeddings().weight)
    assert len(AutoTokenizer.from_pretrained(tmp_path / "mean")) == model.config.vocab_size
    record = json.loads((tmp_path / "mean" / "average.json").read_text())
    assert [Path(one["path"]).name for one in record["models"]] == [
        "step-00000004.ckpt",
        "step-00000006.ckpt",
    ]
    assert len({one["digest"] for one in record["models"]}) == 2


@pytest.mark.slow
def test_steps_weights_averages_and_exports_may_be_named(run: Run, tmp_path: Path) -> None:
    found = averaged(
        tmp_path / "steps", f"{run.path}@2,4", run.checkpoint_dir / "last.ckpt", "--weights", "1,0,3"
    )
    states = [trained(run, 2), trained(run, 6)]
    exported = load_file(run.path / "model" / "model.safetensors")
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, (states[0][name] + 3 * states[1][name]) / 4)
    ema = averaged(tmp_path / "ema", f"{run.path}@6", "--ema")
    again = averaged(tmp_path / "again", run.path, tmp_path / "ema")
    for name, tensor in exported.items():
        assert torch.equal(ema[name], tensor)
        assert torch.equal(again[name], tensor)


def test_a_run_without_an_export_is_averaged_too(run: Run, tmp_path: Path) -> None:
    (run.path / "model").rename(tmp_path / "model")
    try:
        found = averaged(tmp_path / "out", run.path)
    finally:
        (tmp_path / "model").rename(run.path / "model")
    newest = trained(run, 6)
    assert all(torch.equal(tensor, newest[name]) for name, tensor in found.items())
    assert (tmp_path / "out" / "tokenizer.json").is_file()


def ties_by_formula(
    base: NDArray[Any], models: list[NDArray[Any]], shares: list[float], density: float, scale: float
) -> NDArray[Any]:
    moved = np.zeros_like(base)
    deltas = [model - base for model in models]
    kept = [d * (np.abs(d) >= np.sort(np.abs(d), axis=None)[-int(density * d.size)]) for d in deltas]
    for place in np.ndindex(base.shape):
        values = [share * d[place] for share, d in zip(shares, kept, strict=True)]
        positive = sum(values) >= 0
        agreeing = [(v, s) for v, s in zip(values, shares, strict=True) if v != 0 and (v > 0) == positive]
        if agreeing:
            moved[place] = sum(v for v, _ in agreeing) / sum(s for _, s in agreeing)
    return base + scale * moved


@pytest.mark.slow
@pytest.mark.rows(1)
@pytest.mark.parametrize("deleted", [4, 6])
def test_checkpoints_that_training_deletes_meanwhile_give_way_to_others(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deleted: int
) -> None:
    """The first, whose config and tokenizer are taken, or the last; the base of a merge is another."""
    shutil.copytree(run.path, tmp_path / "run", symlinks=True)
    shutil.rmtree(tmp_path / "run" / "model")
    copy, read, names = Run(tmp_path / "run"), averages.read_checkpoint, []

    def trains_on(path: Path, ema: bool) -> averages.Source:
        (copy.checkpoint_dir / f"step-{deleted:08d}.ckpt").unlink(missing_ok=True)
        names.append(path.name)
        return read(path, ema)

    monkeypatch.setattr(averages, "read_checkpoint", trains_on)
    found = averaged(tmp_path / "out", copy.path, "--last", 2)
    kept = 10 - deleted
    assert names[-2:] == ["step-00000002.ckpt", f"step-{kept:08d}.ckpt"]
    first, second = trained(run, 2), trained(run, kept)
    assert all(torch.equal(tensor, (first[name] + second[name]) / 2) for name, tensor in found.items())
    assert not list(tmp_path.glob(".out*"))


def test_ties_is_its_formula() -> None:
    draw = np.random.default_rng(0)
    base, *models = draw.normal(0, 1, (4, 12, 9))
    shares = [1.0, 2.0, 0.5]
    expected = ties_by_formula(base, models, shares, 0.4, 0.7)
    found = ties(torch.tensor(base), [torch.tensor(m) for m in models], shares, 0.4, 0.7)
    assert np.abs(found.double().numpy() - expected).max() < 1e-6
    one = torch.tensor([2.0])
    assert torch.equal(ties(torch.zeros(1), [one], [1.0], 0.3, 1.0), one), "of each tensor something stays"
    assert ties(torch.tensor([1, 7]), [torch.tensor([2, 8])], [1.0], 0.5, 1.0).tolist() == [1, 7]


@pytest.mark.slow
def test_ties_of_runs_starts_from_its_base(run: Run, tmp_path: Path) -> None:
    words = [f"{run.path}@4,6", "--ties", f"{run.path}@2", "--density", "0.2"]
    found = averaged(tmp_path / "ties", *words)
    base, *models = (trained(run, step) for step in (2, 4, 6))
    for name in ("bert.embeddings.word_embeddings.weight", "cls.predictions.bias"):
        expected = ties(base[name], [model[name] for model in models], [1.0, 1.0], 0.2, 1.0)
        assert torch.equal(found[name], expected)
    record = json.loads((tmp_path / "ties" / "average.json").read_text())
    assert (record["method"], record["density"]) == ("ties", 0.2)
    assert Path(record["base"]["path"]).name == "step-00000002.ckpt"


def test_what_cannot_be_averaged_is_told_in_one_line(run: Run, tmp_path: Path) -> None:
    weights = load_file(run.path / "model" / "model.safetensors")
    name = "bert.embeddings.LayerNorm.bias"
    for folder, tensors in {
        "short": {n: t for n, t in weights.items() if n != name},
        "long": {**weights, "extra": torch.ones(1)},
        "wide": {**weights, name: torch.ones(3)},
    }.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.json").write_text("{}")
        save_file(tensors, tmp_path / folder / "model.safetensors")
    cases: list[tuple[list[Any], str]] = [
        ([tmp_path / "short"], f"short' has no '{name}', which"),
        ([tmp_path / "long"], "model' has no 'extra', which"),
        ([tmp_path / "wide"], rf"'{name}' has shape \(32,\) in .*, \(3,\) in .*wide'; all must be one model"),
        (["--ema"], "--ema: '.*model' is an exported model, with one set of weights: name checkpoints"),
    ]
    for words, message in cases:
        with pytest.raises(SystemExit, match=message):
            averaged(tmp_path / "out", run.path, *words)
        assert not (tmp_path / "out").exists()
        assert not list(tmp_path.glob(".*.tmp"))


def test_models_of_other_labels_or_tokens_or_weights_beside_are_refused(run: Run, tmp_path: Path) -> None:
    for name, labels in {"first": "ab", "second": "ba"}.items():
        shutil.copytree(run.path / "model", tmp_path / name)
        config = json.loads((tmp_path / name / "config.json").read_text())
        config["id2label"] = dict(enumerate(labels))
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    with pytest.raises(SystemExit, match=r"the labels of '.*second' are b, a, those of '.*first' a, b: give"):
        averaged(tmp_path / "out", tmp_path / "first", tmp_path / "second")
    shutil.copytree(tmp_path / "first", tmp_path / "third")
    tokenizer = tmp_path / "third" / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text().replace('"the"', '"thee"'))
    for words in ([tmp_path / "third"], ["--ties", tmp_path / "third"]):
        with pytest.raises(SystemExit, match=r"third' numbers tokens otherwise than '.*first': give"):
            averaged(tmp_path / "out", tmp_path / "first", *words)
    averaged(tmp_path / "out", tmp_path / "first", tmp_path / "first")
    (tmp_path / "first" / "1_Dense").mkdir()
    save_file({"weight": torch.ones(1)}, tmp_path / "first" / "1_Dense" / "model.safetensors")
    with pytest.raises(SystemExit, match="first' has weights of its own in 1_Dense/, of which no mean is"):
        averaged(tmp_path / "other", tmp_path / "first", tmp_path / "first")


@pytest.mark.rows(4)
@pytest.mark.parametrize("how", [[], ["--ties", "0"]])
@pytest.mark.parametrize(
    ("saved", "written"),
    [
        (("bfloat16", "bfloat16"), "float32"),
        (("bfloat16", "float32"), "float32"),
        (("float32", "float64"), "float64"),
    ],
)
def test_average_is_at_least_fp32_whatever_the_folders_have(
    saved: tuple[str, str], written: str, how: list[str], run: Run, tmp_path: Path
) -> None:
    folders: list[Path] = []
    for number, name in enumerate(saved):
        model = AutoModelForMaskedLM.from_pretrained(run.path / "model", dtype=getattr(torch, name))
        with torch.no_grad():
            model.get_input_embeddings().weight.mul_(1 + number / 64)
        folders.append(tmp_path / str(number))
        model.save_pretrained(folders[-1])
        settings = {"thresholds": 0.2 + number / 10, "temperature": 0.1 * 4**number}
        (folders[-1] / "task.json").write_text(json.dumps({"objective": settings}))
    words = [str(folders[0]) if word == "0" else word for word in how]
    found = averaged(tmp_path / "mean", *folders, *words)
    assert {tensor.dtype for tensor in found.values()} == {getattr(torch, written)}
    assert str(AutoModelForMaskedLM.from_pretrained(tmp_path / "mean").dtype) == f"torch.{written}"
    name = "bert.embeddings.word_embeddings.weight"
    one, other = (load_file(folder / "model.safetensors")[name].double() for folder in folders)
    if not how:
        torch.testing.assert_close(found[name].double(), (one + other) / 2, rtol=1e-6, atol=0)
    task = json.loads((tmp_path / "mean" / "task.json").read_text())
    assert task["objective"] == {"thresholds": None, "temperature": pytest.approx(0.2)}, "of other weights"
    averaged(tmp_path / "same", folders[0], folders[0])
    assert json.loads((tmp_path / "same" / "task.json").read_text())["objective"]["thresholds"] == 0.2
