"""Wrong settings as the parts themselves refuse them, full disks, and folders in the way: one message each."""

from pathlib import Path

import pytest

from tests.config.test_malformed import assert_one_message
from tests.conftest import TINY, Command
from tests.support.processes import PROGRAM, warm_process


@pytest.mark.slow
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
