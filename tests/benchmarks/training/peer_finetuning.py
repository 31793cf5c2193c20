"""What `bench_finetuning` measures against: plain Hugging Face code for the three tasks, as its examples have it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

DOC_STRIDE, WARMUP, WEIGHT_DECAY = 128, 0.1, 0.01


class Case(NamedTuple):
    """One data set: files, task, how long to train, and the figure to compare."""

    task: str
    files: str
    epochs: float
    lr: float
    batch: int
    metric: str
    max_length: int = 128
    seed: int = 1
    precision: str = "auto"
    """Of ours; theirs is fp32."""


def trainer(case: Case, model: Any, data: Any, collator: Any, folder: Path) -> Any:
    """Their Trainer with the settings that both sides share."""
    from transformers import Trainer, TrainingArguments

    steps = int(np.ceil(len(data) / case.batch) * case.epochs)
    arguments = TrainingArguments(
        output_dir=str(folder / "theirs"), num_train_epochs=case.epochs, learning_rate=case.lr, seed=case.seed,
        per_device_train_batch_size=case.batch, per_device_eval_batch_size=64, weight_decay=WEIGHT_DECAY,
        lr_scheduler_type="linear", warmup_steps=int(WARMUP * steps), max_grad_norm=1.0, save_strategy="no",
        report_to=[], disable_tqdm=True, use_cpu=True, logging_strategy="no",
    )  # fmt: skip
    return Trainer(model=model, args=arguments, train_dataset=data, data_collator=collator)


def classify(case: Case, rows: Any, model: str, folder: Path) -> float:
    """Their text classification."""
    from datasets import Dataset
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding

    tokenizer = AutoTokenizer.from_pretrained(model)
    names = sorted({row["label"] for row in rows["train"]})

    def encode(batch: Any) -> Any:
        labels = [names.index(label) for label in batch["label"]]
        return {**tokenizer(batch["text"], truncation=True, max_length=case.max_length), "labels": labels}

    sets = {
        n: Dataset.from_list(r).map(encode, batched=True, remove_columns=["text", "label"])
        for n, r in rows.items()
    }
    torch.manual_seed(case.seed)
    network = AutoModelForSequenceClassification.from_pretrained(model, num_labels=len(names))
    fitted = trainer(case, network, sets["train"], DataCollatorWithPadding(tokenizer), folder)
    fitted.train()
    found = fitted.predict(sets["validation"])
    return float((found.predictions.argmax(-1) == found.label_ids).mean())


def tag(case: Case, rows: Any, model: str, folder: Path) -> float:
    """Their token classification, labels on first pieces."""
    from datasets import Dataset
    from transformers import (
        AutoModelForTokenClassification,
        AutoTokenizer,
        DataCollatorForTokenClassification,
    )

    from tiryns.runner.evaluation.metrics import EntityScore

    tokenizer = AutoTokenizer.from_pretrained(model)
    names = sorted({label for row in rows["train"] for label in row["labels"]})

    def encode(batch: Any) -> Any:
        encoded = tokenizer(
            batch["words"], is_split_into_words=True, truncation=True, max_length=case.max_length
        )
        encoded["labels"] = []
        for i, labels in enumerate(batch["labels"]):
            words = encoded.word_ids(i)
            first = [w is not None and w != before for w, before in zip(words, [None, *words], strict=False)]
            encoded["labels"].append(
                [names.index(labels[w]) if f else -100 for w, f in zip(words, first, strict=True)]
            )
        return encoded

    sets = {
        n: Dataset.from_list(r).map(encode, batched=True, remove_columns=["id", "words"])
        for n, r in rows.items()
    }
    torch.manual_seed(case.seed)
    network = AutoModelForTokenClassification.from_pretrained(model, num_labels=len(names))
    fitted = trainer(case, network, sets["train"], DataCollatorForTokenClassification(tokenizer), folder)
    fitted.train()
    found = fitted.predict(sets["validation"])
    best, known = found.predictions.argmax(-1), found.label_ids != -100
    if case.metric == "accuracy":
        return float((best == found.label_ids)[known].mean())
    metric = EntityScore("f1", names)
    predicted = [[names[n] for n in row[k]] for row, k in zip(best, known, strict=True)]
    # words beyond the longest sample count as no entity
    true = [row["labels"] for row in rows["validation"]]
    metric.update([[*p, *["O"] * (len(t) - len(p))] for p, t in zip(predicted, true, strict=True)], true)
    return float(metric.compute())


def answer(case: Case, rows: Any, model: str, folder: Path) -> float:
    """Their question answering, as the library's example does it, padded to the longest of a batch."""
    from datasets import Dataset
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer, DataCollatorWithPadding

    tokenizer = AutoTokenizer.from_pretrained(model)

    def encode(batch: Any) -> Any:
        encoded = tokenizer(
            batch["question"], batch["context"], truncation="only_second", max_length=case.max_length,
            stride=DOC_STRIDE, return_overflowing_tokens=True, return_offsets_mapping=True,
        )  # fmt: skip
        owners = encoded.pop("overflow_to_sample_mapping")
        encoded["start_positions"], encoded["end_positions"], encoded["owner"] = [], [], owners
        for i, owner in enumerate(owners):
            given = batch["answers"][owner]
            begin, text = given["answer_start"][0], given["text"][0]
            inside = [n for n, s in enumerate(encoded.sequence_ids(i)) if s == 1]
            offsets = encoded["offset_mapping"][i]
            whole = offsets[inside[0]][0] <= begin and offsets[inside[-1]][1] >= begin + len(text)
            starts = [n for n in inside if offsets[n][0] <= begin]
            ends = [n for n in inside if offsets[n][1] >= begin + len(text)]
            encoded["start_positions"].append(starts[-1] if whole else 0)
            encoded["end_positions"].append(ends[0] if whole else 0)
            encoded["offset_mapping"][i] = [o if n in set(inside) else None for n, o in enumerate(offsets)]
        return encoded

    train = Dataset.from_list(rows["train"])
    data = train.map(encode, batched=True, remove_columns=train.column_names)
    data = data.remove_columns(["owner", "offset_mapping"])
    torch.manual_seed(case.seed)
    network = AutoModelForQuestionAnswering.from_pretrained(model)
    fitted = trainer(case, network, data, DataCollatorWithPadding(tokenizer), folder)
    fitted.train()
    columns = {name: [row[name] for row in rows["validation"]] for name in rows["validation"][0]}
    features = encode(columns)
    names = ("input_ids", "attention_mask", "token_type_ids")
    held_out = Dataset.from_dict({n: features[n] for n in names if n in features})
    starts, ends = fitted.predict(held_out).predictions[:2]
    return joined_f1(rows["validation"], features, starts, ends)


def joined_f1(rows: Any, features: Any, starts: Any, ends: Any) -> float:
    """F1 of the best of twenty starts times twenty ends over all windows of a question."""
    from tiryns.runner.evaluation.metrics import AnswerOverlap

    best: dict[int, tuple[float, str]] = {}
    for i, owner in enumerate(features["owner"]):
        offsets = features["offset_mapping"][i]
        for s in np.argsort(-starts[i])[:20]:
            for e in np.argsort(-ends[i])[:20]:
                if max(s, e) >= len(offsets) or None in (offsets[s], offsets[e]) or not 0 <= e - s < 30:
                    continue
                score = float(starts[i][s] + ends[i][e])
                if owner not in best or score > best[owner][0]:
                    best[owner] = (score, rows[owner]["context"][offsets[s][0] : offsets[e][1]])
    metric = AnswerOverlap("f1")
    metric.update(
        [best.get(i, (0.0, ""))[1] for i in range(len(rows))], [row["answers"]["text"] for row in rows]
    )
    return float(metric.compute())


THEIRS: dict[str, Callable[..., float]] = {
    "classification": classify,
    "token_classification": tag,
    "question_answering": answer,
}
