"""Classification of words: a label for each word of a sentence, such as the tags of entities, or several labels."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, cast

from transformers import PretrainedConfig, PreTrainedModel

from tiryns.runner.data.labelled.examples import Learnt
from tiryns.runner.data.labelled.token_classification import TokenClassificationReader
from tiryns.runner.data.labelled.words.joint_tagging import JointTaggingReader
from tiryns.runner.data.labelled.words.tags import tagging_of
from tiryns.runner.data.micro_batch import Batch, MicroBatch, Tokenizer
from tiryns.runner.evaluation.kinds.words import JointPredictions, TokenPredictions
from tiryns.runner.evaluation.metrics import ENTITY_FIGURES
from tiryns.runner.evaluation.predictions import Compared, Predictions
from tiryns.runner.models.finetuning import TokenClassifier
from tiryns.runner.models.head import labels_of
from tiryns.runner.objectives import Collator, JointTaggingCollator, TokenClassificationCollator
from tiryns.runner.objectives.rows import IGNORED
from tiryns.runner.tasks.base import Evaluated, Task, TrainerTask


class TokenClassification(TrainerTask):
    """A label for each word."""

    name = "token_classification"
    reader = TokenClassificationReader
    objective = TokenClassificationCollator
    evaluation = TokenPredictions

    def collect(self, sequences: Any, objective: Collator) -> Predictions:
        """Returns predictions with the objective's kind of decoding."""
        assert isinstance(objective, TokenClassificationCollator)
        return TokenPredictions(sequences, objective.options.constrained_decoding)

    def reader_state(self, config: PretrainedConfig) -> Learnt:
        """Returns the labels; words without a token get `O`."""
        labels = labels_of(config)
        return {"labels": labels, "default_label": labels.index("O") if "O" in labels else 0}

    def task_model(self, pretrained: PreTrainedModel) -> TokenClassifier:
        """Returns the model with a head on every token."""
        return TokenClassifier(pretrained)

    def micro_batch(self, batch: Batch, model: object, tokenizer: "Tokenizer | None") -> MicroBatch:
        """Returns the batch with targets: every token with a label is a target, and a word."""
        labels = batch["labels"].flatten()
        positions = (labels != IGNORED).nonzero()[:, 0]
        fields = dict.fromkeys(("target_positions", "word_positions", "read_positions"), positions)
        fields |= {"targets": labels[positions], "weight": float(len(positions))}
        return cast(MicroBatch, batch | fields)

    def comparisons(self, batch: Evaluated) -> Iterator[Compared]:
        """Yields predictions and targets for the accuracy, and for entity F1 if labels are tags, else for macro F1."""
        micro_batch, names = batch.micro_batch, batch.names
        predictions, targets = batch.output["logits"].argmax(-1), micro_batch["targets"]
        yield Compared(self.name, predictions, targets, only=["accuracy"])
        if tagging := tagging_of(names):
            rows = (micro_batch["target_positions"] // micro_batch["input_ids"].shape[1]).tolist()
            sides: tuple[dict[int, list[str]], ...] = (defaultdict(list), defaultdict(list))
            for sentences, labels in zip(sides, (predictions, targets), strict=True):
                for row, label in zip(rows, labels.tolist(), strict=True):
                    sentences[row].append(names[label])
            predicted_tags, target_tags = ([tagging.iob(tags) for tags in side.values()] for side in sides)
            yield Compared(self.name, predicted_tags, target_tags, only=ENTITY_FIGURES)
        else:
            yield Compared("classification", predictions, targets, only=["macro_f1"])


class JointTagging(Task):
    """A label for each word in each of several columns, with a head per column on one encoder."""

    name = "joint_tagging"
    reader = JointTaggingReader
    objective = JointTaggingCollator
    evaluation = JointPredictions

    def collect(self, sequences: Any, objective: Collator) -> Predictions:
        """Returns predictions with the objective's kind of decoding, and its weights."""
        assert isinstance(objective, JointTaggingCollator)
        return JointPredictions(sequences, objective.options.constrained_decoding, objective.weights)
