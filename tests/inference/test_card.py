"""Model cards: metadata that the hub accepts, of what is known alone; what the model is, and an example."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from huggingface_hub import ModelCard
from huggingface_hub.repocard import metadata_load

from tests.models.every_encoder import tiny_model
from tiryns.runner.inference.card import model_card
from tiryns.runner.run.folder import Run

FIGURES = {
    "test/test/accuracy": 0.912345678, "test/test/loss": 0.3, "val/validation/f1": 0.5, "objective": 0.5,
    "best_step": 3.0,
}  # fmt: skip


def card_of(folder: Path, head: str, config: dict[str, Any], figures: dict[str, float], **files: str) -> str:
    """The card of a tiny model of a run with this config and these files."""
    folder.mkdir(exist_ok=True)
    (folder / "command.txt").write_text("tiryns seed=1\n")
    (folder / "config.yaml").write_text("# config_hash: 0\n" + yaml.safe_dump(config))
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    pretrained = tiny_model("bert", head)
    pretrained.config.id2label = dict(enumerate(["no: [a]", "'yes'", *"cdefg"]))
    model: Any = SimpleNamespace(pretrained=pretrained, describe=lambda: "of 2 layers")
    return model_card(model, None, Run(folder), figures, 1200)


def metadata_of(card: str, folder: Path) -> dict[str, Any]:
    (folder / "README.md").write_text(card)
    ModelCard(card)  # raises for metadata that the hub would not take
    found: Any = metadata_load(folder / "README.md")
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("head", "task", "does"),
    [
        ("classification", "text-classification", "classifies texts as no: [a], 'yes', c, d, e and 2 more"),
        ("token_classification", "token-classification", "labels the words of texts as no: [a]"),
        ("question_answering", "question-answering", "marks the answer to a question in a text"),
        ("mlm", "fill-mask", "predicts masked tokens"),
    ],
)
def test_task_and_sentence_are_those_of_the_head(head: str, task: str, does: str, tmp_path: Path) -> None:
    card = card_of(tmp_path, head, {}, {})
    found = metadata_of(card, tmp_path)
    assert found == {"library_name": "transformers", "pipeline_tag": task, "tags": ["tiryns"]}, (
        "and nothing that is guessed"
    )
    assert f"million parameters that {does}" in card
    assert "trained with Tiryns for 1,200 steps" in card
    assert "A bert model of 0." in card


def test_data_set_of_the_hub_has_an_index_of_its_figures(tmp_path: Path) -> None:
    data = {"train": "nyu-mll/glue:cola@train", "validation": "nyu-mll/glue:cola@validation"}
    found = metadata_of(card_of(tmp_path, "classification", {"data": data}, FIGURES), tmp_path)
    assert found["datasets"] == ["nyu-mll/glue"]
    assert found["metrics"] == ["accuracy", "f1"]
    (result,) = found["model-index"][0]["results"]
    assert result["task"] == {"type": "text-classification"}
    assert result["dataset"] == {"name": "nyu-mll/glue", "type": "nyu-mll/glue"}
    values = {metric["name"]: metric["value"] for metric in result["metrics"]}
    assert values == {"test/test/accuracy": 0.912346, "test/test/loss": 0.3, "val/validation/f1": 0.5}


def test_entities_are_measured_as_the_hub_calls_it(tmp_path: Path) -> None:
    figures = {
        "test/test/entity_f1": 0.75,
        "test/test/entity_recall": 0.5,
        "test/test/majority_accuracy": 0.9,
    }
    found = metadata_of(
        card_of(tmp_path, "token_classification", {"data": {"train": "owner/names@train"}}, figures), tmp_path
    )
    assert found["metrics"] == ["f1", "recall"]
    measured = {one["name"]: one["type"] for one in found["model-index"][0]["results"][0]["metrics"]}
    assert measured == {"test/test/entity_f1": "f1", "test/test/entity_recall": "recall"}


@pytest.mark.parametrize(
    ("data", "names"),
    [
        ({"train": "train.csv"}, []),
        ({"train": "folder/train.csv"}, []),
        ({"train": ["a/b.jsonl", "/x/y.csv"]}, []),
        ({"source": "store:web/one"}, []),
        ({"source": {"_target_": "runner.data.demo.StdlibText"}}, []),
        ({}, []),
        (
            {
                "mixture": {
                    "a": {"source": "owner/web"},
                    "b": {"source": ["owner/code", "x.txt", "owner/web"]},
                }
            },
            ["owner/web", "owner/code"],
        ),
    ],
    ids=str,
)
def test_files_are_no_data_sets_of_the_hub(data: dict[str, Any], names: list[str], tmp_path: Path) -> None:
    found = metadata_of(card_of(tmp_path, "classification", {"data": data}, FIGURES), tmp_path)
    assert found.get("datasets", []) == names
    assert "model-index" not in found


def test_license_and_language_are_those_of_the_model_it_began_with(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (base / "README.md").write_text(
        "---\nlicense: mit\nlanguage: [de, en]\nbase_model: owner/encoder\ntags: [x]\n---\n# It\n"
    )
    config = {"model": {"name_or_path": str(base)}}
    card = card_of(tmp_path / "run", "classification", config, {})
    found = metadata_of(card, tmp_path)
    assert (found["license"], found["language"], found["base_model"]) == (
        "mit",
        ["de", "en"],
        "owner/encoder",
    )
    assert "trained from owner/encoder with Tiryns" in card
    named = card_of(tmp_path / "named", "mlm", {"model": {"name_or_path": "owner/name"}}, {})
    assert metadata_of(named, tmp_path)["base_model"] == "owner/name"
    for damaged in ("---\n[\n---\n", "no metadata", "---\n- a\n---\n", ""):
        (base / "README.md").write_text(damaged)
        assert "license" not in metadata_of(card_of(tmp_path / "run", "classification", config, {}), tmp_path)
    (base / "status.json").write_text(json.dumps({"state": "done"}))  # a run whose model is gone
    assert "base_model" not in metadata_of(card_of(tmp_path / "run", "mlm", config, {}), tmp_path)


def test_example_is_a_prediction_of_the_run(tmp_path: Path) -> None:
    row = {
        "set": "test/test", "id": "7", "text": "a | b\n<b>c</b> " + "x" * 400, "gold": "no",
        "predicted": "yes",
    }  # fmt: skip
    lines = json.dumps(row) + "\n" + json.dumps({**row, "text": "second"}) + "\n"
    public = {"data": {"train": "nyu-mll/glue:cola@train"}}
    card = card_of(tmp_path, "classification", public, {}, predictions__jsonl=lines)
    assert "## An example" in card
    assert "| text | a \\| b &lt;b>c&lt;/b> xx" in card
    assert "| gold | no |\n| predicted | yes |" in card
    assert "second" not in card


def test_example_of_a_masked_model_is_a_guess(tmp_path: Path) -> None:
    mask = {"true": " river", "right": True, "guesses": [["river", 0.61], ["bridge", 0.2]]}
    samples = json.dumps({"held_out": [["the old", mask, " runs"], ["another", mask]]})
    public = {"data": {"source": {"_target_": "runner.data.demo.StdlibText"}}}
    card = card_of(tmp_path, "mlm", public, {}, samples__json=samples)
    assert (
        "| text | the old [MASK] runs |\n| first mask | river |\n| guesses | river 0.61, bridge 0.20 |"
        in card
    )


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"predictions__jsonl": '{"cut'},
        {"predictions__jsonl": "{cut}"},
        {"samples__json": "{"},
        {"samples__json": '{"a": []}'},
    ],
)
def test_card_does_without_an_example(files: dict[str, str], tmp_path: Path) -> None:
    assert "## An example" not in card_of(tmp_path, "mlm", {"data": {"source": "owner/web"}}, {}, **files)


@pytest.mark.parametrize(
    "data",
    [{"train": "a.csv"}, {"train": "owner/set", "test": "own.csv"}, {"source": ["owner/set", "b.txt"]}, {}],
    ids=str,
)
def test_rows_of_a_users_own_data_are_not_quoted_and_its_figures_are_of_no_data_set(
    data: dict[str, Any], tmp_path: Path
) -> None:
    line = json.dumps({"set": "t", "text": "a secret", "predicted": "yes"})
    card = card_of(tmp_path, "classification", {"data": data}, FIGURES, predictions__jsonl=line)
    assert "a secret" not in card
    assert "model-index" not in metadata_of(card, tmp_path)


def test_folders_of_where_a_run_was_begun_are_no_names_of_the_hub(tmp_path: Path) -> None:
    (tmp_path / "home" / "models" / "bert").mkdir(parents=True)
    (tmp_path / "home" / "corpora" / "reviews").mkdir(parents=True)
    run = tmp_path / "run"
    status = json.dumps({"begun_in": [str(tmp_path / "home"), "../home"]})
    config = {"model": {"name_or_path": "models/bert"}, "data": {"train": "corpora/reviews"}}
    found = metadata_of(card_of(run, "classification", config, FIGURES, status__json=status), tmp_path)
    assert not {"base_model", "datasets", "model-index"} & {*found}
