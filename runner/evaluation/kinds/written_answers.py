"""Answers of a vision-language model, compared with the best constant answer."""

import base64
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.data.vision.conversations import IMAGE_PLACE, Conversation
from tiryns.runner.data.vision.image_text import ConversationSequences
from tiryns.runner.evaluation.files import Entry, PredictionRow
from tiryns.runner.evaluation.predictions import Compared, Gather, Predictions
from tiryns.runner.evaluation.squad import exact_match, normalize

FIGURES = ("exact_match", "constant_exact_match")


class AnswerPredictions(Predictions[ConversationSequences]):
    """Texts that a model writes to answer the last question of a conversation, for some conversations of a set."""

    kind, monitor = "vision_language", "exact_match"

    def read(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {"places": output["asked"], "tokens": output["written"]}

    def join(self, gather: Gather) -> None:
        """Also turns tokens into texts."""
        super().join(gather)
        decode, seen = self.sequences.encoder.decode_answer, np.flatnonzero(self.seen).tolist()
        self.answers: dict[int, str] = {i: decode(self.values["tokens"][i].tolist()) for i in seen}

    def scored(self) -> tuple[list[str], list[Sequence[str]]]:
        return list(self.answers.values()), [self.sequences.examples[i].answers for i in self.answers]

    def owners(self) -> NDArray[np.int64]:
        return np.array(list(self.answers), dtype=np.int64)

    def measured_names(self) -> list[str]:
        """Returns the names of exact match, overall and per type; a type without an asked question gets no value."""
        kinds = sorted({example.kind or "other" for example in self.sequences.examples})
        apart = kinds if len(kinds) > 1 else []
        return [*FIGURES, *(_of_kind(name, kind) for name in FIGURES for kind in apart)]

    def measure(self) -> dict[str, float]:
        """Returns SQuAD's exact match, overall and per type: of the answers, and of each type's best constant answer."""
        kinds = self.kinds()
        metrics = {}
        for name in FIGURES if kinds else ():
            metrics[name] = sum(kind[name] * kind["examples"] for kind in kinds) / len(self.answers)
            if len(kinds) > 1:
                metrics |= {_of_kind(name, kind["kind"]): kind[name] for kind in kinds}
        return metrics

    def parts(self) -> list[Compared]:
        """Returns no parts: metrics come from `means`, and baselines have no interval."""
        return []

    def means(self) -> dict[str, tuple[NDArray[np.float64], NDArray[np.int64]]]:
        """Returns the exact match of each answer, over all questions and per type of question."""
        owners = self.owners()
        right = np.array([self._is_right(i) for i in self.answers], dtype=np.float64)
        kinds = np.array([self.sequences.examples[i].kind or "other" for i in self.answers])
        apart = {_of_kind("exact_match", kind): kinds == kind for kind in dict.fromkeys(kinds.tolist())}
        masks = {"exact_match": np.ones(len(owners), bool), **(apart if len(apart) > 1 else {})}
        return {name: (right[among], owners[among]) for name, among in masks.items()}

    def kinds(self) -> list[Entry]:
        """Returns per type of question: examples, exact match, the best constant answer, and its exact match."""
        by_kind: dict[str, list[int]] = defaultdict(list)
        for i in self.answers:
            by_kind[self.sequences.examples[i].kind or "other"].append(i)
        rows = []
        for kind, members in sorted(by_kind.items()):
            all_answers = (map(normalize, self.sequences.examples[i].answers) for i in members)
            counts = Counter(text for answers in all_answers for text in dict.fromkeys(answers))
            constant, times = counts.most_common(1)[0]
            size, right = len(members), sum(self._is_right(i) for i in members)
            entries = {"kind": kind, "examples": size, "exact_match": right / size}
            rows.append({**entries, "constant": constant, "constant_exact_match": times / size})
        return rows

    def rows(self) -> Iterator[PredictionRow]:
        for i, text in self.answers.items():
            example = self.sequences.examples[i]
            row = {
                "id": example.id, "kind": example.kind, "image": example.images, "text": question_of(example),
            }  # fmt: skip
            yield {**row, "gold": example.answers, "predicted": text, "probability": None}

    def tables(self) -> Entry:
        """Returns `samples` (the size of the set), `kinds`, and `shown`: some examples with small images as data URIs."""
        with_images = [i for i in self.answers if self.sequences.examples[i].images]
        places = np.linspace(0, len(with_images) - 1, min(12, len(with_images))).astype(int)
        samples = []
        for i in (with_images[place] for place in places):
            example, file = self.sequences.examples[i], BytesIO()
            image = self.sequences.images.read(example.images[0], example.name())
            image.thumbnail((96, 96))
            image.save(file, "PNG")
            uri = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
            texts = {"text": question_of(example), "gold": example.answers, "predicted": self.answers[i]}
            samples.append({"image": uri, **texts, "right": self._is_right(i)})
        return {"samples": len(self.sequences), "kinds": self.kinds(), "shown": samples}

    def _is_right(self, i: int) -> bool:
        return any(exact_match(self.answers[i], answer) for answer in self.sequences.examples[i].answers)


def _of_kind(figure: str, kind: str) -> str:
    """Returns the name of a metric over questions of one type."""
    return f"{figure}_{re.sub('[^a-z0-9]+', '_', kind.lower())}"


def question_of(example: Conversation) -> str:
    """Returns the text of a conversation's last question."""
    return str(example.turns[-2].text).replace(IMAGE_PLACE, "").strip()
