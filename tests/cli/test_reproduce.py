"""`tiryns reproduce`: a run is built again from its manifest, and what differs is named."""

import json
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from tests.conftest import TINY, train_here, write_text
from tests.runs.test_train import Train
from tests.support.in_process import Done, tiryns_here
from tests.support.precision import rounding
from tiryns.runner.cli.reproduce.comparison import UNKNOWN, compare, describe
from tiryns.runner.cli.reproduce.rebuilding import read_run
from tiryns.runner.manifest.code import program_files
from tiryns.runner.manifest.inputs import Manifest, read_manifest
from tiryns.runner.run.environment import packages
from tiryns.runner.run.folder import Run

SHORT = (
    "trainer.max_steps=6", "trainer.validate_every=0", "callback.manifest.every=2", "model.dropout=0.1",
    "checkpoint.every_steps=3",
)  # fmt: skip


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text(tmp_path_factory.mktemp("text") / "herons.txt")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, text: Path) -> Path:
    run: Run = train_here(tmp_path_factory.mktemp("done") / "run", text, *SHORT)
    return run.path


@pytest.fixture
def manifest(done: Path, tmp_path: Path) -> Path:
    """The manifest alone, to be altered."""
    return Path(shutil.copyfile(done / "manifest.json", tmp_path / "manifest.json"))


def altered(manifest: Path, change: Callable[[Manifest], object]) -> Path:
    content = json.loads(manifest.read_text())
    change(content)
    manifest.write_text(json.dumps(content))
    return manifest


def refused(manifest: Path, *words: str, status: int = 1) -> list[str]:
    """The lines of a rebuilding that does not begin."""
    ended: Done = tiryns_here(manifest.parent, "reproduce", str(manifest), *words)
    assert (ended.returncode, ended.stdout) == (status, "")
    assert not (manifest.parent / "outputs").exists()
    return ended.stderr.splitlines()


def report_of(folder: Path, *words: str) -> dict[str, Any]:
    ended = tiryns_here(folder, "reproduce", *words, "--json")
    report: dict[str, Any] = json.loads(ended.stdout)
    assert ended.returncode == {"identical": 0, "different": 4, "equal to rounding": 3}[report["verdict"]]
    return report


def test_run_is_rebuilt_from_its_manifest_alone_with_other_workers(
    manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiryns.runner.manifest.code.own_modules", dict)  # the tests' own belong to no run
    altered(manifest, lambda content: content["code"].update(own={}))
    ended = tiryns_here(manifest.parent, "reproduce", str(manifest), "data.num_workers=1")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[1:3] == [
        "identical: 3 steps compared, the last is 6",
        "  to the bit: order, loss, weights and optimizer state of these steps",
    ]
    (report,) = manifest.parent.glob("outputs/*/*/reproduction.json")
    files = json.loads(report.read_text())["files"]
    assert {"order.txt", "model/model.safetensors", "model/tokenizer.json"} <= set(files["identical"])
    assert files["different"] == []


def test_one_byte_of_data_is_named(text: Path, manifest: Path) -> None:
    whole = text.read_bytes()
    try:
        text.write_bytes(whole.replace(b"herons", b"Herons", 1))
        lines = refused(manifest, status=2)
        assert lines[0] == "data: data.source: herons.txt differs"
        assert len(lines) == 2  # and nothing else, but the way to go on
    finally:
        text.write_bytes(whole)


def test_one_line_of_code_and_one_version_are_named(manifest: Path) -> None:
    name = "runner/objectives/mlm.py"
    altered(manifest, lambda content: content["code"]["files"].update({name: "sha256:0"}))
    assert refused(manifest, status=2) == [
        f"code: {name} differs",
        "error: the run would be made otherwise (above); --anyway goes on",
    ]
    altered(manifest, lambda content: content["code"]["files"].update({name: program_files()[name]}))
    here = packages()["tokenizers"]
    altered(manifest, lambda content: content["packages"].update(tokenizers="0.1"))
    assert refused(manifest, status=2)[:-1] == [f"packages: tokenizers 0.1 there, {here} here"]


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    ("change", "first", "reasons"),
    [
        (
            "seed=7",
            ("order", 1, 0),
            ["setting: seed 42 there, 7 here", "setting: sampler.seed 42 there, 7 here"],
        ),
        ("optimizer.lr=0.01", ("loss", 2, 0), ["setting: optimizer.lr 0.003 there, 0.01 here"]),
        ("optimizer.lr=0.003003", ("loss", 2, 0), ["setting: optimizer.lr 0.003 there, 0.003003 here"]),
        ("data.micro_batch_tokens=200", None, ["computed: micro_batch_tokens 400 there, 200 here"]),
    ],
)
def test_where_another_run_parts_and_why(
    done: Path,
    text: Path,
    tmp_path: Path,
    change: str,
    first: tuple[str, int, int] | None,
    reasons: list[str],
) -> None:
    other = train_here(tmp_path / "other", text, *SHORT, change)
    report = report_of(tmp_path, str(done), "--with", str(other.path))
    found = report["first_difference"]
    assert report["reasons"] == reasons
    assert report["largest_weight_difference"] > 0
    if first is None:
        assert report["verdict"] == "equal to rounding"
        assert "order.txt" in report["files"]["identical"]
        assert 0 < report["largest_loss_difference"]["relative"] < rounding(1e-5, 1e-2)
    else:
        assert report["verdict"] == "different"
        assert (found["what"], found["step"], found["after"]) == first
        assert "model/model.safetensors" in report["files"]["different"]
    assert describe(report)[-len(reasons) :] == [f"    {reason}" for reason in reasons]
    assert UNKNOWN in describe({**report, "reasons": []})[-1]


