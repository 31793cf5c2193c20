"""Wrong settings as the parts themselves refuse them, full disks, and folders in the way: one message each."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.config.test_malformed import assert_one_message
from tests.conftest import TINY, Command
from tests.support.processes import PROGRAM, warm_process

SETTINGS = [
    ("sampler.global_batch_size=100000", ["global_batch_size is 100000"]),
    ("sampler.global_batch_size=-1", ["global_batch_size=-1: it must be a whole number, 1 or more"]),
    ("data.max_length=2", ["max_length"]),
    ("data.max_length=-5", ["max_length"]),
    ("data.vocab_size=-1", ["vocab_size"]),
    ("data.micro_batch_tokens=0", ["micro_batch_tokens=0: it must be a whole number, 1 or more"]),
    ("data.num_workers=-1", ["num_workers"]),
    ("data.layout=spiral", ["spiral", "padded"]),
    ("data.long_documents=shred", ["shred", "sentences"]),
    ("data.tokenizer=no/such/tokenizer", ["no/such/tokenizer"]),
    ("model.hidden_size=33", ["33", "num_attention_heads"]),
    ("model.num_hidden_layers=0", ["num_hidden_layers=0: it must be a whole number in [1, 100000]"]),
    ("model.architecture=brt", ["Did you mean 'bert'"]),
    ("+model.config.hidden_act_typo=gelu", ["hidden_act_typo"]),
    ("objective.mlm_probability=1.5", ["mlm_probability=1.5: it must be a number in (0, 1]"]),
    ("trainer.max_steps=0", ["max_steps=0"]),
    ("trainer.log_every=0", ["log_every"]),
    ("trainer.accelerator=gpu", ["no GPU"]),
    ("trainer.accelerator=abacus", ["abacus", "cpu"]),
    ("trainer.precision=bf17", ["bf17", "bf16-mixed"]),
    ("trainer.strategy=teleport", ["teleport", "ddp"]),
    ("checkpoint.mode=best", ["checkpoint.mode=best: there are: min, max"]),
    ("checkpoint.monitor=val/elsewhere/loss", ["val/elsewhere/loss", "val/held_out/loss"]),
    ("scheduler.warmup_steps=500", ["500"]),
    ("optimizer.lr=-1", ["lr"]),
]


@pytest.mark.rows(6)
@pytest.mark.parametrize(("override", "words"), SETTINGS, ids=[case[0] for case in SETTINGS])
def test_wrong_setting_is_named(
    run_here: Callable[..., object], monkeypatch: pytest.MonkeyPatch, override: str, words: list[str]
) -> None:
    """In this process, for speed; `explain` is what the command line prints."""
    from tiryns.runner.run.errors import explain

    with pytest.raises(Exception) as caught:  # noqa: PT011  what matters is that it is explained
        run_here(override)
    message = explain(caught.value)
    assert message, "this would be a traceback"
    for word in words:
        assert word in message, message


def test_token_ids_beyond_the_vocabulary_are_named(tiryns: Command, tmp_path: Path) -> None:
    from tiryns.runner.data.text.tokenizer import train_tokenizer

    tokenizer = train_tokenizer(iter(["some words to learn from"] * 20), "wordpiece", 60, True)
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    source = tmp_path / "ids.jsonl"
    source.write_text('{"input_ids": [2, 7, 3]}\n' * 40 + '{"input_ids": [2, 999999, 3]}\n')
    done = tiryns(*TINY, f"data.source={source}", f"data.tokenizer={tmp_path / 'tokenizer'}", check=False)
    assert_one_message(done, ["999999", "vocabulary"])


@pytest.mark.rows(1)
@pytest.mark.parametrize("limit", [20_000, 2_000_000], ids=["preparing", "saving"])
def test_full_disk_leaves_nothing_half_written(
    tmp_path: Path, text_file: Path, limit: int, cache: Path
) -> None:
    """A limit on the size of files stands in for the disk: writes fail half-way all the same."""
    longer = tmp_path / "longer.txt"
    longer.write_text(text_file.read_text() * 3)
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit})); {PROGRAM[1]}"
    words = [*TINY, f"data.source={longer}", "model.hidden_size=256"]
    done = warm_process("-c", limited, *words, cwd=tmp_path, TIRYNS_CACHE=str(tmp_path / "cache"))
    assert_one_message(done, [str(tmp_path)])
    assert not list(tmp_path.glob("outputs/*/*/checkpoints/*.ckpt"))
    assert not list(tmp_path.glob("**/*.tmp"))
    assert not list(tmp_path.glob("outputs/*/*/model"))


def test_folder_that_cannot_be_written_is_named(tiryns: Command, tmp_path: Path, text_file: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = tiryns(*TINY, f"data.source={text_file}", f"data.cache_dir={tmp_path}/file/cache", check=False)
    assert_one_message(done, ["file/cache"])
    done = tiryns(*TINY, f"data.source={text_file}", f"outputs={tmp_path}/file/outputs", check=False)
    assert_one_message(done, ["file/outputs"])
    assert (tmp_path / "file").read_text() == "in the way"


def test_folder_that_is_no_run_is_not_resumed(tiryns: Command, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").write_text("dear")
    done = tiryns("resume=letters", check=False)
    assert_one_message(done, ["letters", "not a run folder"])
    assert [path.name for path in (tmp_path / "letters").iterdir()] == ["a.txt"]
