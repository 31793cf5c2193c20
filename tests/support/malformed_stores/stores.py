"""Sharded stores, as `tiryns prepare corpus` makes them, that are damaged or foreign."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.data.store.sharded import sharded_folder, token_store
from tests.support.malformed.models import Damage, changed, cut, gone, text

TRAIN = "shards/00001/train"


def index(change: Callable[[dict[str, Any]], object]) -> Damage:
    """Other values in the index."""

    def harm(folder: Path) -> None:
        content = json.loads((folder / "store.json").read_text())
        change(content)
        (folder / "store.json").write_text(json.dumps(content))

    return harm


def shard(**values: object) -> Damage:
    """Other values in the second shard of the training set as the index lists it."""
    return index(lambda content: content["sets"]["train"]["shards"][1].update(values))


def foreign_ids(folder: Path) -> None:
    """A shard with a token that the tokenizer does not have, listed with its fingerprint."""
    shutil.rmtree(folder / TRAIN)
    store = token_store(folder / TRAIN, [[5, 6], [7, 200]])
    shard(fingerprint=store.fingerprint)(folder)


STORES: dict[str, Damage] = {
    "s_index_gone": gone("store.json"),
    "s_index_begun": lambda folder: gone("store.json")(text("plan.json", "{}")(folder) or folder),
    "s_index_empty": text("store.json", ""),
    "s_index_binary": text("store.json", b"\xff\xfe\x00"),
    "s_index_nested": text("store.json", "[" * 100_000),
    "s_index_list": text("store.json", "[1]"),
    "s_index_version": changed("store.json", format_version=99),
    "s_index_no_train": index(lambda content: content["sets"].pop("train")),
    "s_index_no_shards": index(lambda content: content["sets"]["train"].update(shards=[])),
    "s_index_no_figures": index(lambda content: content["sets"]["held_out"].pop("unigram_entropy")),
    "s_index_shard_text": index(lambda content: content["sets"]["train"].update(shards=["a"])),
    "s_climbs": shard(folder="../outside"),
    "s_absolute": shard(folder="/nonexistent/outside"),
    "s_fingerprint": shard(fingerprint="another"),
    "s_shard_gone": lambda folder: shutil.rmtree(folder / TRAIN),
    "s_tokens_gone": gone(f"{TRAIN}/tokens.bin"),
    "s_offsets_cut": cut(f"{TRAIN}/offsets.bin", 9),
    "s_offsets_zero": text(f"{TRAIN}/offsets.bin", bytes(24)),
    "s_meta_gone": gone(f"{TRAIN}/meta.json"),
    "s_meta_cut": cut(f"{TRAIN}/meta.json", 20),
    "s_meta_list": text(f"{TRAIN}/meta.json", "[]"),
    "s_meta_wrong_type": changed(f"{TRAIN}/meta.json", dtype="nonsense"),
    "s_meta_count": changed(f"{TRAIN}/meta.json", num_sequences=10**12),
    "s_ids": foreign_ids,
    "s_tokenizer_gone": lambda folder: shutil.rmtree(folder / "tokenizer"),
    "s_tokenizer_cut": cut("tokenizer/tokenizer.json", 100),
}  # fmt: skip
SAID: dict[str, list[str]] = {
    "s_index_gone": ["no sharded store in s_index_gone: it has no store.json"],
    "s_index_begun": ["s_index_begun: it was begun but is not finished"],
    "s_index_empty": ["store.json of the store s_index_empty is damaged (JSONDecodeError"],
    "s_index_binary": ["store s_index_binary is damaged (UnicodeDecodeError"],
    "s_index_nested": ["store s_index_nested is damaged (RecursionError"],
    "s_index_list": ["store s_index_list is damaged (TypeError"],
    "s_index_version": ["s_index_version has format version 99, this program reads version 1"],
    "s_index_no_train": ["store s_index_no_train is damaged (KeyError: 'train')"],
    "s_index_no_shards": ["s_index_no_shards is damaged (ValueError: not enough values"],
    "s_index_no_figures": ["s_index_no_figures is damaged (KeyError: 'unigram_entropy')"],
    "s_index_shard_text": ["s_index_shard_text is damaged (KeyError: 'folder')"],
    "s_climbs": ["s_climbs is damaged (its shard '../outside' leaves the folder of the store)"],
    "s_absolute": ["s_absolute is damaged (its shard '/nonexistent/outside' leaves the folder"],
    "s_fingerprint": ["s_fingerprint is damaged (shards/00001/train has the fingerprint", "not another"],
    "s_shard_gone": ["no token store in s_shard_gone/shards/00001/train: it has no meta.json"],
    "s_tokens_gone": ["s_tokens_gone/shards/00001/train is damaged (tokens.bin is missing)"],
    "s_offsets_cut": ["s_offsets_cut/shards/00001/train is damaged (offsets.bin has 9 bytes where"],
    "s_offsets_zero": ["s_offsets_zero/shards/00001/train is damaged (the offsets do not span the tokens)"],
    "s_meta_gone": ["no token store in s_meta_gone/shards/00001/train: it has no meta.json"],
    "s_meta_cut": ["s_meta_cut/shards/00001/train is damaged (meta.json lacks or garbles"],
    "s_meta_list": ["s_meta_list/shards/00001/train is damaged (meta.json lacks or garbles"],
    "s_meta_wrong_type": ["s_meta_wrong_type/shards/00001/train is damaged (meta.json lacks or garbles"],
    "s_meta_count": ["s_meta_count/shards/00001/train is damaged (offsets.bin has 24 bytes where"],
    "s_ids": ["s_ids/shards/00001/train has token id 200, but the tokenizer of the store s_ids has"],
    "s_tokenizer_gone": ["the store s_tokenizer_gone has no tokenizer that can be loaded in "],
    "s_tokenizer_cut": ["the store s_tokenizer_cut has no tokenizer that can be loaded in "],
}


def write(folder: Path) -> None:
    """A store of three shards with its tokenizer, and a damaged copy for each case."""
    from tests.data.text.conftest import paragraphs
    from tiryns.runner.data.text.tokenizer import tokenizer_fingerprint, train_tokenizer

    tokenizer = train_tokenizer(paragraphs(50), "wordpiece", 60, True)
    good = sharded_folder(folder / "good", 9, 2, 13, tokenizer=tokenizer_fingerprint(tokenizer))
    shutil.rmtree(good / "tokenizer")
    tokenizer.save_pretrained(good / "tokenizer")
    for name, damage in STORES.items():
        shutil.copytree(good, folder / name)
        damage(folder / name)
