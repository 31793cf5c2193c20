"""Group `data`, labelled: examples of finetuning tasks, from files, the hub, or Python's standard library."""

from dataclasses import dataclass
from typing import Any

from omegaconf import MISSING

from tiryns.conf.data.common import Batching, LeavingOut, Tables, Tokenizing, demonstration
from tiryns.conf.registry import OPTIONS, register, target_of
from tiryns.conf.values import (
    AT_LEAST_0,
    COUNT,
    NAMED,
    WHOLE_FROM_0,
    Bounds,
    Choice,
    Settings,
    check_of,
    setting,
)

FOLD_SET = "fold"
"""The name of the test set that is the held-out fold."""


@dataclass
class FinetuningData(LeavingOut, Tables, Tokenizing, Batching):
    """Labelled examples, tokenised in memory."""

    _target_: str = "runner.data.FinetuningData"
    task: str = MISSING
    """`classification`, `token_classification`, `joint_tagging`, `question_answering`, `multiple_choice`, or your own."""
    train: Any = setting(MISSING, allowed=NAMED)
    """A file, folder, glob, hub name, or a list of them; with a split: `path@split`, `name:config@split`."""
    validation: Any = setting(None, allowed=NAMED)
    """Validation examples, like `train`; or several sets by name: `{easy: a.csv, hard: b.csv}`."""
    validation_documents: Any = setting(0.1, allowed=AT_LEAST_0)
    """Held-out part of `train` where no validation set is given: a number of examples, or a share below 1."""
    test: Any = setting(None, allowed=NAMED)
    """Examples to test the best weights on, like `validation`; they may lack labels."""
    folds: Any = setting(None, allowed=Bounds(2, whole=True))
    """Parts of `train` for cross-validation, balanced by label; `tiryns folds=5` trains a run for each."""
    fold: Any = setting(None, allowed=COUNT)
    """Number of the held-out part, from 1 to `folds`; this part becomes the test set `fold`."""
    group_column: str | None = None
    """Column of the group of a row (a patient, a document): rows of one group are held out together, and are in one
    fold; none: the text, or the context of questions."""
    text_column: str = "text"
    """Column of the text (words, questions)."""
    pair_column: str | None = None
    """Column of the second text of a pair."""
    context_column: str | None = "context"
    """Column of the context of a question."""
    label_column: str = "label"
    """Column of the label (labels of words, answers)."""
    label_columns: Any = None
    """One-hot labels: columns of 0 and 1, one per label, instead of `label_column`, such as `[order,refund]`."""
    tag_columns: Any = None
    """Columns of the labels of joint tagging, `[upos,ner]`, or columns by the names of the heads: `{pos: upos, ner: 9}`.
    In CoNLL files they are numbers; in CoNLL-U also names, or features such as `feats.Number`."""
    choices_column: str = "choices"
    """Column of the choices that a text has: a list, its JSON, or text with `label_separator`."""
    choice_columns: Any = None
    """Columns of one choice each, instead of `choices_column`, such as `[ending0,ending1]`."""
    on_bad_row: str = setting("error", allowed=Choice(("error", "skip")))
    """Rows that cannot be used (fields, encoding, label or text missing, unknown label): `error`, or `skip` and count."""
    id_column: str | None = None
    """Column of the id in the predictions; none: a column `id`, else the number of the example."""
    word_field: Any = 0
    """Column of the words in CoNLL files, counted from 0; in CoNLL-U a number or a name such as `lemma`."""
    tag_field: Any = None
    """Column of the labels in CoNLL files, like `word_field`; none: the last column in CoNLL, `upos` in CoNLL-U."""
    labels: Any = None
    """The labels in the order of their numbers; none takes the class names of a file, or the
    labels that occur in training, sorted."""
    problem_type: str = setting("auto", allowed=Choice(("auto", "single_label", "multi_label", "regression")))
    """`single_label`, `multi_label`, `regression`, or `auto`: multi-label for lists, regression for numbers if any has
    a decimal point, else single-label with the values as class names."""
    label_separator: Any = None
    """Separator of several labels in one text column, such as `|`."""
    doc_stride: int = setting(64, allowed=WHOLE_FROM_0)
    """Tokens that consecutive windows of a long context share."""
    tokenizer: Any = setting("${oc.select:model.name_or_path,null}", allowed=NAMED)
    """Name or folder of a tokenizer; none, for a model without a name, trains one on the training texts."""
    max_length: int = setting(128, allowed=Bounds(8, whole=True))
    """Longest sample in tokens, question included; texts are cut, sentences and contexts continue in more samples."""
    seed: int = 0
    """Seed of the folds and of the choice of held-out examples, which do not depend on the run's `seed`."""
    micro_batch_tokens: Any = "${oc.select:trainer.recommends.micro_batch_tokens,1024}"
    num_workers: int = "${oc.select:trainer.recommends.num_workers,0}"  # type: ignore[assignment]


