"""A run says by digest what made it, and whether anything was changed since."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TINY, train_here
from tests.runs.test_train import continued
from tests.support import needs
from tiryns.runner.cli.commands import main
from tiryns.runner.manifest.digests import file_digest, value_digest
from tiryns.runner.manifest.inputs import read_manifest
from tiryns.runner.manifest.steps import FILE_NAME as DIGESTS
from tiryns.runner.manifest.verification import verify
from tiryns.runner.run.folder import Run

Train = Callable[..., Run]

SAVING = (
    "callback.manifest.every=2", "checkpoint.every_steps=5", "checkpoint.keep_last=9", "model.dropout=0.1",
)  # fmt: skip


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Run:
    """A run with everything in it; copies of it are altered."""
    run: Run = train_here(tmp_path_factory.mktemp("manifest") / "run", text_file, *SAVING)
    return run


SHORT = ("callback.manifest.every=2", "trainer.max_steps=3", "trainer.validate_every=0")


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Run:
    """A run of three steps, on a machine whose settings of threads are a secret."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name in ("HF_TOKEN", "KMP_AFFINITY"):
            monkeypatch.setenv(name, "hf_verysecretvalue123")
        run: Run = train_here(tmp_path_factory.mktemp("short") / "run", text_file, *SHORT)
    return run


@pytest.fixture
def copy(done: Run, tmp_path: Path) -> Path:
    return Path(shutil.copytree(done.path, tmp_path / "copy", symlinks=True))


def digests(run: Run) -> str:
    return (run.path / DIGESTS).read_text()


def rewrite(path: Path, **values: Any) -> None:
    """Changes a manifest as somebody would who knows how its own digest is made."""
    content = {**json.loads(path.read_text()), **values}
    content.pop("digest", None)
    path.write_text(json.dumps({**content, "digest": value_digest(content)}))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_manifest_says_what_made_the_run(done: Run, text_file: Path) -> None:
    manifest = read_manifest(done.path)
    assert manifest["complete"]
    assert manifest["config"]["hash"] == done.status["config_hash"]
    assert manifest["config"]["resolved"]["optimizer"]["lr"] == 0.003
    assert manifest["config"]["digest"] == file_digest(done.path / "config.yaml")
    assert manifest["code"]["files"]["runner/train.py"] == file_digest(Path("runner/train.py"))
    assert str(Path(__file__).resolve()) in manifest["code"]["own"]
    assert manifest["packages"]["torch"].startswith("2.")
    assert manifest["resolved"].items() >= {**done.status["resolved"]}.items()
    assert {"kernels", "threads", "float32_matmul_precision"} <= set(manifest["resolved"])
    assert manifest["inputs"]["sources"]["train"]["files"][0][0] == text_file.name
    assert {"data", "order", "tokenizer", "evaluation"} <= set(manifest["inputs"])
    assert {"order.txt", "metrics.csv", DIGESTS, "checkpoints/last.ckpt", "model/model.safetensors"} <= set(
        manifest["outputs"]
    )
    assert manifest["outputs"]["order.txt"] == file_digest(done.path / "order.txt")
    assert manifest["outputs"]["checkpoints/last.ckpt"] == "link:step-00000012.ckpt"


def test_a_manifest_says_what_the_run_took(done: Run) -> None:
    manifest = read_manifest(done.path)
    totals, (session,) = manifest["totals"], manifest["sessions"]
    assert (totals["steps"], totals["counted_from_step"], manifest["interruptions"]) == (12, 0, 0)
    assert totals["tokens"] > 1000
    assert totals["flops"] > 6 * 10_000 * totals["tokens"]  # the model's matrices have some 20,000 weights
    assert 0 < session["seconds"] <= totals["seconds"] <= done.status["seconds"]
    assert 0 < session["cpu_seconds"] == totals["cpu_seconds"]
    assert (session["step"], session["last_step"], session["restart_of_ranks"]) == (0, 12, 0)
    assert session["ended"]


def test_the_model_has_its_manifest_and_its_card_names_it(done: Run, tmp_path: Path) -> None:
    assert (done.path / "model/manifest.json").read_text() == (done.path / "manifest.json").read_text()
    assert "## What made it\n\n`manifest.json` holds" in (done.path / "model/README.md").read_text()
    main(["push", str(done.path), str(tmp_path / "pushed")])
    assert verify(tmp_path / "pushed") == []
    flip(tmp_path / "pushed/model.safetensors")
    assert verify(tmp_path / "pushed") == ["model.safetensors was changed"]


