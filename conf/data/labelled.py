"""Group `data`, labelled: examples of the three finetuning tasks, from files, the hub, or Python's own library."""

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from iolaus.conf.data.common import Batching, Tokenizing
from iolaus.conf.data.tables import Tables
from iolaus.conf.registry import register
from iolaus.conf.values import AT_LEAST_0, NAMED, WHOLE_FROM_0, Bounds, Choice, setting


@dataclass
class FinetuningData(Tables, Tokenizing, Batching):
    """Labelled examples: read, checked, tokenised in memory, served as global batches."""

    _target_: str = "runner.data.FinetuningData"
    task: str = MISSING
    """`classification`, `token_classification`, `question_answering`, or one that you have registered."""
    train: Any = setting(MISSING, allowed=NAMED)
    """A file, folder, glob, hub name, or a list of them; with a split: `path@split`, `name:config@split`."""
    validation: Any = setting(None, allowed=NAMED)
    """Validation examples, like `train`; or several sets by name: `{easy: a.csv, hard: b.csv}`."""
    validation_documents: Any = setting(0.1, allowed=AT_LEAST_0)
    """How much of `train` to hold out where no validation set is given: a number of examples, or a share below 1."""
    test: Any = setting(None, allowed=NAMED)
    """Examples for a last test with the best weights, like `validation`; they may lack labels."""
    text_column: str = "text"
    """Column of the text; of the list of words; of the question."""
    pair_column: Any = None
    """Column of a second text, for pairs."""
    context_column: str = "context"
    """Column of the text that a question is answered from."""
    label_column: str = "label"
    """Column of the label; of the list of labels, one per word; of the answers."""
    id_column: Any = None
    """Column that names examples in the predictions; none takes a column `id`, else their numbers."""
    word_field: Any = 0
    """Column of the words in CoNLL files, counted from 0; in CoNLL-U a number or a name such as `lemma`."""
    tag_field: Any = None
    """Column of the labels in such files; none takes the last one of CoNLL, `upos` of CoNLL-U."""
    labels: Any = None
    """The labels in the order of their numbers; none takes those of the training examples, sorted."""
    problem_type: str = setting("auto", allowed=Choice(("auto", "single_label", "multi_label", "regression")))
    """`single_label`, `multi_label`, `regression`, or `auto`: text and integers are classes, lists are several at
    once, numbers with a fraction are to be regressed."""
    label_separator: Any = None
    """What stands between several labels in one text column, such as `|`."""
    doc_stride: int = setting(64, allowed=WHOLE_FROM_0)
    """Tokens that neighbouring windows of a long context share."""
    tokenizer: Any = setting("${oc.select:model.name_or_path,null}", allowed=NAMED)
    """Name or folder of a tokenizer; where the model has no name one is trained on the training texts."""
    max_length: int = setting(128, allowed=Bounds(8, whole=True))
    """Longest sample in tokens. Texts are cut there; sentences and contexts go on in further samples."""
    seed: int = 0
    """Chooses the held-out examples; runs of different `seed` are measured on the same ones."""
    micro_batch_tokens: Any = 1024
    num_workers: int = 0


@dataclass
class ClassificationData(FinetuningData):
    """Texts, or pairs of texts, with labels: `data=classification data.train=train.csv data.validation=valid.csv`."""

    task: str = "classification"


@dataclass
class TokenClassificationData(FinetuningData):
    """Sentences with a label per word: `data=token_classification data.train=train.conll`."""

    task: str = "token_classification"
    text_column: str = "words"
    """Column of the list of words."""
    label_column: str = "labels"
    """Column of the list of labels, one per word."""


@dataclass
class QuestionAnsweringData(FinetuningData):
    """Questions on contexts, as in SQuAD: `data=question_answering data.train=train-v2.0.json`."""

    task: str = "question_answering"
    text_column: str = "question"
    """Column of the question."""
    label_column: str = "answers"
    """Column of the answers: `text` and `answer_start`."""
    max_length: int = 384
    """Longest window in tokens, question included."""
    doc_stride: int = 128
    """Tokens that neighbouring windows of a long context share."""


def _embedded(target: str, part: str) -> dict[str, str]:
    return {"_target_": f"runner.data.demo.stdlib_tasks.{target}", "part": part}


@dataclass
class StdlibDocstrings(ClassificationData):
    """Which package of the standard library is this docstring from? Ships with Python: nothing to download."""

    train: Any = field(default_factory=lambda: _embedded("StdlibDocstrings", "train"))
    """Docstrings, and the package that each is from."""
    validation: Any = field(default_factory=lambda: _embedded("StdlibDocstrings", "validation"))
    """Docstrings of other functions and classes."""
    test: Any = field(default_factory=lambda: _embedded("StdlibDocstrings", "test"))
    """Docstrings of yet others."""


@dataclass
class StdlibTokens(TokenClassificationData):
    """Which words of the standard library's source are strings, comments, numbers, keywords, names?"""

    train: Any = field(default_factory=lambda: _embedded("StdlibTokens", "train"))
    """Pieces of source with Python's own token types."""
    validation: Any = field(default_factory=lambda: _embedded("StdlibTokens", "validation"))
    """Pieces of other files."""
    test: Any = field(default_factory=lambda: _embedded("StdlibTokens", "test"))
    """Pieces of yet others."""


@dataclass
class StdlibQuestions(QuestionAnsweringData):
    """Questions on signatures and docstrings of the standard library, some of which have no answer."""

    train: Any = field(default_factory=lambda: _embedded("StdlibQuestions", "train"))
    """Questions on functions and classes."""
    validation: Any = field(default_factory=lambda: _embedded("StdlibQuestions", "validation"))
    """Questions on other ones."""
    test: Any = field(default_factory=lambda: _embedded("StdlibQuestions", "test"))
    """Questions on yet others."""
    max_length: int = 192
    """Longest window in tokens, question included."""
    doc_stride: int = 48
    """Tokens that neighbouring windows of a long context share."""


register(
    "data",
    classification=ClassificationData,
    token_classification=TokenClassificationData,
    question_answering=QuestionAnsweringData,
    stdlib_docstrings=StdlibDocstrings,
    stdlib_tokens=StdlibTokens,
    stdlib_questions=StdlibQuestions,
)
