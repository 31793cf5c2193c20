"""Answers of vision-language models to questions about images: predictions for rows, and evaluation as in a run."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from transformers import PretrainedConfig

from tiryns.conf.values import Settings
from tiryns.runner.data.read.opened import Reading, of_run
from tiryns.runner.data.read.rows import Row, Rows, RowSource
from tiryns.runner.data.vision.conversations import ROLES, USER, Conversation, ConversationReader
from tiryns.runner.data.vision.image_text import ConversationSequences, encode_conversations
from tiryns.runner.data.vision.images import ImageFolder, Images, decode_image, join_images
from tiryns.runner.evaluation.files import PredictionRow
from tiryns.runner.evaluation.kinds.written_answers import question_of
from tiryns.runner.evaluation.totals import loss_and_accuracy
from tiryns.runner.inference.kinds import Kept, Kind, PredictOptions, Tested, check_settings, option_defaults
from tiryns.runner.inference.labelled import saved_task
from tiryns.runner.inference.passes import Model, as_trained, device_here, run_config
from tiryns.runner.models.positions import longest_text
from tiryns.runner.models.vision.vision_language import AnswerWriter
from tiryns.runner.run.model_folder import model_folder
from tiryns.runner.run.yaml_files import settings_in
from tiryns.runner.tasks import get_task

SETTINGS = (
    *("columns", "caption_prompt", "images", "max_length", "too_long", "max_undecodable"), *Reading._fields
)  # fmt: skip
"""Settings of `data` that say how questions about images are read."""

AT_ONCE = 16
"""Questions in one batch."""

_NOTHING = "?"
"""Placeholder of the answer to generate; a prompt ends before it."""


class ImageFiles:
    """Images by their paths, relative to the working directory."""

    def check(self, reference: str, where: str) -> None:
        """Raises FileNotFoundError for a missing file."""
        if not Path(reference).is_file():
            raise FileNotFoundError(f"there is no image {reference!r}")

    def read(self, reference: str, where: str) -> Image.Image:
        """Returns the image in RGB; raises UndecodableImage for a broken one."""
        self.check(reference, where)
        return decode_image(Path(reference), f"the image {reference!r}")


def sees_images(config: PretrainedConfig) -> bool:
    """Whether a config is that of a vision-language model."""
    return hasattr(config, "vision_config")


class Answers(Kind):
    """The vision-language model of a run or a Hugging Face folder; raises FileNotFoundError without a processor.

    Texts may be as long as the model allows. `changes` may have `text_column` and settings that say how to read files.
    """

    name, at_once, line_formats = "vision_language", 256, ()

    def __init__(self, run: str, changes: Settings) -> None:
        check_settings(changes, ("text_column", *Reading._fields))
        columns = {"question": changes["text_column"]} if "text_column" in changes else {}
        self.changes = changes
        self._load(run, _exported_settings(run), columns)

    def _load(self, run: str, data: Settings, columns: Mapping[str, str], bounded: bool = False) -> None:
        from tiryns.runner.data.vision.processors import load_processor

        folder = model_folder(run)
        self.task = get_task(self.name)
        self.reader = ConversationReader(
            columns={**(data["columns"] or {}), **columns}, caption_prompt=data["caption_prompt"]
        )
        vision = load_processor(folder)
        pretrained_model = self.task.load(folder)
        longest = min(filter(None, (longest_text(pretrained_model), vision.tokenizer.model_max_length)))
        reads = (min(longest, data["max_length"]), data["too_long"]) if bounded else (longest, "error")
        self.encoder = vision.encoder(*reads)
        arguments = option_defaults("objective", self.name)
        arguments |= self.encoder.collator_arguments(self.reader)
        self.collator = self.task.objective(**arguments)
        self.model = self.collator.task_model(pretrained_model).eval()
        self.text_column = self.reader.columns["question"]

    def values(self, text: str, options: PredictOptions) -> dict[str, object]:
        """Returns the question, with its images."""
        return {self.text_column: text, self.reader.columns["image"]: list(options.image)}

    def columns(self) -> tuple[str, ...]:
        """Returns no required columns, because questions, captions and conversations have different columns."""
        return ()

    def predict(self, rows: Rows, options: PredictOptions, number: int, figures: bool = False) -> Kept:
        if options.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens={options.max_new_tokens}: expected at least 1")
        files: Images = ImageFiles() if options.images is None else ImageFolder(options.images)
        questions = self.questions(rows.rows, rows.first)
        return Kept(rows.rows, list(self.answers(questions, files, options.max_new_tokens)))

    def questions(self, rows: Sequence[Row], first: int = 0) -> list[Conversation]:
        """Returns the questions of rows, without their answers; raises ValueError for a row without a question."""
        return [
            self.reader(_without_answer(row, self.reader.columns), i) for i, row in enumerate(rows, first)
        ]

    @torch.no_grad()
    def answers(
        self, questions: Sequence[Conversation], images: Images, max_new_tokens: int
    ) -> Iterator[PredictionRow]:
        """Yields the generated answers to questions, in their order: `id`, `image`, `text`, `predicted`."""
        device = device_here()
        self.model.to(device)
        for question in questions:
            for name in question.images:
                images.check(name, question.name())
        for start in range(0, len(questions), AT_ONCE):
            batch = questions[start : start + AT_ONCE]
            samples = [self.encoder(q, [images.read(name, q.name()) for name in q.images]) for q in batch]
            prompts = [torch.from_numpy(f.text.input_ids[: f.text.prompt_length]).to(device) for f in samples]
            arrays = join_images([image for f in samples for image in f.images])["images"]
            tensors = {name: torch.from_numpy(value).to(device) for name, value in arrays.items()}
            token_ids = self.model.generate(prompts, tensors, max_new_tokens).tolist()
            for question, ids in zip(batch, token_ids, strict=True):
                entry = {"id": question.id, "image": question.images, "text": question_of(question)}
                yield {**entry, "predicted": self.encoder.decode_answer(ids)}


class AnswersAsTested(Answers, Tested):
    """Evaluates a model as its run did: with the run's precision and `data` settings; `changes` override `data` settings.

    `writer` generates as many answers as the run's test, with the same maximal length.
    """

    of_sums = staticmethod(loss_and_accuracy)

    def __init__(self, run: str, changes: Settings) -> None:
        config = run_config(run)  # none of a model without its run
        run_settings = {} if config is None else settings_in(config)
        exported_settings = _exported_settings(run)
        data = exported_settings | (run_settings.get("data") or {})
        self.settings = {n: value for n, value in of_run(data).items() if n in SETTINGS} | dict(changes)
        self._load(run, {**exported_settings, **self.settings}, {}, bounded=True)
        self.changes = self.settings
        self.computation = as_trained(run).set_up(self.collator, self.model)
        module = option_defaults("module", self.name) | (run_settings.get("module") or {})
        self.writer = AnswerWriter(module["generated_samples"], module["max_new_tokens"])

    def read(self, source: RowSource, name: str) -> ConversationSequences:
        """Returns the samples of a source, read as in the run; ValueError or FileNotFoundError for invalid rows."""
        from tiryns.runner.data.vision.image_text import read_conversations

        images = self.settings["images"]
        content = read_conversations(source, self.reading_for(source), "test", name, self.reader, images)
        most = self.settings["max_undecodable"]
        return encode_conversations(content.conversations, content.images, self.encoder, most, name)

    def output(self, sequences: Any) -> Model:
        """Returns a function from a micro-batch to the model's output and the answers that it writes."""
        writer, size = self.writer, len(sequences)
        return lambda batch: {**self.model(batch), **writer.write(self.model, batch, size)}


def _exported_settings(run: str) -> Settings:
    """Returns the settings of `data` that were exported with a model, else their defaults."""
    return {**option_defaults("data", "image_text"), **(saved_task(run) or {"data": {}})["data"]}


def _without_answer(row: Row, names: Mapping[str, str]) -> Row:
    """Returns the row with the answer replaced by `_NOTHING`."""
    values = dict(row.values)
    if turns := values.get(names["conversations"]):
        last = turns[-1] if isinstance(turns, list) else None
        role = (last.get("from") or last.get("role")) if isinstance(last, Mapping) else None
        if ROLES.get(str(role)) == USER:
            values[names["conversations"]] = [*turns, {"from": "gpt", "value": _NOTHING}]
    elif names["question"] in values:
        values[names["answer"]] = _NOTHING
    elif names["image"] in values:
        values[names["caption"]] = _NOTHING
    return row._replace(values=values)
