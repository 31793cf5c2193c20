"""Wrong settings and broken files: one message that names the thing, exit status 1, nothing overwritten."""

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT, TINY, Command


def broken(name: str) -> Callable[[Path], Path]:
    """Makes a file or folder that cannot be used."""

    def make(folder: Path) -> Path:
        path = folder / name
        match name:
            case "empty.txt":
                path.write_text("")
            case "latin.txt":
                path.write_bytes("caf\xe9 au lait\n\n".encode("latin-1") * 50)
            case "no_text.csv":
                path.write_text("title,body\n" + "a,b\n" * 30)
            case "notes.xyz":
                path.write_text("some words")
            case "torn.parquet":
                path.write_bytes(b"PAR1" + bytes(200))
            case "torn.jsonl":
                path.write_text('{"text": "fine"}\n{"text": \n')
            case "ids.jsonl":
                path.write_text('{"input_ids": [2, 7, 3]}\n' * 40 + '{"input_ids": [2, 999999, 3]}\n')
            case "small.txt":
                path.write_text("one.\n\ntwo.\n\nthree.\n\nfour.")
            case "gone.txt":
                pass
        return path

    return make


CASES: list[tuple[str, list[str], list[str]]] = [
    ("gone.txt", [], ["gone.txt"]),
    ("empty.txt", [], ["empty.txt", "empty"]),
    ("latin.txt", [], ["latin.txt", "UTF-8", "3"]),
    ("no_text.csv", [], ["no_text.csv", "text", "title", "body"]),
    ("notes.xyz", [], ["notes.xyz", "parquet", "jsonl"]),
    ("torn.parquet", [], ["torn.parquet"]),
    ("torn.jsonl", [], ["torn.jsonl", "2"]),
    ("small.txt", [], ["global_batch_size", "12"]),
]


@pytest.mark.parametrize(("name", "overrides", "words"), CASES, ids=[case[0] for case in CASES])
def test_broken_data_is_named(
    iolaus: Command, tmp_path: Path, name: str, overrides: list[str], words: list[str]
) -> None:
    source = broken(name)(tmp_path)
    content = source.read_bytes() if source.exists() else None
    done = iolaus(*TINY, f"data.source={source}", *overrides, check=False)
    assert_one_message(done, words)
    assert (source.read_bytes() if source.exists() else None) == content


SETTINGS = [
    ("sampler.global_batch_size=100000", ["global_batch_size is 100000"]),
    ("sampler.global_batch_size=-1", ["global_batch_size is -1"]),
    ("data.max_length=2", ["max_length"]),
    ("data.max_length=-5", ["max_length"]),
    ("data.vocab_size=-1", ["vocab_size"]),
    ("data.micro_batch_tokens=0", ["micro_batch_tokens must be at least 1"]),
    ("data.num_workers=-1", ["num_workers"]),
    ("data.layout=spiral", ["spiral", "padded"]),
    ("data.long_documents=shred", ["shred", "sentences"]),
    ("data.tokenizer=no/such/tokenizer", ["no/such/tokenizer"]),
    ("model.hidden_size=33", ["33", "num_attention_heads"]),
    ("model.num_hidden_layers=0", ["num_hidden_layers must be at least 1"]),
    ("model.architecture=brt", ["Did you mean 'bert'"]),
    ("+model.config.hidden_act_typo=gelu", ["hidden_act_typo"]),
    ("objective.mlm_probability=1.5", ["mlm_probability must be in (0, 1]"]),
    ("trainer.max_steps=0", ["max_steps=0"]),
    ("trainer.log_every=0", ["log_every"]),
    ("trainer.accelerator=gpu", ["no GPU"]),
    ("trainer.accelerator=abacus", ["abacus", "cpu"]),
    ("trainer.precision=bf17", ["bf17", "bf16-mixed"]),
    ("trainer.strategy=teleport", ["teleport", "ddp"]),
    ("checkpoint.mode=best", ["min or max"]),
    ("checkpoint.monitor=val/elsewhere/loss", ["val/elsewhere/loss", "val/held_out/loss"]),
    ("scheduler.warmup_steps=500", ["500"]),
    ("optimizer.lr=-1", ["lr"]),
]


@pytest.mark.parametrize(("override", "words"), SETTINGS, ids=[case[0] for case in SETTINGS])
def test_wrong_setting_is_named(
    run_here: Callable[..., object], monkeypatch: pytest.MonkeyPatch, override: str, words: list[str]
) -> None:
    """In this process, for speed; `explain` is what the command line prints."""
    from runner.errors import explain

    with pytest.raises(Exception) as caught:  # noqa: PT011  what matters is that it is explained
        run_here(override)
    message = explain(caught.value)
    assert message, "this would be a traceback"
    for word in words:
        assert word in message, message


def test_token_ids_beyond_the_vocabulary_are_named(iolaus: Command, tmp_path: Path) -> None:
    from runner.data.tokenizer import train_tokenizer

    tokenizer = train_tokenizer(iter(["some words to learn from"] * 20), "wordpiece", 60, True)
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    source = broken("ids.jsonl")(tmp_path)
    done = iolaus(*TINY, f"data.source={source}", f"data.tokenizer={tmp_path / 'tokenizer'}", check=False)
    assert_one_message(done, ["999999", "vocabulary"])


@pytest.mark.parametrize("limit", [20_000, 2_000_000], ids=["preparing", "saving"])
def test_full_disk_leaves_nothing_half_written(
    tmp_path: Path, text_file: Path, limit: int, cache: Path
) -> None:
    """A limit on the size of files stands in for the disk: writes fail half-way all the same."""
    longer = tmp_path / "longer.txt"
    longer.write_text(text_file.read_text() * 3)
    command = [sys.executable, "-m", "runner.train", *TINY, f"data.source={longer}", "model.hidden_size=256"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(ROOT), "IOLAUS_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1",
             "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )  # fmt: skip
    assert_one_message(done, [str(tmp_path)])
    assert not list(tmp_path.glob("outputs/*/*/checkpoints/*.ckpt"))
    assert not list(tmp_path.glob("**/*.tmp"))
    assert not list(tmp_path.glob("outputs/*/*/model"))


def test_folder_that_cannot_be_written_is_named(iolaus: Command, tmp_path: Path, text_file: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = iolaus(*TINY, f"data.source={text_file}", f"data.cache_dir={tmp_path}/file/cache", check=False)
    assert_one_message(done, ["file/cache"])
    done = iolaus(*TINY, f"data.source={text_file}", f"outputs={tmp_path}/file/outputs", check=False)
    assert_one_message(done, ["file/outputs"])
    assert (tmp_path / "file").read_text() == "in the way"


def test_folder_that_is_no_run_is_not_resumed(iolaus: Command, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").write_text("dear")
    done = iolaus("resume=letters", check=False)
    assert_one_message(done, ["letters", "not a run folder"])
    assert [path.name for path in (tmp_path / "letters").iterdir()] == ["a.txt"]


def assert_one_message(done: subprocess.CompletedProcess[str], words: list[str]) -> None:
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    assert done.stderr.count("error:") == 1, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr
