"""Finetuning with low-rank adapters: against a plain loop of peft, stopped and resumed, exported, and in every task."""

import json
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from tests.conftest import train_here
from tests.modules.conftest import ROWS, TASKS, Finetune
from tests.modules.test_finetuning import continued, weights
from tests.modules.test_plain_loop import plain_loss
from tests.runs.test_train import losses
from tests.support.precision import BF16, rounding
from tiryns.runner.modules import FinetuningRun
from tiryns.runner.opened_run import open_run
from tiryns.runner.run.folder import Run

LORA = ["model.adapter=lora", "model.adapter_rank=4", "model.adapter_alpha=16"]
QUICK = ["trainer.max_steps=6", "trainer.validate_every=3", "data.test=null"]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Run:
    """A pretraining run to start from."""
    folder = tmp_path_factory.mktemp("adapted") / "base"
    return train_here(folder, text_file, "trainer.max_steps=2", "trainer.validate_every=0")


@pytest.mark.slow
def test_run_goes_as_a_plain_loop_of_peft_does(
    finetune: Finetune, base: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same examples and first weights, padded, with peft's model and loss and torch's optimizer and clipping."""
    seen: list[list[int]] = []
    first: dict[str, torch.Tensor] = {}
    step = FinetuningRun.training_step

    def noted(module: Any, batch: Any, number: int) -> Any:
        if not first:
            first.update({n: p.detach().clone() for n, p in module.model.pretrained.named_parameters()})
        seen.append([index for _, index in batch["sample_ids"].tolist()])
        return step(module, batch, number)

    monkeypatch.setattr(FinetuningRun, "training_step", noted)
    run = finetune(
        "classification", *LORA, "model.adapter_targets=[query,value]", *QUICK, "optimizer.weight_decay=0.1", start=base
    )  # fmt: skip
    folder = base.path / "model"
    labels = json.loads((run.path / "model" / "config.json").read_text())["label2id"]
    plain = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=len(labels))
    plain.config.label2id = labels
    saved = ["bert.pooler", "classifier"]
    config = peft.LoraConfig(r=4, lora_alpha=16, target_modules=["query", "value"], modules_to_save=saved)
    model: Any = peft.get_peft_model(plain, config)
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    with torch.no_grad():
        for name, parameter in trained.items():
            parameter.copy_(
                first[name.removeprefix("base_model.model.").replace(".modules_to_save.default", "")]
            )
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in trained.values() if p.dim() > 1], "weight_decay": 0.1},
            {"params": [p for p in trained.values() if p.dim() < 2], "weight_decay": 0.0},
        ],
        lr=0.01,
    )
    model.train()
    tokenizer, examples = AutoTokenizer.from_pretrained(folder), ROWS["classification"](60, 0)
    theirs = []
    for chosen in seen:
        loss = plain_loss(model, tokenizer, [examples[i] for i in chosen])
        theirs.append(float(loss.detach()))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(trained.values()), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    assert theirs == pytest.approx(list(losses(run).values()), rel=rounding(1e-5, 1e-2))
    if not BF16:
        ours = weights(run, "last.ckpt")
        for name, parameter in trained.items():
            inner = name.removeprefix("base_model.model.").replace(".modules_to_save.default", "")
            torch.testing.assert_close(
                ours[f"model.pretrained.{inner}"], parameter.detach(), atol=1e-5, rtol=1e-4
            )


CASES = [("classification", "separate"), ("classification", "merged")]
CASES += [(task, export) for task in TASKS if task != "classification" for export in ("merged", "separate")]


@pytest.mark.parametrize(
    ("task", "export"), [CASES[0], *(pytest.param(*case, marks=pytest.mark.slow) for case in CASES[1:])]
)
def test_export_predicts_as_the_run_did(finetune: Finetune, base: Run, task: str, export: str) -> None:
    run = finetune(
        task, *LORA, *QUICK, f"model.adapter_export={export}", "trainer.precision=32-true", start=base
    )
    before, after = weights(base, "last.ckpt"), weights(run, "last.ckpt")
    frozen = [name for name in after if "base_layer" in name or "embeddings" in name]
    assert len(frozen) > 20
    assert all(torch.equal(after[n], before[n.replace(".base_layer", "")]) for n in frozen)
    assert (run.path / "model" / "adapter_config.json").exists() is (export == "separate")
    assert (run.path / "model" / "model.safetensors").exists() is (export == "merged")
    card = (run.path / "model" / "README.md").read_text()
    code = card.split("```python\n")[1].split("```")[0].replace("<this folder>", str(run.path / "model"))
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["model"].config.architectures or export == "separate"
    lines = [json.loads(line) for line in (run.path / "predictions.jsonl").read_text().splitlines()]
    rows = ROWS[task](23, 1)
    found = open_run(run.path).predict(
        [{k: v for k, v in row.items() if not k.startswith("label")} for row in rows]
    )
    assert len(found) == len(lines) == 23
    assert [one["predicted"] for one in found] == [line["predicted"] for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_resumed_run_is_bitwise_the_undisturbed_one(finetune: Finetune, base: Run, layout: str) -> None:
    settings = [
        *LORA, *QUICK, "model.adapter_dropout=0.2", f"data.layout={layout}", "checkpoint.every_steps=2",
        "checkpoint.keep_last=9", "module.ema=0.9",
    ]  # fmt: skip
    run = finetune("classification", *settings, start=base)
    continued(run, 4, "resumed")
    resumed = finetune("classification", *settings, folder="resumed", start=base)
    last = "step-00000006.ckpt"
    assert all(torch.equal(w, weights(resumed, last)[name]) for name, w in weights(run, last).items())
    assert losses(run) == losses(resumed)
    other = finetune("classification", *settings, "seed=43", folder="other", start=base)
    assert losses(other) != losses(run)


@pytest.mark.slow
def test_layouts_and_micro_batches_train_alike(finetune: Finetune, base: Run) -> None:
    settings = [*LORA, *QUICK, "model.adapter_dropout=0.2"]
    packed = finetune("classification", *settings, "data.layout=packed", start=base)
    for number, cut in enumerate(["data.layout=padded", "data.micro_batch_tokens=100"]):
        other = finetune("classification", *settings, cut, folder=f"cut{number}", start=base)
        assert losses(other) == pytest.approx(losses(packed), rel=rounding(1e-4, 2e-2))


@pytest.mark.slow
def test_an_adapter_is_merged_before_another_run_starts_from_it(finetune: Finetune, base: Run) -> None:
    first = finetune("classification", *LORA, *QUICK, "model.adapter_export=separate", start=base)
    second = finetune(
        "classification", *LORA, "optimizer.lr=0", "trainer.max_steps=3", folder="second", start=first
    )
    last, begun = (run.status["results"]["val/validation/loss"] for run in (first, second))
    assert begun == pytest.approx(last, rel=rounding(1e-5, 1e-2))
    assert "lora_A" in " ".join(weights(second, "last.ckpt"))
