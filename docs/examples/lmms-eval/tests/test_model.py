"""Requests of lmms-eval as questions of ours; skipped where it is not installed."""

import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from conftest import Made
from PIL import Image

from tiryns.runner.inference.answering import AnswersAsTested

pytest.importorskip("lmms_eval")

from tiryns_lmms_eval.model import AS_READ, AnsweringTasks, Shown


def asked(text: str, shown: Any, number: int = 0, **settings: Any) -> Any:
    """A request as lmms-eval makes it."""
    from lmms_eval.api.instance import Instance

    metadata: Any = {"task": "task", "doc_id": number, "repeats": 1}
    arguments = (text, settings, lambda document: shown, number, "task", "test")
    return Instance("generate_until", arguments, 0, metadata)


def test_requests_become_questions(made: Made) -> None:
    answering = AnsweringTasks(AnswersAsTested(str(made.run), AS_READ))
    answering.task_dict["task"] = {"test": [None] * 5}
    red, blue = Image.new("RGB", (9, 9), "red"), Image.new("RGBA", (9, 9), (0, 0, 255, 0))

    def question(text: str, shown: Any) -> tuple[str, list[Any]]:
        images = Shown()
        values = answering._row(asked(text, shown), images).values
        return values["question"], [images[name].getpixel((0, 0)) for name in values["image"]]

    assert question("what?", None) == ("what?", [])
    assert question("what?", [red]) == ("what?", [(255, 0, 0)])
    assert question("what?", [[red], [blue]]) == ("what?", [(255, 0, 0), (255, 255, 255)])
    assert question("is <image> as <image>?", [red, blue])[0] == "is <image> as <image>?"
    assert question("is <image> as <image>?", [red])[0] == "is  as ?"
    with pytest.raises(ValueError, match="--tasks task: document 0 shows a str; expected images alone"):
        question("what?", ["film.mp4"])

    whole, *others = answering.generate_until(
        [
            asked("what shape is red?", [red], 0, max_new_tokens=8),
            asked("what shape is red?", [red], 1, max_new_tokens=2),
            asked("what shape is red?", [red], 2),
        ]
    )
    longest = [len(answering.model.encoder.tokenizer(text)["input_ids"]) for text in (whole, *others)]
    assert whole
    assert whole.startswith(others[0])
    assert longest[0] >= longest[2] >= longest[1], "8, 2, and the run's 4"
    middle = whole[len(whole) // 2]
    (cut,) = answering.generate_until(
        [asked("what shape is red?", [red], 3, max_new_tokens=8, until=["", middle])]
    )
    assert cut == whole.partition(middle)[0]


def test_lmms_eval_knows_the_model_by_name(made: Made) -> None:
    from lmms_eval.models import MODEL_REGISTRY_V2, get_model

    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["lmms_eval.models"]["tiryns"].partition(":")
    MODEL_REGISTRY_V2.register_manifest(getattr(import_module(module), name)(), overwrite=True)
    kind = get_model("tiryns")
    assert kind is AnsweringTasks
    made_by_name = kind.create_from_arg_string(f"run={made.run}", {"batch_size": "2", "device": None})
    assert made_by_name.model.computation.micro_batch_size == 2
    with pytest.raises(ValueError, match="expected run=RUN"):
        kind.create_from_arg_string("pretrained=somewhere")
