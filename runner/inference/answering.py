"""Answers questions about images with a trained vision-language model."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from PIL import Image

from iolaus.runner.data.read.rows import Row, read_rows
from iolaus.runner.data.vision.conversation_encoder import ConversationEncoder
from iolaus.runner.data.vision.conversations import ROLES, USER, Conversation, ConversationReader
from iolaus.runner.data.vision.image_inputs import join_images
from iolaus.runner.data.vision.images import ImageFolder, Images, decode_image
from iolaus.runner.evaluation.written_answers import question_of
from iolaus.runner.inference.labelled import own_settings
from iolaus.runner.run.model_folder import TASK, model_folder

AT_ONCE = 16
"""Questions answered together."""

_NOTHING = "?"
"""Stands for the answer that is asked for; a prompt ends before it."""


class Answerer(NamedTuple):
    """A vision-language model with its processor, which makes prompts of rows."""

    model: Any
    encoder: ConversationEncoder
    reader: ConversationReader


class ImageFiles:
    """Images by their paths, as a command line names them."""

    def check(self, reference: str, where: str) -> None:
        """Raises FileNotFoundError where there is no such file."""
        if not Path(reference).is_file():
            raise FileNotFoundError(f"there is no image {reference!r}")

    def read(self, reference: str, where: str) -> Image.Image:
        """The image in RGB; raises UndecodableImage where it is broken."""
        self.check(reference, where)
        return decode_image(Path(reference), f"the image {reference!r}")


def sees_images(config: Any) -> bool:
    """Whether a model's config is that of a model of images and text."""
    return hasattr(config, "vision_config")


def load_answerer(run: str) -> Answerer:
    """The vision-language model of a run or of a Hugging Face folder, and how its data was read.

    A model of others does not say what the columns of its data are called: the defaults of `data=image_text` are taken.

    Raises:
        FileNotFoundError: it has no processor.
        ValueError: it is of a kind that cannot be used here.
    """
    from iolaus.runner.data.vision.processors import load_processor
    from iolaus.runner.tasks import get_task

    folder = model_folder(run)
    noted = Path(folder) / TASK
    known = json.loads(noted.read_text())["data"] if noted.is_file() else {}
    data = own_settings("data", "image_text")
    reader = ConversationReader(
        **{name: known.get(name, data[name]) for name in ("columns", "caption_prompt")}
    )
    vision = load_processor(folder)
    task = get_task("vision_language")
    pretrained = task.load(folder)
    longest = pretrained.config.get_text_config().max_position_embeddings
    encoder = vision.encoder(min(longest, vision.tokenizer.model_max_length), "error")
    collator = task.objective(
        **{**own_settings("objective", task.name), **encoder.collator_arguments(reader)}
    )
    return Answerer(collator.task_model(pretrained).eval(), encoder, reader)


def questions_of_file(answerer: Answerer, path: str) -> list[Conversation]:
    """The rows of a file, as they were read for training; answers in it are left out.

    Raises:
        ValueError: there are none, or a row of no known kind.
    """
    return questions_of_rows(answerer, read_rows(path).rows)


def questions_of_rows(answerer: Answerer, rows: Sequence[Row]) -> list[Conversation]:
    """The questions of rows, without their answers; raises ValueError for a row of no known kind."""
    return [answerer.reader(_unanswered(row, answerer.reader.columns), i) for i, row in enumerate(rows)]


def question_of_text(answerer: Answerer, text: str, images: Sequence[str]) -> Conversation:
    """A question about some images, which stand before it where it does not say `<image>`."""
    names = answerer.reader.columns
    values = {names["question"]: text, names["answer"]: _NOTHING, names["image"]: list(images)}
    return answerer.reader(Row("the text", values), 0)


@torch.no_grad()
def answer(
    answerer: Answerer, questions: Sequence[Conversation], images: Images, max_new_tokens: int
) -> Iterator[dict[str, Any]]:
    """What the model writes to each question, in their order: `id`, `image`, the text, `predicted`."""
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


def folder_of_images(images: str | None, file: str) -> ImageFolder:
    """Where the image paths of a file start from: the folder that is named, or the file's own."""
    return ImageFolder(images if images is not None else Path(file).parent)


def _unanswered(row: Row, names: Mapping[str, str]) -> Row:
    """The row with nothing for its answer."""
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