@pytest.mark.slow
def test_digests_are_taken_every_so_many_steps_and_at_the_last(done: Run, short: Run) -> None:
    lines = [line.split() for line in digests(done).splitlines()]
    assert [line[0] for line in lines] == ["2", "4", "6", "8", "10", "12"]
    assert len({word for line in lines for word in line[1:]}) == 24  # order, loss, weights, optimizer state
    assert [line.split()[0] for line in digests(short).splitlines()] == ["2", "3"]


def test_a_run_that_nobody_changed_is_verified(done: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(done.path) == []
    assert verify(done.path / "model") == []
    main(["verify", str(done.path)])
    assert "is as its manifest says" in capsys.readouterr().out


@pytest.mark.parametrize(
    "name",
    ["model/model.safetensors", "model/tokenizer.json", "checkpoints/step-00000010.ckpt", "order.txt",
     "metrics.csv", "config.yaml", "digests.txt", "environment.json"],
)  # fmt: skip
def test_one_changed_bit_is_named(copy: Path, name: str) -> None:
    flip(copy / name)
    assert verify(copy) == [f"{name} was changed"]


def test_what_is_missing_added_or_led_elsewhere_is_named(copy: Path) -> None:
    (copy / "metrics.csv").unlink()
    (copy / "model/extra.bin").write_bytes(b"x")
    (copy / "notes.txt").write_text("of somebody who looked at the run")
    (copy / "checkpoints/best.ckpt").unlink()
    (copy / "checkpoints/best.ckpt").symlink_to("step-00000005.ckpt")
    changes = ["metrics.csv is missing", "checkpoints/best.ckpt was changed", "model/extra.bin was added"]
    assert sorted(verify(copy)) == sorted(changes)
    shutil.rmtree(copy / "checkpoints")
    assert "checkpoints/last.ckpt is missing" in verify(copy)


def test_a_changed_manifest_is_named(copy: Path) -> None:
    file = copy / "manifest.json"
    file.write_text(file.read_text().replace('"steps": 12', '"steps": 13'))
    differs = "model/manifest.json is not the manifest.json of the run"
    assert verify(copy) == ["manifest.json was changed", differs]
    rewrite(file)
    assert verify(copy) == [differs]


def test_command_ends_with_its_status(copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy / "order.txt").unlink()
    with pytest.raises(SystemExit) as ended:
        main(["verify", str(copy)])
    assert ended.value.code == 4
    assert capsys.readouterr().err == "order.txt is missing\n"
    rewrite(copy / "manifest.json", complete=False)
    for folder, why in ((copy, "is not done"), (tmp_path, "has no manifest")):
        with pytest.raises(SystemExit, match=f"error: .*{why}"):
            main(["verify", str(folder)])


def test_a_resumed_run_has_the_digests_of_an_undisturbed_one(
    done: Run, copy: Path, run_here: Train, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    killed = continued(Run(copy), 5, "killed")
    file = killed.path / "manifest.json"
    left = {**json.loads(file.read_text()), "complete": False}
    left["packages"] = {**left["packages"], "torch": "1.0"}
    left["inputs"]["evaluation"] = {"held_out": "of other samples"}
    file.write_text(json.dumps(left))
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "2")
    resumed = run_here(*SAVING, folder="killed")
    assert digests(resumed) == digests(done)
    manifest, undisturbed = read_manifest(resumed.path), read_manifest(done.path)
    assert [(one["step"], one["restart_of_ranks"]) for one in manifest["sessions"]] == [(0, 0), (5, 2)]
    changes = {"packages": {"torch": "1.0"}, "evaluation": {"held_out": "of other samples"}}
    assert changes.items() <= manifest["sessions"][1]["changed"].items()
    assert "held_out: other samples than before step 5" in caplog.text
    assert manifest["interruptions"] == 1
    for name in ("steps", "tokens", "flops", "counted_from_step"):
        assert manifest["totals"][name] == undisturbed["totals"][name]
    assert manifest["outputs"]["order.txt"] == undisturbed["outputs"]["order.txt"]
    assert verify(resumed.path) == []


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    ("change", "same"), [("data.num_workers=1", True), ("seed=1", False), ("optimizer.lr=0.002", False)]
)
def test_digests_change_with_what_is_computed(short: Run, run_here: Train, change: str, same: bool) -> None:
    assert (digests(run_here(*SHORT, change)) == digests(short)) == same


