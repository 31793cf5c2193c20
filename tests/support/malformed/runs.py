"""Run folders and checkpoints that are damaged, foreign or unsafe."""

import pickle
import shutil
from pathlib import Path
from zipfile import ZipFile

from tests.conftest import TINY
from tests.support.in_process import tiryns_here
from tests.support.malformed import labelled
from tests.support.malformed.models import Damage, Evil, changed, cut, gone, text
from tests.support.malformed.text import LINES


def checkpoint(damage: Damage) -> Damage:
    """Damage to every checkpoint, which is called `it`."""

    def harm(folder: Path) -> None:
        for file in (folder / "checkpoints").glob("step-*.ckpt"):
            file.rename(folder / "it")
            damage(folder)
            (folder / "it").rename(file)

    return harm


def flipped(folder: Path) -> None:
    """One byte in the middle that is another."""
    content = bytearray((folder / "it").read_bytes())
    content[len(content) // 2] ^= 0xFF
    (folder / "it").write_bytes(content)


def zipped(folder: Path) -> None:
    """An archive that is no checkpoint."""
    with ZipFile(folder / "it", "w") as archive:
        archive.writestr("a/data.pkl", pickle.dumps(Evil()))
        archive.writestr("a/version", "3")


def saved(value: object) -> Damage:
    """A checkpoint that torch reads, of another content."""

    def save(folder: Path) -> None:
        import torch

        torch.save(value, folder / "it")

    return save


def emptied(folder: Path) -> None:
    """A folder without files."""
    shutil.rmtree(folder)
    folder.mkdir()


def a_file(folder: Path) -> None:
    """A file in the place of the folder."""
    shutil.rmtree(folder)
    folder.write_text("x")


RUNS: dict[str, Damage] = {
    "r_status_empty": text("status.json", ""), "r_status_cut": text("status.json", '{"state": "do'),
    "r_status_list": text("status.json", "[1, 2]"),
    "r_status_types": text("status.json", '{"state": 5, "step": "two", "results": [1]}'),
    "r_status_nested": text("status.json", "[" * 100_000),
    "r_status_binary": text("status.json", b"\xff\xfe\x00"), "r_overrides_cut": text("overrides.json", "["),
    "r_overrides_numbers": text("overrides.json", "[1, 2]"),
    "r_overrides_object": text("overrides.json", '{"a": 1}'), "r_overrides_five": text("overrides.json", "5"),
    "r_overrides_typo": text("overrides.json", '["optimizer.lrr=1"]'),
    "r_overrides_word": text("overrides.json", '["[["]'),
    "r_overrides_evil": text("overrides.json", '["+callback.x={_target_: os.system, command: touch pwned}"]'),
    "r_config_cut": text("config.yaml", "model: {"), "r_config_empty": text("config.yaml", ""),
    "r_config_list": text("config.yaml", "- 1\n"), "r_config_gone": gone("config.yaml"),
    "r_metrics_cut": text("metrics.csv", "step,ti"), "r_metrics_empty": text("metrics.csv", ""),
    "r_metrics_text": text("metrics.csv", "step,time,train/loss\none,two,three\n"),
    "r_metrics_binary": text("metrics.csv", b"\xff\xfe\x00\x01" * 9),
    "r_metrics_wide": text("metrics.csv", "step,train/loss\n1,2,3,4\n"), "r_order_gone": gone("order.txt"),
    "r_order_empty": text("order.txt", ""), "r_order_text": text("order.txt", "no order\n"),
    "r_order_binary": text("order.txt", b"\xff\xfe\x00"), "r_manifest_gone": gone("manifest.json"),
    "r_manifest_cut": text("manifest.json", "{"), "r_manifest_list": text("manifest.json", "[]"),
    "r_manifest_empty": text("manifest.json", "{}"),
    "r_manifest_types": changed("manifest.json", outputs=5, weights=5, files=[1], model="x"),
    "r_manifest_config": changed("manifest.json", config={"resolved": 5}),
    "r_manifest_steps": changed("manifest.json", steps=5),
    "r_digests_text": text("digests.txt", "no digests\n"),
    "r_model_gone": lambda folder: shutil.rmtree(folder / "model"),
    "r_model_config": text("model/config.json", "{"), "r_model_weights": cut("model/model.safetensors", 100),
    "r_model_tokenizer": text("model/tokenizer.json", "{"),
    "r_environment_cut": text("environment.json", "{"), "r_command_binary": text("command.txt", b"\xff\xfe"),
    "r_file": a_file, "r_empty": emptied,
}  # fmt: skip

CHECKPOINTS: dict[str, Damage] = {
    "c_empty": checkpoint(text("it", "")), "c_cut": checkpoint(cut("it", 3000)),
    "c_flipped": checkpoint(flipped), "c_text": checkpoint(text("it", "no checkpoint")),
    "c_pickle": checkpoint(text("it", pickle.dumps(Evil()))), "c_zip": checkpoint(zipped),
    "c_list": checkpoint(saved([1, 2])), "c_object": checkpoint(saved({})),
    "c_state_list": checkpoint(saved({"state_dict": [1]})),
    "c_gone": lambda folder: shutil.rmtree(folder / "checkpoints"),
}  # fmt: skip

BESIDE: dict[str, str | bytes] = {
    "herons.txt": "\n\n".join(LINES), "good.csv": labelled.FILES["l/good.csv"],
    "bad.csv": "text,label\na,b,c\n", "bad.jsonl": '{"text": \n', "no.csv": "body\nx\n",
    "bin.txt": b"\xff\xfe\x00", "empty.csv": "", "other.csv": "text,label\na,purple\n",
    "latin.txt": "caf\xe9\n".encode("latin-1"), "good.txt": "a red 1\na blue\n",
    "rows.jsonl": '{"image": "gone.png", "caption": "x"}\n',
    "rows2.jsonl": '{"image": "../../etc/passwd", "caption": "x"}\n', "taken/a": "x",
}  # fmt: skip
"""Files that commands name."""


def write(folder: Path) -> None:
    """Two runs of two steps, `run` of text and `cls` of labels, a damaged copy for each case, and files beside them."""
    for name, content in BESIDE.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    left_out = ("data=", "trainer.max_steps", "trainer.validate_every")
    words = [word for word in TINY if not word.startswith(left_out)]
    words += ["trainer.max_steps=2", "trainer.validate_every=1", "model.num_hidden_layers=1"]
    text_run = ["data=files", "data.source=herons.txt", "hydra.run.dir=run"]
    labels = ["experiment=classification", "data=classification", "data.train=good.csv", "hydra.run.dir=cls"]
    for more in (text_run, labels):
        done = tiryns_here(folder, *more[:1], *words, *more[1:])
        assert done.returncode == 0, done.stderr
    for name, damage in (RUNS | CHECKPOINTS).items():
        shutil.copytree(folder / "run", folder / name, symlinks=True)
        damage(folder / name)
