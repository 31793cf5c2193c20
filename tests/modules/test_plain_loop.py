"""Finetuning against a plain loop of transformers over the same examples."""

from typing import Any

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer

from tests.modules.conftest import ROWS, Finetune
from tests.runs.test_train import losses
from tests.support.precision import rounding
from tiryns.runner.modules import FinetuningRun


@pytest.mark.rows(1)
@pytest.mark.parametrize("task", ["classification", "token_classification"])
def test_run_goes_as_a_plain_loop_of_transformers_does(
    finetune: Finetune, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    """The same examples through the library's model and loss, padded, with torch's optimizer, clipping and schedule."""
    from transformers import get_linear_schedule_with_warmup  # which imports PEFT

    seen: list[list[int]] = []
    first: dict[str, torch.Tensor] = {}
    step = FinetuningRun.training_step

    def noted(module: Any, batch: Any, number: int) -> Any:
        if not first:
            first.update({n: t.clone() for n, t in module.model.pretrained.state_dict().items()})
        seen.append([index for _, index in batch["sample_ids"].tolist()])
        return step(module, batch, number)

    monkeypatch.setattr(FinetuningRun, "training_step", noted)
    run = finetune(
        task, "trainer.max_steps=8", "trainer.validate_every=0", "scheduler=linear", "scheduler.warmup_steps=3",
        "optimizer.lr=0.003", "optimizer.weight_decay=0.1", "optimizer.decay_embeddings=true",
    )  # fmt: skip
    kind = {
        "classification": AutoModelForSequenceClassification,
        "token_classification": AutoModelForTokenClassification,
    }[task]
    model, tokenizer = (
        kind.from_pretrained(run.path / "model"),
        AutoTokenizer.from_pretrained(run.path / "model"),
    )
    model.load_state_dict(first)
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
            {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
        ],
        lr=0.003,
    )
    scheduler = get_linear_schedule_with_warmup(optimizer, 3, len(seen))
    examples = ROWS[task](60, 0)
    theirs = []
    for chosen in seen:
        theirs.append(plain_loss(model, tokenizer, [examples[i] for i in chosen]))
        theirs[-1].backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    ours = list(losses(run).values())
    assert [float(loss.detach()) for loss in theirs] == pytest.approx(ours, rel=rounding(1e-4, 1e-3))


def plain_loss(model: Any, tokenizer: Any, examples: list[dict[str, Any]]) -> torch.Tensor:
    """Of words their first pieces have a label."""
    named = model.config.label2id
    if "text" in examples[0]:
        inputs = tokenizer([e["text"] for e in examples], padding=True, return_tensors="pt")
        labels = torch.tensor([named[e["label"]] for e in examples])
    else:
        words = [e["words"] for e in examples]
        inputs = tokenizer(words, is_split_into_words=True, padding=True, return_tensors="pt")
        labels = torch.full(inputs["input_ids"].shape, -100)
        for row, example in enumerate(examples):
            places = inputs.word_ids(row)
            for word, label in enumerate(example["labels"]):
                labels[row, places.index(word)] = named[label]
    return model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], labels=labels).loss
