"""A tiny vision-language model, and tasks of lmms-eval on local files; for tests that lmms-eval is installed for."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.vision import SMALL, compose_vision
from tiryns.runner.data.demo.scenes import Scenes
from tiryns.runner.inference.kinds import PredictOptions
from tiryns.runner.inference.predictor import Predictor
from tiryns.runner.run.folder import Run
from tiryns.runner.train import train

TOKENS = {"chart": 16, "doc": 32}
"""Longest answers, as the shipped tasks have them."""

PROMPTS = {
    "chart": "\nAnswer the question with a single word.",
    "doc": "\nAnswer the question using a single word or phrase.",
}
"""What the shipped tasks write behind a question."""

CHOICES = ["red", "blue", "square", "2"]

LOCAL = """
task: {name}
dataset_path: parquet
dataset_kwargs:
  data_files:
    test: {file}
test_split: test
doc_to_visual: image
doc_to_text: "{{{{question}}}}"
"""


class Made(NamedTuple):
    """A run, rows with a question about an image each, and a folder of tasks of them."""

    run: Path
    rows: list[dict[str, Any]]
    images: Path
    tasks: Path


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("tasks")
    exported, images = Scenes("train", 30).export(folder), folder / "images"
    run = Run(folder / "run")
    config = compose_vision(
        "data=image_text", f"data.train={exported}", "data.validation=null", f"data.images={images}", "model=llava_tiny",
        "trainer.validate_every=0", "trainer.max_steps=30", *SMALL,
    )  # fmt: skip
    run.begin(config, [])
    train(config, run)
    rows = [json.loads(line) for line in exported.read_text().splitlines()]
    rows = [row for row in rows if row.get("image") and "question" in row][:8]
    tasks = folder / "tasks"
    tasks.mkdir()
    predictor = Predictor(run.path)
    for name in TOKENS:
        texts = predicted(predictor, name, rows, images)
        for number, (row, text) in enumerate(
            zip(rows, texts, strict=True)
        ):  # every third is right, or nearly
            row[name] = row["answer"] if number % 3 else text if number % 2 else f"{text}z"
    write_tasks(tasks, rows, images)
    return Made(run.path, rows, images, tasks)


def predicted(predictor: Predictor, name: str, rows: list[dict[str, Any]], images: Path) -> list[str]:
    """What `tiryns predict` answers to the prompts of a shipped task."""
    asked = [{"question": row["question"] + PROMPTS[name], "image": row["image"]} for row in rows]
    options = PredictOptions(images=images, max_new_tokens=TOKENS[name])
    return [found["predicted"] for found in predictor.predict(asked, options)]


def write_tasks(folder: Path, rows: list[dict[str, Any]], images: Path) -> None:
    import lmms_eval
    from datasets import Dataset, Features, List, Value
    from datasets import Image as ImageColumn

    texts, shown = (
        Value("string"),
        [{"bytes": (images / row["image"]).read_bytes(), "path": None} for row in rows],
    )
    questions = [row["question"] for row in rows]
    shipped = Path(lmms_eval.__file__).parent / "tasks"

    def save(name: str, kinds: Mapping[str, Any], **columns: list[Any]) -> Path:
        features = Features({"image": ImageColumn(), "question": texts, **kinds})
        found = Dataset.from_dict({"image": shown, "question": questions, **columns}, features=features)
        found.to_parquet(file := folder / f"{name}.parquet")
        return file

    kinds = ["human_test" if number % 2 else "augmented_test" for number in range(len(rows))]
    answers = [row["chart"] for row in rows]
    chart = save("chart", {"answer": texts, "type": texts}, answer=answers, type=kinds)
    numbers = [str(number) for number in range(len(rows))]
    accepted = [[row["doc"], "the sea"] for row in rows]
    doc = save("doc", {"answers": List(texts), "questionId": texts}, answers=accepted, questionId=numbers)
    for name, file, source, split in (
        ("chart", chart, "chartqa/chartqa", "test"),
        ("doc", doc, "docvqa/docvqa_val", "validation"),
    ):
        (folder / f"{name}.yaml").write_text(
            f"include: {shipped}/{source}.yaml\ntask: {name}\ndataset_path: parquet\ndataset_name: null\n"
            f"dataset_kwargs:\n  data_files:\n    {split}: {file}\n"
        )
    choices = save(
        "choice",
        {"choices": List(texts), "gold": Value("int64")},
        choices=[CHOICES] * len(rows),
        gold=[1] * len(rows),
    )
    (folder / "choice.yaml").write_text(
        LOCAL.format(name="choice", file=choices)
        + "output_type: multiple_choice\ndoc_to_choice: choices\ndoc_to_target: gold\n"
        "metric_list:\n  - {metric: acc, aggregation: mean, higher_is_better: true}\n"
    )
    (folder / "long.yaml").write_text(
        LOCAL.format(name="long", file=chart).replace("{{question}}", "{{question * 600}}")
        + "output_type: generate_until\ndoc_to_target: answer\n"
        "metric_list:\n  - {metric: exact_match, aggregation: mean, higher_is_better: true}\n"
    )
    (folder / "far.yaml").write_text(
        LOCAL.format(name="far", file=chart)
        .replace("parquet\ndataset_kwargs", "nobody/nothing\nunused")
        .replace("unused:\n  data_files:\n    test: ", "description: ")
        + "output_type: generate_until\ndoc_to_target: answer\n"
    )
    (folder / "rounds.yaml").write_text(
        LOCAL.format(name="rounds", file=chart)
        + "output_type: generate_until_multi_round\ndoc_to_target: answer\n"
    )
    (folder / "both.yaml").write_text("group: both\ntask:\n  - chart\n  - doc\n")
