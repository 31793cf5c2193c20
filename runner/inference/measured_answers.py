"""Measures a vision-language model on questions about images, as its run tested it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import OmegaConf

from tiryns.runner.config.yaml_files import read_config
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.data.read.opened import Reading, of_run
from tiryns.runner.data.vision.conversation_sequences import ConversationSequences, encode_conversations
from tiryns.runner.data.vision.image_text import read_conversations
from tiryns.runner.evaluation.totals import loss_and_accuracy
from tiryns.runner.inference.answering import Answerer, load_answerer
from tiryns.runner.inference.labelled import option_defaults, saved_task
from tiryns.runner.inference.measuring import Measured, measure_set
from tiryns.runner.inference.passes import Computation, Report, as_trained
from tiryns.runner.models.vision.answers import AnswerWriter
from tiryns.runner.run.model_folder import model_folder
from tiryns.runner.tasks import get_task

SETTINGS = (
    "columns",
    "caption_prompt",
    "images",
    "max_length",
    "too_long",
    "max_undecodable",
    *Reading._fields,
)
"""Settings of `data` that say how questions about images are read."""


class AnsweringModel(NamedTuple):
    """A vision-language model with what its run has written answers to, and how it was computed."""

    answerer: Answerer
    writer: AnswerWriter
    settings: Mapping[str, Any]
    """Of `SETTINGS`."""
    computation: Computation


def load_answering_model(run: str, changes: Mapping[str, Any]) -> AnsweringModel:
    """The vision-language model of a run or a Hugging Face folder, with the run's settings but for the `changes`."""
    saved = (saved_task(run) or {"data": {}})["data"]
    data = option_defaults("data", "image_text") | saved | _settings_of_run(run, "data")
    module = option_defaults("module", "vision_language") | _settings_of_run(run, "module")
    settings = {name: value for name, value in of_run(data).items() if name in SETTINGS} | dict(changes)
    answerer = load_answerer(run, settings)
    computation = as_trained(run).set_up(answerer.collator, answerer.model)
    writer = AnswerWriter(module["generated_samples"], module["max_new_tokens"])
    return AnsweringModel(answerer, writer, settings, computation)


def read_questions(model: AnsweringModel, source: Any, name: str) -> ConversationSequences:
    """The samples of a source, as the run would read it; raises ValueError or FileNotFoundError for unusable ones."""
    settings, answerer = model.settings, model.answerer
    reading = Reading(**{name: settings[name] for name in Reading._fields if name in settings})
    found = read_conversations(source, reading, "test", name, answerer.reader, settings["images"])
    return encode_conversations(
        found.conversations, found.images, answerer.encoder, settings["max_undecodable"], name
    )


def measure_answers(
    model: AnsweringModel, sequences: ConversationSequences, report: Report | None = None
) -> Measured:
    """The answers to a set's questions, its loss and its figures."""
    answerer, size = model.answerer, len(sequences)

    def output(micro_batch: MicroBatch) -> dict[str, Any]:
        found: dict[str, Any] = answerer.model(micro_batch)
        return {**found, **model.writer.write(answerer.model, micro_batch, size)}

    predictions = get_task("vision_language").predictions(sequences, answerer.collator)
    parts = answerer.model, answerer.collator, model.computation
    return measure_set(predictions, *parts, report, output, loss_and_accuracy)


def _settings_of_run(run: str, group: str) -> dict[str, Any]:
    """The settings of a group, as the run's `config.yaml` has them; empty for a model without its run."""
    file = Path(model_folder(run)).parent / "config.yaml"
    config: Any = OmegaConf.to_container(read_config(file)) if file.is_file() else {}
    return config.get(group) or {}