def manifests() -> Iterator[tuple[str, Callable[[Manifest], object], str]]:
    """What is wrong with a manifest, and what the one line says."""
    yield (
        "code of others",
        lambda content: content["config"]["resolved"].update(trust_remote_code=True),
        "code of others",
    )
    yield (
        "a secret",
        lambda content: content["config"]["resolved"]["data"].update(source="hf://***@files"),
        "data.source held a secret, which is not written down: give it again, as data.source=...",
    )
    yield (
        "a branch",
        lambda content: content["inputs"].update(checkpoint={"path": "/gone/checkpoints/step-1.ckpt"}),
        "is a branch of the checkpoint '/gone/checkpoints/step-1.ckpt', which is not here",
    )
    yield "no steps", lambda content: content.pop("steps"), "has no digests of any step"
    yield "no code", lambda content: content.pop("code"), "is damaged: a part of it is missing"
    yield "no config", lambda content: content.pop("config"), "no manifest of a run"


@pytest.mark.rows(3)
@pytest.mark.parametrize(
    ("change", "line"), [case[1:] for case in manifests()], ids=[c[0] for c in manifests()]
)
def test_what_cannot_be_rebuilt_ends_with_one_line(
    manifest: Path, change: Callable[[Manifest], object], line: str
) -> None:
    (message,) = refused(altered(manifest, change))
    assert message.startswith("error: ")
    assert line in message


def test_steps_without_digests_are_refused(manifest: Path) -> None:
    assert refused(manifest, "--steps=1") == [
        "error: --steps 1: the run has no digests before step 2, by its callback.manifest.every"
    ]
    assert "--with trains nothing, so it takes" in refused(manifest, "--steps=2", "--with=outputs")[0]
    manifest.write_text("{")
    assert "is damaged, or no manifest of a run" in refused(manifest)[0]
    assert "there is no such file" in refused(manifest.with_name("none.json"))[0]


def test_run_that_ends_before_its_length_has_the_digest_of_its_last_step(run_here: Train) -> None:
    """Of the trained weights, not of their average, which the validation puts into the model."""
    words = [
        "callback=[default,stop_after]", "callback.stop_after.steps=3", "trainer.validate_every=3",
        "module.ema=0.5",
    ]  # fmt: skip
    often, ended = (run_here(*words, f"callback.manifest.every={n}", folder=f"{n}") for n in (1, 100))
    assert read_run(ended.path).steps == read_run(often.path).steps[-1:]
    assert read_run(ended.path).steps[0].step == 3


