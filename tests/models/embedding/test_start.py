"""A training that begins with a folder of sentence-transformers keeps what it says of vectors."""

import logging
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from tests.models.tiny import tiny
from tests.objectives.samples import collator
from tests.support.composed import composed
from tiryns.runner.loop.assembly import make_data
from tiryns.runner.models.embedding.folder import Embedding, prompts_of, settle_embedding, write_embedding


def config_of(folder: Path | None = None, **given: Any) -> Any:
    return OmegaConf.create(
        {
            "objective": {"pooling": given.get("pooling"), "normalised": given.get("normalised")},
            "data": {
                "query_prompt": given.get("query_prompt"),
                "passage_prompt": given.get("passage_prompt"),
            },
            "model": {} if folder is None else {"name_or_path": str(folder)},
        }
    )


def settled(config: Any) -> list[Any]:
    settle_embedding(config)
    return [*config.objective.values(), *config.data.values()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_embedding(tmp_path, Embedding("max", False, prompts_of("q: ", "p: ")), 32, {})
    return tmp_path


def test_all_is_kept_where_nothing_is_set(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tiryns"):
        assert settled(config_of(folder)) == ["max", False, "q: ", "p: "]
    assert not caplog.records


def test_what_is_set_counts_and_is_told_in_one_line(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tiryns"):
        assert settled(config_of(folder, pooling="cls", query_prompt="")) == ["cls", False, "", "p: "]
    (record,) = caplog.records
    told = "objective.pooling='cls' instead of 'max', data.query_prompt='' instead of 'q: '"
    assert record.getMessage() == f"other than in the folder of sentence-transformers {folder}: {told}"


@pytest.mark.parametrize("begins", [True, False])
def test_other_models_have_the_mean_of_unit_length(
    begins: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "tiryns"):
        assert settled(config_of(tmp_path if begins else None)) == ["mean", True, "", ""]
        assert settled(config_of(tmp_path, normalised=False)) == ["mean", False, "", ""]
    assert not caplog.records


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_encoder_of_enhanced_masking_gives_its_pooling_and_unit_length(pooling: str, tmp_path: Path) -> None:
    make = collator("enhanced_mlm", pooling=pooling)
    made = make.task_model(tiny("bert")).embedding
    assert made is not None
    write_embedding(tmp_path, made, 32, {})
    assert settled(config_of(tmp_path)) == [pooling, True, "", ""]


def test_objectives_without_vectors_read_no_folder(tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text("[]")
    named = ["model=pretrained", f"model.name_or_path={tmp_path}"]
    (tmp_path / "text.txt").write_text("an old river")
    make_data(composed(["data=files", f"data.source={tmp_path}/text.txt", *named]))
    with pytest.raises(ValueError, match="folder of sentence-transformers"):
        make_data(composed(["experiment=contrastive", *named]))
