"""A vision-language model in lmms-eval's protocol. Imported where lmms-eval is installed."""

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from lmms_eval.api.instance import GenerationResult, Instance
from lmms_eval.api.model import lmms
from lmms_eval.utils import simple_parse_args_string
from PIL import Image

from tiryns.runner.data.read.rows import Row
from tiryns.runner.data.vision.conversation_encoder import SampleTooLong
from tiryns.runner.data.vision.conversations import IMAGE_PLACE, Conversation
from tiryns.runner.data.vision.image_text import encode_conversations
from tiryns.runner.data.vision.images import Size, in_rgb
from tiryns.runner.inference.answering import AT_ONCE, AnswersAsTested
from tiryns.runner.inference.passes import Report, passes

log = logging.getLogger("tiryns")

AS_READ = {"max_length": sys.maxsize, "too_long": "error"}
"""Settings of `data` by which prompts are as long as the model reads."""


class Shown(dict[str, Image.Image]):
    """Images in memory by their references."""

    def check(self, reference: str, where: str) -> None:
        """Nothing: each is there."""

    def read(self, reference: str, where: str) -> Image.Image:
        """The image in RGB."""
        return self[reference]

    def size_of(self, reference: str, where: str) -> Size:
        """Width and height."""
        return self[reference].size


class AnsweringTasks(lmms):
    """Answers the requests of lmms-eval's tasks as `tiryns evaluate` answers questions about images.

    Answers are written greedily, by the precision of the run, up to the task's `max_new_tokens` (the run's for a task
    without), and end before the first of the task's `until`. A text without a place for each of its images has them in
    front. `too_long` counts by task the prompts that are longer than the model reads, whose answers are empty.
    """

    def __init__(self, model: AnswersAsTested, report: Report | None = None) -> None:
        super().__init__()
        self.model, self.report = model, report
        self.too_long: dict[str, int] = {}

    @classmethod
    def create_from_arg_string(
        cls, arg_string: str, additional_config: Mapping[str, Any] | None = None
    ) -> "AnsweringTasks":
        """The model of `run=RUN`, with lmms-eval's `--batch_size`; raises ValueError for other arguments."""
        given = simple_parse_args_string(arg_string)
        if [*given] != ["run"]:
            raise ValueError(
                f"--model_args {arg_string}: expected run=RUN, a run folder or a Hugging Face folder"
            )
        model = AnswersAsTested(str(given["run"]), AS_READ)
        size = (additional_config or {}).get("batch_size")
        size = None if size is None else int(size)
        model.computation = model.computation._replace(micro_batch_size=size)
        return cls(model)

    def generate_until(self, requests: Sequence[Instance]) -> list[str]:
        """What the model writes for each request; raises ValueError for one that shows other than images."""
        written: list[str] = []
        at_once = self.model.computation.micro_batch_size or AT_ONCE
        for tokens, same in groupby(requests, self._max_new_tokens):
            some = list(same)
            for start in range(0, len(some), at_once):
                chosen = some[start : start + at_once]
                texts = self._written(chosen, tokens)
                written += [
                    _until(text, one.args[1].get("until")) for text, one in zip(texts, chosen, strict=True)
                ]
                if self.report is not None:
                    self.report(len(written), len(requests))
        return written

    def loglikelihood(self, requests: Sequence[Instance]) -> list[GenerationResult]:
        """The loss of each continuation in nats per token, and whether greedy writing would give it.

        The end token counts. lmms-eval's own models return the loss as well, and its tasks choose the least. They are
        wrapped as texts are, or its evaluator (0.7) would turn them into text. Raises ValueError as `generate_until`, and
        for a request that is longer than the model reads.
        """
        model, found = self.model, []
        for start in range(0, len(requests), AT_ONCE):
            shown, rows = Shown(), []
            for one in requests[start : start + AT_ONCE]:
                row = self._row(one, shown)
                continuation = (
                    one.args[1] if isinstance(one.args[1], str) else one.args[1](self._document(one))
                )
                rows.append(row._replace(values={**row.values, model.reader.columns["answer"]: continuation}))
            asked = [model.reader(row, i) for i, row in enumerate(rows)]
            sequences = encode_conversations(asked, shown, model.encoder, 0, "--tasks")
            model.model.by_row = True
            sums: dict[int, tuple[float, bool]] = {}
            done = passes(model.model, model.collator, sequences, model.computation, 0, AT_ONCE)
            for passed in done:
                of_rows = {name: value.tolist() for name, value in passed.output["row_sums"].items()}
                every = zip(of_rows["loss"], of_rows["weight"], of_rows["correct"], strict=True)
                for sample, (loss, weight, correct) in zip(passed.samples.tolist(), every, strict=True):
                    sums[sample] = loss / weight, correct == weight
            found += [GenerationResult(sums[i]) for i in range(len(rows))]
            if self.report is not None:
                self.report(len(found), len(requests))
        return found

    def generate_until_multi_round(self, requests: Sequence[Instance]) -> list[str]:
        """Raises NotImplementedError: a question has one round here."""
        raise NotImplementedError("questions of several rounds are not answered")

    def _written(self, requests: Sequence[Instance], max_new_tokens: int) -> Iterator[str]:
        """The answers to some requests, in their order."""
        shown = Shown()
        questions = self.model.questions([self._row(one, shown) for one in requests])
        fits = [self._fits(question, shown, one) for question, one in zip(questions, requests, strict=True)]
        asked = [question for question, fit in zip(questions, fits, strict=True) if fit]
        with self.model.computation.autocast():
            answers = iter(list(self.model.answers(asked, shown, max_new_tokens)))
        return (next(answers)["predicted"] if fit else "" for fit in fits)

    def _fits(self, question: Conversation, shown: Shown, request: Instance) -> bool:
        """Whether the model reads a prompt as long as this one, which is counted if not."""
        try:
            self.model.encoder.text(question, [shown[name].size for name in question.images])
        except SampleTooLong:
            self.too_long[request.task_name] = self.too_long.get(request.task_name, 0) + 1
            return False
        return True

    def _row(self, request: Instance, shown: Shown) -> Row:
        """The question of a request, whose images go into `shown`."""
        text, visuals = request.args[0], request.args[2](self._document(request))
        where = f"--tasks {request.task_name}: document {request.doc_id}"
        references: list[str] = []
        for image in _flat(visuals):
            if not isinstance(image, Image.Image):
                raise ValueError(f"{where} shows a {type(image).__name__}; expected images alone")
            references.append(f"{where}, request {request.idx}, image {len(references) + 1}")
            shown[references[-1]] = in_rgb(image)
        if text.count(IMAGE_PLACE) != len(references):
            text = text.replace(IMAGE_PLACE, "")
        names = self.model.reader.columns
        return Row(
            where, {names["id"]: str(request.doc_id), names["question"]: text, names["image"]: references}
        )

    def _document(self, request: Instance) -> Any:
        """The row of the task's data that a request is about."""
        number, task, split = request.args[-3:]
        return self.task_dict[task][split][number]

    def _max_new_tokens(self, request: Instance) -> int:
        """The longest answer."""
        return int(request.args[1].get("max_new_tokens") or self.model.writer.max_new_tokens)


def _flat(visuals: Any) -> Iterator[Any]:
    """What a task shows, which it may nest."""
    if isinstance(visuals, list | tuple):
        for one in visuals:
            yield from _flat(one)
    elif visuals is not None:
        yield visuals


def _until(text: str, ends: str | Sequence[str] | None) -> str:
    """A text up to the first of the ends."""
    for end in [ends] if isinstance(ends, str) else ends or []:
        text = text.partition(end)[0] if end else text
    return text