def check_fold(folds: int | None, fold: int | None) -> None:
    """Raises ValueError unless `fold` is one of `folds`, or both are None."""
    if (folds is None) != (fold is None) or not (folds is None or 1 <= (fold or 0) <= folds):
        raise ValueError(
            f"data.folds={folds} and data.fold={fold}: give both, with data.fold from 1 to data.folds; "
            f"`tiryns folds={folds or 5}` trains a run for each fold"
        )


check_of(FinetuningData, "folds", "fold")(lambda data, _: check_fold(data.get("folds"), data.get("fold")))


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
    """Column of the list of labels, one for each word."""


@dataclass
class JointTaggingData(TokenClassificationData):
    """Sentences with labels in several columns: `data=joint_tagging data.tag_columns=[upos,ner]`."""

    task: str = "joint_tagging"


@dataclass
class QuestionAnsweringData(FinetuningData):
    """Questions on contexts, as in SQuAD: `data=question_answering data.train=train-v2.0.json`."""

    task: str = "question_answering"
    text_column: str = "question"
    """Column of the question."""
    label_column: str = "answers"
    """Column of the answers: `text` and `answer_start`."""
    max_length: int = 384
    doc_stride: int = 128


@dataclass
class MultipleChoiceData(FinetuningData):
    """Texts with choices, as in SWAG, RACE and COPA: `data=multiple_choice data.train=train.jsonl`."""

    task: str = "multiple_choice"
    context_column: str | None = None
    """Column of a text that precedes text and choice, such as the article that a question is about; none: no text."""
    label_column: str = "label"
    """Column of the right choice: its number, its name or letter, or its text."""


def is_demonstration(source: object) -> bool:
    """Returns whether a data set is a demonstration that ships with the program."""
    return (target_of(source) or "").startswith("runner.data.demo.")


@demonstration("stdlib_tasks.StdlibDocstrings")
class StdlibDocstrings(ClassificationData):
    """Docstrings of the standard library with the package that each is from; ships with Python."""


@demonstration("stdlib_tasks.StdlibTokens")
class StdlibTokens(TokenClassificationData):
    """Source of the standard library with Python's token types: strings, comments, numbers, keywords, names."""


@demonstration("stdlib_tags.StdlibTags")
class StdlibTags(JointTaggingData):
    """Source of the standard library with two labels per token: Python's token type `kind`, and the `role` of names."""


@demonstration("stdlib_tasks.StdlibQuestions")
class StdlibQuestions(QuestionAnsweringData):
    """Questions on signatures and docstrings of the standard library, some of which have no answer."""

    max_length: int = 192
    doc_stride: int = 48


@demonstration("stdlib_choices.StdlibChoices")
class StdlibChoices(MultipleChoiceData):
    """Docstrings of the standard library, each with three to five packages to choose its own package from."""


@demonstration("stdlib_pairs.StdlibSimilarity")
class StdlibSimilarity(ClassificationData):
    """First paragraphs and bodies of docstrings of the standard library, with their similarity from 0 to 3."""

    pair_column: str | None = "pair"
    problem_type: str = "regression"


def data_of(task: str | None) -> str:
    """Returns the first option of `data` that a task trains on."""
    return next(name for name, option in OPTIONS["data"].items() if getattr(option, "task", None) == task)


@check_of(FinetuningData, "validation", "test")
def check_demonstration(data: Settings, config: Settings) -> None:
    """Raises ValueError for demonstration sets together with training data of the user."""
    names = [name for name in ("validation", "test") if is_demonstration(data.get(name))]
    if names and not is_demonstration(data.get("train")) and config["mode"] != "probe":
        raise ValueError(
            f"data.train={data['train']} is yours, but data.{names[0]} is the recipe's demonstration: "
            f"add data={data_of(data.get('task'))}, which has only the sets that you name"
        )


register("data", classification=ClassificationData, token_classification=TokenClassificationData)
register("data", question_answering=QuestionAnsweringData, stdlib_docstrings=StdlibDocstrings)
register("data", stdlib_tokens=StdlibTokens, stdlib_questions=StdlibQuestions)
register("data", stdlib_similarity=StdlibSimilarity)
register("data", multiple_choice=MultipleChoiceData, stdlib_choices=StdlibChoices)
register("data", joint_tagging=JointTaggingData, stdlib_tags=StdlibTags)
