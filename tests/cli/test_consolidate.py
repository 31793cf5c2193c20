"""`tiryns consolidate`: the model of any checkpoint as one folder, equal to what the run exports."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM, AutoTokenizer

from tests.conftest import train_here
from tests.modules.conftest import Finetune, finetune, task_files  # noqa: F401
from tiryns.runner.checkpoints.files import AtomicCheckpointIO
from tiryns.runner.cli.commands import main
from tiryns.runner.run.files import read_json
from tiryns.runner.run.folder import Run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Run:
    words = ["checkpoint.every_steps=3", "checkpoint.keep_last=9", "trainer.max_steps=6", "optimizer=splus"]
    return train_here(tmp_path_factory.mktemp("run") / "outputs" / "day" / "run", text_file, *words)


def consolidated(*words: Any) -> Path:
    main(["consolidate", *map(str, words)])
    return Path(words[-1])


def test_last_checkpoint_is_the_exported_model(run: Run, tmp_path: Path) -> None:
    for number, named in enumerate((run.path, run.checkpoint_dir / "last.ckpt")):
        ours = load_file(consolidated(named, tmp_path / str(number)) / "model.safetensors")
        theirs = load_file(run.path / "model" / "model.safetensors")
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours), "averages of splus too"


def test_earlier_checkpoint_is_another_model_that_loads(run: Run, tmp_path: Path) -> None:
    folder = consolidated(run.checkpoint_dir / "step-00000003.ckpt", tmp_path / "deep" / "model")
    assert "for 3 steps" in (folder / "README.md").read_text()
    last = AutoModelForMaskedLM.from_pretrained(run.path / "model").state_dict()
    early = AutoModelForMaskedLM.from_pretrained(folder).state_dict()
    assert any(not torch.equal(early[name], last[name]) for name in last)
    tokenizers = [AutoTokenizer.from_pretrained(path) for path in (folder, run.path / "model")]
    assert len(tokenizers[0]) == len(tokenizers[1])


@pytest.mark.slow
def test_a_run_of_before_is_consolidated_with_the_classes_that_it_began_with(
    finetune: Finetune,  # noqa: F811
    tmp_path: Path,
) -> None:
    rows = "".join(f'{{"text": "herons {i}", "label": {i % 3 + 1}}}\n' for i in range(24))
    (tmp_path / "stars.jsonl").write_text(rows)
    (tmp_path / "old").mkdir()
    Run(tmp_path / "old").update_status(resolved={"layout": "padded"})
    run = finetune("classification", f"data.train={tmp_path / 'stars.jsonl'}", "data.validation=null", "data.test=null",
                   "trainer.max_steps=2", "trainer.validate_every=0", folder="old")  # fmt: skip
    folder = consolidated(run.path, tmp_path / "out")
    assert list(read_json(folder / "config.json", {})["label2id"]) == ["0", "1", "2", "3"]


def test_checkpoint_that_training_deletes_meanwhile_gives_way_to_the_next(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(run.path, tmp_path / "run", symlinks=True)
    folder = tmp_path / "run" / "checkpoints"
    load, loaded = AtomicCheckpointIO.load_checkpoint, []

    def trains_on(self: Any, path: Path, *arguments: Any) -> Any:
        loaded.append(path.name)
        if len(loaded) == 1:
            path.unlink()
            (folder / "last.ckpt").unlink()
            (folder / "last.ckpt").symlink_to("step-00000003.ckpt")
        return load(self, path, *arguments)

    monkeypatch.setattr(AtomicCheckpointIO, "load_checkpoint", trains_on)
    made = consolidated(folder / "last.ckpt", tmp_path / "out")
    assert loaded == ["step-00000006.ckpt", "step-00000003.ckpt"]
    assert "for 3 steps" in (made / "README.md").read_text()
    (folder / "step-00000003.ckpt").write_text("damaged")
    with pytest.raises(SystemExit, match=r"step-00000003\.ckpt' is damaged"):
        consolidated(folder / "last.ckpt", tmp_path / "damaged")
