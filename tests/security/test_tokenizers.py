"""Tokenizers of others: what grows a text without bound is refused, what published ones do is admitted."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.normalizers import Replace
from transformers import AutoConfig, AutoTokenizer

from tiryns.runner.config.loading import MOST_GROWTH, CustomCodeRefused, from_pretrained, growth_of
from tiryns.runner.data.text.tokenizer import train_tokenizer

SPACES = Replace(Regex(" {2,}"), "\u2581")
QUOTES = [Replace("``", '"'), Replace("''", '"')]
SIGNS = {
    "\u00e4": "ae", "\u00f6": "oe", "\u00fc": "ue", "\u00df": "ss", "\u2026": "...", "\u20ac": "EUR", "\u2122": "(TM)",
}  # fmt: skip
TIDY = (r"\s+", "\u00a0", r"[\t\r]+", r"\p{Zs}", "\n{2,}", r"\n+?", r"\x0b", "-{3,}")
CLIP = [normalizers.NFC(), Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]

PUBLISHED: dict[str, list[Any]] = {
    "bert": [normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()],
    "albert": [[*QUOTES, normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), SPACES],
               pre_tokenizers.Metaspace(), decoders.Metaspace()],
    "t5": [[SPACES], pre_tokenizers.Metaspace(), decoders.Metaspace()],
    "llama": [[normalizers.Prepend("\u2581"), Replace(" ", "\u2581")], None,
              [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]],
    "gemma": [[Replace(" ", "\u2581")], pre_tokenizers.Split(" ", "merged_with_previous"), decoders.ByteFallback()],
    "clip": [CLIP, [pre_tokenizers.Split(Regex(r"'s|'t|\p{L}+|\p{N}"), "removed", True),
                    pre_tokenizers.ByteLevel(add_prefix_space=False)], decoders.ByteLevel()],
    "xlm-r": [[normalizers.Nmt(), normalizers.NFKC(), SPACES], pre_tokenizers.Metaspace(), decoders.Metaspace()],
    "gpt-2": [None, pre_tokenizers.ByteLevel(), decoders.ByteLevel()],
    "tidy": [[Replace(Regex(one), " ") for one in TIDY], None, None],
    "signs": [[Replace(sign, text) for sign, text in SIGNS.items()], None, None],
}  # fmt: skip
"""Normalizers, pre-tokenizers and decoders as published tokenizers have them, and two of many harmless rules."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_rules_of_published_tokenizers_are_admitted(name: str) -> None:
    tokenizer = Tokenizer(models.BPE())
    libraries = {"normalizer": normalizers, "pre_tokenizer": pre_tokenizers, "decoder": decoders}
    for (part, library), rules in zip(libraries.items(), PUBLISHED[name], strict=True):
        if rules is not None:
            setattr(tokenizer, part, library.Sequence(rules) if isinstance(rules, list) else rules)
    growth = growth_of(json.loads(tokenizer.to_str()))
    assert 1 <= growth <= MOST_GROWTH / 4
    if tokenizer.normalizer is not None:
        for text in ("\u20ac" * 50, " " * 50, "\u20ac\u00e4 a" * 9, "a''b``  c"):
            assert len(tokenizer.normalizer.normalize_str(text)) <= max(growth * len(text), len(text) + 1)


@pytest.mark.parametrize(
    ("rules", "least"),
    [
        ([("a", "bb"), ("b", "aa")] * 8, 2**16),
        ([("a", "bb"), ("c", "dd"), ("e", "ff")], 2),
        ([("a", "xy"), ("y", "zz"), ("zz", "q" * 8)], 16),
        ([(Regex("a*"), "b")] * 12, 2**12),
        ([(Regex("(?=a)"), "a")] * 12, 2**12),
        ([(Regex(r"\b"), "ab")] * 8, 3**8),
        ([(Regex("^|$|x"), "xx")] * 8, 3**8),
        ([(Regex("."), "aa")] * 8, 2**8),
        ([(Regex("[a-z]+"), "ab")] * 8, 2**8),
    ],
)
def test_growth_is_no_less_than_what_rules_do(rules: list[tuple[Any, str]], least: float) -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence([Replace(*rule) for rule in rules])
    growth = growth_of(json.loads(tokenizer.to_str()))
    assert growth >= least
    for text in ("a" * 8, "abcde", "y", "x a x"):
        made = tokenizer.normalizer.normalize_str(text[: 8 if least < 2**12 else 1])
        assert len(made) <= growth * (len(text) + 1)


def test_rules_of_different_characters_do_not_multiply() -> None:
    rules = [{"type": "Replace", "pattern": {"String": one}, "content": "<...>"} for one in "abcdefgh"]
    assert growth_of({"normalizer": {"type": "Sequence", "normalizers": rules}}) == 5
    lowered = [rules[0], {"type": "Lowercase"}, rules[1]]
    assert growth_of({"normalizer": {"type": "Sequence", "normalizers": lowered}}) == 25, (
        "other steps may write any"
    )
    for expression in ("a{1}" * 5000, "a" * 300 + "|"):
        rule = {"type": "Replace", "pattern": {"Regex": expression}, "content": "bb"}
        assert growth_of({"normalizer": rule}) == 3


def test_name_on_the_hub_is_asked_for_once_and_loaded_as_it_was_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub is replaced by what it answers: the newest commit of a branch, or that a file is missing."""
    from huggingface_hub import constants, file_download

    commit, asked = "a" * 40, list[str]()
    repository = tmp_path / "models--owner--name"
    folder = repository / "snapshots" / commit
    train_tokenizer(["a river under the bridge"] * 9, "wordpiece", 40, True).save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", "hidden_size": 8}))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)

    def answer(url: str, **_: Any) -> Any:
        asked.append(url)
        name = url.rpartition("/")[2]
        if not (folder / name).is_file():
            raise ConnectionError(url)
        size = (folder / name).stat().st_size
        return file_download.HfFileMetadata(
            commit_hash=commit, etag=name, location=url, size=size, xet_file_data=None
        )

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(file_download, "get_hf_file_metadata", answer)
    assert from_pretrained(AutoConfig, "owner/name", cache_dir=tmp_path).hidden_size == 8
    assert [re.sub(r".*/resolve/", "", url) for url in asked] == ["main/config.json"]
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert from_pretrained(AutoTokenizer, "owner/name", cache_dir=tmp_path).is_fast
    (folder / "config.json").write_text(
        json.dumps({"model_type": "bert", "attn_implementation": "owner/kernel"})
    )
    with pytest.raises(CustomCodeRefused, match="it would run code from the hub"):
        from_pretrained(AutoConfig, "owner/name", cache_dir=tmp_path)
