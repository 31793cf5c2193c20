"""Conversations about images, read from rows of three kinds: LLaVA's, captions, and questions with answers.

`<image>` marks the position of an image in a text, whatever image token the model itself uses.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from tiryns.conf.values import check_choice
from tiryns.runner.data.read.rows import Row

IMAGE_PLACE = "<image>"
"""The placeholder of an image in a text (LLaVA's convention)."""

USER, ASSISTANT, SYSTEM = "user", "assistant", "system"

ROLES = {"human": USER, "user": USER, "gpt": ASSISTANT, "assistant": ASSISTANT, "system": SYSTEM}
"""The names of the speakers in data sets."""

COLUMNS = {n: n for n in ("id", "image", "conversations", "caption", "question", "answer", "kind")}
"""The default names of the columns. `kind` is the type of a question; each type has its own metrics."""


class Turn(NamedTuple):
    """One turn of a conversation; `role` is `user`, `assistant` or `system`."""

    role: str
    text: str


class Conversation(NamedTuple):
    """Turns of user and assistant; the last turn is the assistant's.

    `images` has one reference per `<image>` place, in order. `answers` has all right answers of the last turn. `kind` is
    the type of the question, None if it is unknown. `where` names the row in messages.
    """

    id: str
    turns: list[Turn]
    images: list[str]
    answers: list[str]
    kind: str | None
    where: str

    def name(self) -> str:
        """Returns row and id of the sample, for messages."""
        return f"{self.where} (sample {self.id!r})"

    def image_key(self) -> str:
        """Returns the images, or, if there are none, the first text. Samples with equal keys are held out together."""
        return "\n".join(self.images) or self.turns[0].text


class ConversationReader:
    """Makes a conversation of a row. The columns of the row decide its type:

    - LLaVA's: `conversations`, a list of `{"from": "human" or "gpt", "value": text}`, and maybe `image`.
    - Captions: `image` and `caption`; the question is `caption_prompt`.
    - Questions: `question`, `answer` (a text, or a list of all that are accepted), and maybe `image` and `kind`. Images
      come before a question that has no `<image>`.

    `image` is a path or a list of paths; it may be empty, except for captions. `columns` renames columns, as in
    `{"question": "statement"}`.
    """

    def __init__(self, columns: Mapping[str, str] | None, caption_prompt: str) -> None:
        """Raises ValueError for an unknown column."""
        self.columns = {**COLUMNS, **(columns or {})}
        for name in self.columns:
            check_choice("data.columns", name, COLUMNS)
        self.caption_prompt = caption_prompt

    def __call__(self, row: Row, number: int) -> Conversation:
        """Returns the conversation of row `number`; raises ValueError with the place of an unusable row."""
        values, names = row.values, self.columns
        answers, cell = [], values.get(names["image"])
        images = [] if cell in (None, "") else [*cell] if isinstance(cell, list | tuple) else [cell]
        if wrong := [path for path in images if not isinstance(path, str) or not path]:
            problem = f"column {names['image']!r} holds {wrong[0]!r:.80}, expected a path or several"
            raise ValueError(f"{row.where}: {problem}")
        if names["conversations"] in values:
            turns = _llava_turns(row, names["conversations"])
        elif names["question"] in values:
            question = _text(row, names["question"])
            answers = _answers(row, names["answer"])
            answer = Counter(answers).most_common(1)[0][0]
            turns = [Turn(USER, _with_places(question, len(images))), Turn(ASSISTANT, answer)]
        elif names["caption"] in values:
            caption = _text(row, names["caption"])
            if not images:
                advice = f"expected its path in column {names['image']!r}"
                raise ValueError(f"{row.where}: a caption without an image; {advice}")
            turns = [Turn(USER, _with_places(self.caption_prompt, len(images))), Turn(ASSISTANT, caption)]
        else:
            columns = ", ".join(repr(names[n]) for n in ("conversations", "question", "caption"))
            raise ValueError(
                f"{row.where}: expected one of the columns {columns}; there are: {', '.join(map(str, values))}; set "
                "data.columns where they have other names"
            )
        kind = values.get(names["kind"])
        conversation = Conversation(
            id=str(values.get(names["id"], number)), turns=turns, images=images,
            answers=answers or [turns[-1].text], kind=None if kind is None else str(kind), where=row.where,
        )  # fmt: skip
        places = [turn.role for turn in turns for _ in range(turn.text.count(IMAGE_PLACE))]
        if places != [USER] * len(images):
            raise ValueError(
                f"{conversation.name()}: {len(places)} {IMAGE_PLACE} places for {len(images)} images; expected one per "
                f"image, all in turns of the user: write {IMAGE_PLACE} where an image belongs"
            )
        return conversation


def _llava_turns(row: Row, name: str) -> list[Turn]:
    cell = row.column(name, "data.columns")
    if not isinstance(cell, list) or not cell:
        raise ValueError(f"{row.where}: column {name!r} holds {cell!r:.80}, expected a list of turns")
    turns = []
    for turn in cell:
        try:
            role, text = (turn["from"], turn["value"]) if "from" in turn else (turn["role"], turn["content"])
            turns.append(Turn(ROLES[role], text))
        except (KeyError, TypeError):
            text = None
        if not isinstance(text, str):
            raise ValueError(
                f"{row.where}: a turn is {turn!r:.80}, expected an object whose 'value' is "
                f"a text and whose 'from' is one of {', '.join(ROLES)}"
            )
    roles = [turn.role for turn in turns]
    speakers = roles[1:] if roles[0] == SYSTEM else roles
    if not speakers or speakers != [USER, ASSISTANT] * (len(speakers) // 2):
        raise ValueError(
            f"{row.where}: the turns are of {', '.join(roles)}; expected user and assistant in turn, and the "
            "assistant as the last"
        )
    if any(turn.role == ASSISTANT and not turn.text.strip() for turn in turns):
        raise ValueError(f"{row.where}: the assistant says nothing; remove the row or fill it in")
    return turns


def _text(row: Row, name: str) -> str:
    value = row.column(name, "data.columns")
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{row.where}: column {name!r} holds {value!r:.80}, expected text")
    return value.strip()


def _answers(row: Row, name: str) -> list[str]:
    """Returns the accepted answers; numbers and booleans are converted to text."""
    cell = row.column(name, "data.columns")
    answers = cell if isinstance(cell, list | tuple) else [cell]
    values = [
        answer.get("answer") if isinstance(answer, Mapping) else answer for answer in answers
    ]  # as in VQA v2
    texts = [str(value).lower() if isinstance(value, bool) else str(value).strip() for value in values]
    if not values or not all(texts) or not all(isinstance(value, str | int | float) for value in values):
        problem = f"{row.where}: column {name!r} holds {cell!r:.80}, expected an answer or several"
        raise ValueError(problem)
    return texts


def _with_places(text: str, count: int) -> str:
    return text if IMAGE_PLACE in text else f"{IMAGE_PLACE}\n" * count + text
