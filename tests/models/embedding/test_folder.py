"""Folders of sentence-transformers: what is written is read again, and by both versions of that library."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import needs
from tiryns.runner.models.embedding.folder import Embedding, prompts_of, read_embedding, write_embedding

MODELS = "sentence_transformers.models"
TRANSFORMER = {"idx": 0, "name": "0", "path": "", "type": f"{MODELS}.Transformer"}
POOLING = {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{MODELS}.Pooling"}
DENSE = {"idx": 2, "name": "2", "path": "2_Dense", "type": f"{MODELS}.Dense"}


def folder_of(folder: Path, files: dict[str, Any]) -> str:
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content))
    return str(folder)


@pytest.mark.parametrize(
    "embedding",
    [
        Embedding("cls", prompts={}),
        Embedding("mean", True, prompts_of("query: ", "passage: "), None, 77),
        Embedding("max", True, {"ask": "Q "}, "ask", 12, "dot"),
    ],
)
def test_what_is_written_is_read(embedding: Embedding, tmp_path: Path) -> None:
    write_embedding(tmp_path, embedding, 32, {})
    assert read_embedding(str(tmp_path)) == embedding
    assert (tmp_path / "2_Normalize").is_dir() == embedding.normalised


def test_a_folder_without_modules_is_none(tmp_path: Path) -> None:
    assert read_embedding(str(tmp_path)) is None


@pytest.mark.parametrize("how", ["cls", "mean", "max"])
def test_it_reads_what_version_6_saves(how: Any, tmp_path: Path) -> None:
    modules = needs.package("sentence_transformers.sentence_transformer.modules")
    modules.Pooling(32, pooling_mode=how).save(str(tmp_path))
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "config.json").rename(tmp_path / "1_Pooling" / "config.json")
    kinds = ("base.modules.transformer.Transformer", "sentence_transformer.modules.pooling.Pooling")
    named = [
        {**known, "type": f"sentence_transformers.{kind}"}
        for known, kind in zip((TRANSFORMER, POOLING), kinds, strict=True)
    ]
    prompts: dict[str, Any] = {"prompts": {"query": "q: ", "document": ""}, "default_prompt_name": "query"}
    path = folder_of(tmp_path, {"modules.json": named, "config_sentence_transformers.json": prompts})
    assert read_embedding(path) == Embedding(how, False, prompts["prompts"], "query")


@pytest.mark.parametrize(
    ("modules", "pooling", "named"),
    [
        ([TRANSFORMER, POOLING, DENSE], {"pooling_mode": "mean"}, "the modules Transformer, Pooling, Dense"),
        ([{**TRANSFORMER, "path": "0_Transformer"}, POOLING], {}, "its Transformer in '0_Transformer'"),
        ([TRANSFORMER, POOLING], {"pooling_mode": "weightedmean"}, "the pooling weightedmean"),
        (
            [TRANSFORMER, POOLING],
            {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
            "the pooling cls and mean",
        ),
        ([TRANSFORMER, POOLING], {"include_prompt": False}, "a pooling without the prompt's tokens"),
        ([TRANSFORMER, POOLING], ["mean"], "AttributeError"),
        ({"modules": 1}, {}, "has no list of modules"),
    ],
)
def test_what_is_not_known_ends_in_one_line(modules: Any, pooling: Any, named: str, tmp_path: Path) -> None:
    path = folder_of(tmp_path, {"modules.json": modules, "1_Pooling/config.json": pooling})
    with pytest.raises(ValueError, match=r"^the folder of sentence-transformers '.*'") as error:
        read_embedding(path)
    assert named in str(error.value)
    assert "\n" not in str(error.value)


def test_lower_case_without_the_tokenizer_is_refused(tmp_path: Path) -> None:
    modules = {"modules.json": [TRANSFORMER, POOLING], "1_Pooling/config.json": {"pooling_mode": "mean"}}
    path = folder_of(tmp_path, {**modules, "sentence_bert_config.json": {"do_lower_case": True}})
    with pytest.raises(ValueError, match="has do_lower_case, which the tokenizer does not do: expected"):
        read_embedding(path)
    assert read_embedding(folder_of(tmp_path, {"sentence_bert_config.json": {}})) == Embedding("mean")


def test_a_file_that_is_no_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text("{")
    with pytest.raises(ValueError, match=r"^the file modules\.json of '.*' is no JSON"):
        read_embedding(str(tmp_path))


def test_prompts_have_the_names_that_either_side_asks_for() -> None:
    embedding = Embedding("mean", prompts=prompts_of("q: ", "p: "))
    assert [embedding.prompt(name) for name in ("query", "passage", "document", None)] == [
        "q: ", "p: ", "p: ", "",
    ]  # fmt: skip
    theirs = Embedding("mean", prompts={"document": "", "passage": "p: "})
    assert theirs.prompt("passage") == "p: "
    assert theirs.prompt("query") == ""
    assert Embedding("mean", prompts={"ask": "Q "}, default_prompt="ask").prompt(None) == "Q "
    with pytest.raises(ValueError, match=r"^prompt=other is none of the model's: expected passage, query$"):
        Embedding("mean").prompt("other")
