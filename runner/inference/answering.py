"""Answers questions about images with a trained vision-language model."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from PIL import Image

from tiryns.runner.data.read.rows import Row
from tiryns.runner.data.vision.conversation_encoder import ConversationEncoder
from tiryns.runner.data.vision.conversations import ROLES, USER, Conversation, ConversationReader
from tiryns.runner.data.vision.image_inputs import join_images
from tiryns.runner.data.vision.images import Images, decode_image
from tiryns.runner.evaluation.kinds.written_answers import question_of
from tiryns.runner.inference.labelled import option_defaults, saved_task
from tiryns.runner.run.model_folder import model_folder

AT_ONCE = 16
"""Questions in one batch."""

_NOTHING = "?"
"""Stands for the answer to be generated; a prompt ends before it."""


class Answerer(NamedTuple):
    """A vision-language model with the encoder and the reader that make prompts of rows."""

    model: Any
    encoder: ConversationEncoder
    reader: ConversationReader
    collator: Any


class ImageFiles:
    """Images by their paths, relative to the working directory."""

    def check(self, reference: str, where: str) -> None:
        """Raises FileNotFoundError where there is no such file."""
        if not Path(reference).is_file():
            raise FileNotFoundError(f"there is no image {reference!r}")

    def read(self, reference: str, where: str) -> Image.Image:
        """The image in RGB; raises UndecodableImage for a broken one."""
        self.check(reference, where)
        return decode_image(Path(reference), f"the image {reference!r}")


def sees_images(config: Any) -> bool:
    """Whether a config is that of a vision-language model."""
    return hasattr(config, "vision_config")


def load_answerer(
    run: str, settings: Mapping[str, Any] | None = None, columns: Mapping[str, str] | None = None
) -> Answerer:
    """The vision-language model of a run or a Hugging Face folder; raises FileNotFoundError without a processor.

    `settings` of `data` take the place of the exported ones; without any, texts are as long as the model reads. So do
    `columns` of single ones of its columns.
    """
    from tiryns.runner.data.vision.processors import load_processor
    from tiryns.runner.tasks import get_task

    folder = model_folder(run)
    data = (
        option_defaults("data", "image_text") | (saved_task(run) or {"data": {}})["data"] | (settings or {})
    )
    named = {**(data["columns"] or {}), **(columns or {})}
    reader = ConversationReader(columns=named, caption_prompt=data["caption_prompt"])
    vision = load_processor(folder)
    task = get_task("vision_language")
    pretrained = task.load(folder)
    longest = min(
        pretrained.config.get_text_config().max_position_embeddings, vision.tokenizer.model_max_length
    )
    reads = (longest, "error") if settings is None else (min(longest, data["max_length"]), data["too_long"])
    encoder = vision.encoder(*reads)
    defaults = option_defaults("objective", task.name)
    arguments: dict[str, Any] = {**defaults, **encoder.collator_arguments(reader)}
    collator = task.objective(**arguments)
    return Answerer(collator.task_model(pretrained).eval(), encoder, reader, collator)


def questions_of(answerer: Answerer, rows: Sequence[Row]) -> list[Conversation]:
    """The questions of rows, without their answers; raises ValueError for a row that is no question."""
    return [answerer.reader(_unanswered(row, answerer.reader.columns), i) for i, row in enumerate(rows)]


@torch.no_grad()
def answer(
    answerer: Answerer, questions: Sequence[Conversation], images: Images, max_new_tokens: int
) -> Iterator[dict[str, Any]]:
    """The generated answers to questions, in their order: `id`, `image`, `text`, `predicted`."""
    model, encoder = answerer.model, answerer.encoder
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.to(device)
    for question in questions:
        for name in question.images:
            images.check(name, question.name())
    for start in range(0, len(questions), AT_ONCE):
        some = questions[start : start + AT_ONCE]
        found = [encoder(q, [images.read(name, q.name()) for name in q.images]) for q in some]
        prompts = [torch.from_numpy(f.text.input_ids[: f.text.prompt_length]).to(device) for f in found]
        joined = join_images([image for f in found for image in f.images])["images"]
        shown = {name: torch.from_numpy(value).to(device) for name, value in joined.items()}
        for question, ids in zip(some, model.generate(prompts, shown, max_new_tokens).tolist(), strict=True):
            yield {
                "id": question.id,
                "image": question.images,
                "text": question_of(question),
                "predicted": encoder.written(ids),
            }


def _unanswered(row: Row, names: Mapping[str, str]) -> Row:
    """The row with the answer replaced by `_NOTHING`."""
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
