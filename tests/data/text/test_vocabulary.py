"""Text that its tokenizer does not know: what a model could not tell apart is said, and nothing else is."""

import re
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import TINY
from tests.data.text.conftest import paragraphs
from tests.support.in_process import tiryns_here
from tiryns.runner.data.text.tokenizer import train_tokenizer
from tiryns.runner.data.text.vocabulary import unknown_share


class Samples:
    """Texts as samples."""

    def __init__(self, tokenizer, texts) -> None:
        self.ids = [tokenizer(text)["input_ids"] for text in texts]

    def __len__(self) -> int:
        return len(self.ids)

    def gather(self, indices):
        chosen = [self.ids[i] for i in indices]
        return np.concatenate(chosen), np.array(list(map(len, chosen)))


def test_share_is_that_of_the_letters_outside_the_alphabet() -> None:
    tokenizer = train_tokenizer(["ACGT"], "characters:dna", 300, lowercase=False)
    assert unknown_share(tokenizer, Samples(tokenizer, ["ACGT", "AMCG", "LK"])) == 3 / 10
    assert unknown_share(tokenizer, Samples(tokenizer, ["ACGT"])) == 0
    assert unknown_share(tokenizer, Samples(tokenizer, ["L"] * 300)) == 1
    assert unknown_share(tokenizer, []) == 0


def test_token_that_also_ends_texts_is_not_counted() -> None:
    tokenizer = train_tokenizer(["ACGT"], "characters:dna", 300, lowercase=False)
    tokenizer.unk_token = tokenizer.eos_token = "[SEP]"  # as GPT-2 has it
    assert unknown_share(tokenizer, Samples(tokenizer, ["ACGT", "AMCG"])) == 0


@pytest.mark.parametrize("streamed", [False, True])
def test_plan_says_what_a_tokenizer_does_not_know(tmp_path: Path, streamed: bool) -> None:
    (tmp_path / "herons.txt").write_text("\n\n".join(paragraphs(60)))
    train_tokenizer(["ACGT"], "characters:dna", 300, lowercase=False).save_pretrained(tmp_path / "dna")
    words = [
        "plan",
        *TINY,
        "data.source=herons.txt",
        "data.validation_documents=9",
        f"data.streaming={streamed}",
    ]
    done = tiryns_here(tmp_path, *words, "data.tokenizer=dna")
    share = re.search(r"10 tokens; (\d+)% of the text is \[UNK\]", done.stdout)
    assert share is not None, done.stdout + done.stderr
    assert int(share[1]) > 80
    assert (done.stdout + done.stderr).count("the tokenizer was made for other text") == 1
    if not streamed:
        assert "[UNK]" not in tiryns_here(tmp_path, *words).stdout