def test_unfinished_run_is_compared_as_far_as_it_came(done: Path, tmp_path: Path) -> None:
    from tiryns.runner.cli.reproduce.command import steps_to_train

    copy = Path(shutil.copytree(done, tmp_path / "run"))
    lines = (copy / "digests.txt").read_text().splitlines(keepends=True)
    (copy / "digests.txt").write_text("".join(lines[:2]))
    altered(copy / "manifest.json", lambda content: content.update(complete=False))
    original = read_run(copy)
    assert steps_to_train(original, None) == 4
    assert [steps_to_train(original, asked) for asked in (3, 100)] == [3, 4]
    whole = read_run(done)
    assert [steps_to_train(whole, asked) for asked in (None, 3, 6, 100)] == [None, 3, None, None]
    assert read_manifest(done)["steps"] == (done / "digests.txt").read_text().splitlines()
    report = compare(original, whole)
    assert (report["verdict"], report["steps"]["compared"]) == ("identical", 2)
    assert report["files"]["identical"] == []
    first, last = original.steps
    for was, is_now in (("inf", last.loss), (last.loss, "inf"), ("inf", "-inf"), ("nan", last.loss)):
        then, now = (original._replace(steps=[first, last._replace(loss=loss)]) for loss in (was, is_now))
        report = compare(then, now)
        assert (report["verdict"], report["largest_loss_difference"]["relative"]) == ("different", math.inf)
    other, weights = Path(shutil.copytree(done, tmp_path / "other")), "model/model.safetensors"
    save_file({"one": torch.ones(1)}, other / weights)
    altered(other / "manifest.json", lambda content: content["outputs"].update({weights: "other"}))
    assert compare(whole, read_run(other))["largest_weight_difference"] is None
    altered(copy / "manifest.json", lambda content: content["sessions"][0].update(step=2))
    assert [step.step for step in read_run(copy).steps] == [4], "a branch has its parent's lines, too"


def test_words_name_every_setting(manifest: Path) -> None:
    """The overrides of a rebuilt run pin what `auto` came to, and stop where they should."""
    from tiryns.runner.cli.compose import compose, initialize
    from tiryns.runner.cli.reproduce.rebuilding import environment_of, words_of

    content = json.loads(manifest.read_text())
    content["config"]["resolved"]["trainer"] |= {"precision": "auto", "devices": "auto", "num_nodes": 2}
    content["resolved"] |= {"precision": "bf16-mixed", "processes": 4, "threads": 3}
    content["skipped"] = [{"batches": [3, 4], "step": 5, "checkpoint": 2}]
    with initialize():
        config = compose(words_of(content, ["data.num_workers=1"], 4))
        content["inputs"]["checkpoint"] = {"path": "/gone/checkpoints/step-1.ckpt"}
        assert compose(words_of(content, ["resume=moved.ckpt"], 4)).resume == "moved.ckpt"
    trainer = config.trainer
    assert (trainer.precision, trainer.devices, trainer.num_nodes) == ("bf16-mixed", 4, 1)
    assert (config.data.num_workers, config.optimizer.lr, config.callback.stop_after.steps) == (1, 0.003, 4)
    assert (config.data.layout, config.outputs, config.resume) == ("packed", "outputs", None)
    assert config.skip_batches == [[3, 4]]  # what a rewind left out
    content["machine"] |= {"ONEDNN_MAX_CPU_ISA": "AVX2"}
    assert environment_of(content, [])["OMP_NUM_THREADS"] == "3"
    assert environment_of(content, [])["ONEDNN_MAX_CPU_ISA"] == "AVX2"
    assert "OMP_NUM_THREADS" not in environment_of(content, ["trainer.devices=2"])
    assert any(word.startswith("trainer.max_steps") for word in TINY)