@pytest.mark.slow
def test_a_run_that_fails_says_how_far_it_came(run_here: Train, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="is not a number at step"):
        run_here("optimizer=sgd", "optimizer.lr=1e30", "module.max_grad_norm=0", "trainer.max_steps=50")
    manifest = read_manifest(tmp_path / "run")
    assert not manifest["complete"]
    assert manifest["sessions"][0]["last_step"] == manifest["totals"]["steps"] < 50
    assert manifest["sessions"][0]["ended"]


def test_the_chain_of_lineage_is_whole_until_a_link_is_changed(
    copy: Path, run_here: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.conftest.TINY", [word for word in TINY if not word.startswith("model")])
    short = ("trainer.max_steps=2", "trainer.validate_every=0", "model=pretrained")
    second = run_here(*short, f"model.name_or_path={copy}", folder="second")
    third = run_here(*short, f"model.name_or_path={second.path}", folder="third")
    weights = read_manifest(second.path)["inputs"]["weights"]
    assert weights["manifest"] == read_manifest(copy)
    assert verify(third.path) == []
    link = f"the weights that it began with, {str(copy / 'model')!r}"
    rewrite(copy / "model/manifest.json", version=2)
    assert verify(third.path) == [f"{link}: its manifest.json was changed"]
    (copy / "model/manifest.json").write_text((copy / "manifest.json").read_text())
    flip(copy / "model/model.safetensors")
    assert verify(third.path) == [f"{link}: model.safetensors was changed"]
    shutil.rmtree(copy)
    assert verify(third.path) == [f"{link}: it is not here, so it cannot be compared"]
    assert verify(third.path, alone=True) == []
    manifest = read_manifest(third.path)
    manifest["inputs"]["weights"]["manifest"]["outputs"]["model/model.safetensors"] = "sha256:0"
    for file in (third.path / "manifest.json", third.path / "model/manifest.json"):
        rewrite(file, **manifest)
    link = f"the weights that it began with, {str(second.path / 'model')!r}"
    assert f"{link}: its manifest in manifest.json was changed" in verify(third.path)
    assert f"{link}: its manifest describes other files" in verify(third.path)


@pytest.mark.slow
def test_a_branch_names_the_checkpoint_it_started_from(copy: Path, run_here: Train) -> None:
    point = copy / "checkpoints/step-00000010.ckpt"
    branch = run_here(*SAVING, "trainer.max_steps=14", f"resume={point}", folder="branch")
    given = read_manifest(branch.path)["inputs"]["checkpoint"]
    assert given["path"] == str(point)
    assert given["manifest"] == read_manifest(copy)
    assert read_manifest(branch.path)["sessions"][0]["step"] == 10
    assert verify(branch.path) == []
    flip(point)
    assert verify(branch.path) == [f"the checkpoint that it branched from, {str(point)!r}: . was changed"]


def test_no_secret_stands_in_a_manifest(short: Run) -> None:
    assert read_manifest(short.path)["machine"]["KMP_AFFINITY"] == "***"
    assert verify(short.path) == []


def test_without_the_callback_there_is_no_manifest(run_here: Train) -> None:
    run = run_here("callback.manifest=null", "trainer.max_steps=1", "trainer.validate_every=0")
    assert not (run.path / "manifest.json").exists()
    assert "What made it" not in (run.path / "model/README.md").read_text()


def test_signature_of_the_model_by_its_key_alone(
    copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needs.package("model_signing.signing")
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec

    for name in ("ours", "theirs"):
        key = ec.generate_private_key(ec.SECP256R1())
        private = form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()
        (tmp_path / name).write_bytes(key.private_bytes(*private))
        public = form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo
        (tmp_path / f"{name}.pub").write_bytes(key.public_key().public_bytes(*public))

    def told(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main([*words])
        assert ended.value.code == 4
        return capsys.readouterr().err

    checked = ["verify", str(copy), "--key", str(tmp_path / "ours.pub")]
    assert "is not signed" in told(*checked)
    main(["verify", str(copy), "--sign", str(tmp_path / "ours")])
    main(checked)
    foreign = "is no signature of this model by that key"
    assert foreign in told("verify", str(copy), "--key", str(tmp_path / "theirs.pub"))
    content = json.loads((copy / "manifest.json").read_text())
    content.pop("digest")
    for file in (copy / "manifest.json", copy / "model/manifest.json"):
        rewrite(file, **{**content, "version": 2})
    assert foreign in told(*checked)
    with pytest.raises(SystemExit, match="is no private key of an elliptic curve"):
        main(["verify", str(copy), "--sign", str(copy / "config.yaml")])
    assert (copy / "model/manifest.sig").exists()
