"""`runner.modules.FinetuningModule` with `runner.data.FinetuningDataModule` and a plain Trainer."""

import inspect
import math
from typing import Any

import lightning
import pytest
import torch
from torch.utils.data import DataLoader
from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
)

from tests.data.labelled.tasks import questions, sentences, texts
from tests.documented.conftest import TrainerMaker
from tests.documented.notebook import Noted, parameters, same
from tiryns.runner.data import FinetuningDataModule
from tiryns.runner.modules import FinetuningModule
from tiryns.runner.objectives import get_collator_cls

DEFAULTS: dict[str, Any] = {
    "task": inspect.Parameter.empty, "pretrained_model_name_or_path": inspect.Parameter.empty, "num_labels": None,
    "learning_rate": 1e-5, "weight_decay": 0.01, "compile_model": True, "optimizer_class": "adamw",
    "optimizer_kwargs": None, "optimizer_quantized": False, "scheduler_type": None, "scheduler_kwargs": None,
    "warmup_steps": 0, "warmup_ratio": 0.0, "gradient_checkpointing": False,
}  # fmt: skip
TASKS: dict[str, dict[str, Any]] = {
    "classification": {"rows": texts, "num_labels": 3, "columns": {}, "auto": AutoModelForSequenceClassification},
    "token_classification": {
        "rows": sentences, "num_labels": 4, "columns": {"text_column": "words", "label_column": "labels"},
        "auto": AutoModelForTokenClassification,
    },
    "question_answering": {
        "rows": questions, "num_labels": None,
        "columns": {"text_column": "question", "label_column": "answers", "collator_kwargs": {"doc_stride": 8}},
        "auto": AutoModelForQuestionAnswering,
    },
}  # fmt: skip


def new(task: str, encoder_folder: str, **options: Any) -> FinetuningModule:
    torch.manual_seed(0)
    made: dict[str, Any] = {"num_labels": TASKS[task]["num_labels"], "compile_model": False, **options}
    return FinetuningModule(task, encoder_folder, **made)  # type: ignore[arg-type]


def data(task: str, encoder_folder: str, train: int = 16, **options: Any) -> FinetuningDataModule:
    given = {**TASKS[task]["columns"], "max_sequence_length": 48, "train_batch_size": 8, "val_batch_size": 6}
    made = FinetuningDataModule(task, encoder_folder, **{**given, **options})
    rows = TASKS[task]["rows"]
    made.set_datasets(rows(train, 0), rows(13, 1), rows(11, 2))
    return made


def test_signature(encoder_folder: str) -> None:
    documented = inspect.signature(FinetuningModule).parameters
    assert [(name, documented[name].default) for name in documented] == [*DEFAULTS.items()]
    assert issubclass(FinetuningModule, lightning.LightningModule)
    with pytest.raises(ValueError, match="token_classification, question_answering"):
        FinetuningModule("summarisation", encoder_folder)  # type: ignore[arg-type]


@pytest.mark.rows(1)
@pytest.mark.parametrize("task", TASKS)
def test_task_fits_and_tests(trainer: TrainerMaker, encoder_folder: str, task: str) -> None:
    module, made = new(task, encoder_folder, learning_rate=1e-2), data(task, encoder_folder)
    before = parameters(module)
    runs = trainer(max_epochs=1)
    runs.fit(module, made)
    assert not same(before, parameters(module))
    logged = {name: float(value) for name, value in runs.callback_metrics.items()}
    [tested] = runs.test(module, made, verbose=False)
    metric = {"question_answering": "f1", "token_classification": "entity_f1"}.get(task, "macro_f1")
    accuracy = "exact_match" if task == "question_answering" else "accuracy"
    assert {"train/loss", "val/loss", f"val/{accuracy}", f"val/{metric}"} <= set(logged)
    assert {"test/loss", f"test/{accuracy}", f"test/{metric}"} <= set(tested)
    assert all(math.isfinite(value) for value in [*logged.values(), *tested.values()])


@pytest.mark.rows(1)
@pytest.mark.parametrize("task", TASKS)
def test_metrics_are_those_of_the_whole_set(trainer: TrainerMaker, encoder_folder: str, task: str) -> None:
    """However it is cut into batches."""
    module, sets = new(task, encoder_folder), [data(task, encoder_folder, val_batch_size=n) for n in (100, 3)]
    whole, parts = (trainer().validate(module, made, verbose=False)[0] for made in sets)
    assert whole == pytest.approx(parts, rel=1e-4)


def test_metrics_of_questions_join_windows(trainer: TrainerMaker, encoder_folder: str) -> None:
    """A question is right or wrong once, however many windows it has."""
    made = data("question_answering", encoder_folder)
    made.setup()
    assert len(made.sets["val"]) > len(made.sets["val"].examples) == 13
    module = new("question_answering", encoder_folder)
    [found] = trainer().validate(module, made, verbose=False)
    assert (found["val/exact_match"] * 13) % 1 == pytest.approx(0, abs=1e-5)


def plain_batch(task: str, encoder_folder: str) -> tuple[list[dict[str, Any]], Any]:
    """Samples as a fast tokenizer makes them, and the collator."""
    tokenizer = AutoTokenizer.from_pretrained(encoder_folder)
    ids = (tokenizer.pad_token_id, tokenizer.mask_token_id, len(tokenizer))
    collator = get_collator_cls(task)(
        *ids, special_token_ids=[tokenizer.cls_token_id, tokenizer.sep_token_id]
    )
    samples: list[dict[str, Any]] = []
    for row in TASKS[task]["rows"](12, 0):
        if task == "classification":
            samples.append(
                {**tokenizer(row["text"]), "label": ["birds", "none", "stones"].index(row["label"])}
            )
        elif task == "token_classification":
            made = tokenizer(row["words"], is_split_into_words=True)
            words = made.word_ids()
            first = [w is not None and w != before for w, before in zip(words, [None, *words], strict=False)]
            tags = ["O", "B-ANIMAL", "B-PLACE", "I-PLACE"]
            labels = [tags.index(row["labels"][w]) if f else -100 for w, f in zip(words, first, strict=True)]
            samples.append({**made, "labels": labels})
        else:
            made = tokenizer(
                row["question"], row["context"], truncation="only_second", max_length=48, return_offsets_mapping=True,
                return_token_type_ids=True,
            )  # fmt: skip
            samples.append({**made, "answers": row["answers"]})
    return samples, collator


@pytest.mark.rows(1)
@pytest.mark.parametrize("task", TASKS)
def test_steps(trainer: TrainerMaker, encoder_folder: str, task: str) -> None:
    """On plain loaders of collator batches: the loss is that of transformers, the mean per target."""
    samples, collator = plain_batch(task, encoder_folder)
    module = new(task, encoder_folder).eval()
    batch = collator(samples)
    alone = [
        module.model.pretrained(**collator([sample])).loss for sample in samples
    ]  # where nothing is padded
    weights = torch.ones(12)
    if task == "token_classification":
        weights = (batch["labels"] != -100).sum(1).float()
    expected = float((torch.stack(alone).detach() * weights).sum() / weights.sum())
    for step in (module.training_step, module.validation_step, module.test_step):
        assert float(step(batch, 0).detach()) == pytest.approx(expected, rel=1e-4)
    loader: Any = DataLoader(samples, batch_size=5, collate_fn=collator)  # type: ignore[arg-type]
    runs = trainer(max_epochs=1)
    runs.fit(module, loader, loader)
    assert runs.global_step == 3
    assert runs.callback_metrics["val/loss"] > 0
    [tested] = runs.test(module, loader, verbose=False)
    assert ("test/f1" if task == "question_answering" else "test/accuracy") in tested


def test_numbers_and_several_labels(trainer: TrainerMaker, encoder_folder: str) -> None:
    """The type of the labels says what kind of problem it is."""
    tokenizer = AutoTokenizer.from_pretrained(encoder_folder)
    ids = (tokenizer.pad_token_id, tokenizer.mask_token_id, len(tokenizer))
    cases: Any = ([[1.0, 0, 1], [0, 0, 1]], 3, "micro_f1"), ([0.5, 100.7], 1, "pearson")
    for labels, num_labels, figure in cases:
        samples: Any = [{**tokenizer(row["text"]), "label": labels[i % 2]} for i, row in enumerate(texts(6))]
        collator = get_collator_cls("classification")(*ids)
        module = new("classification", encoder_folder, num_labels=num_labels).eval()
        loader = DataLoader(samples, batch_size=3, collate_fn=collator)
        expected = float(module.model.pretrained(**collator(samples)).loss.detach())
        for precision in ("32-true", "bf16-true"):  # in bf16 the label 100.7 would be 100.5
            [found] = trainer(precision=precision).validate(module, loader, verbose=False)
            assert found["val/loss"] == pytest.approx(expected, rel=1e-3)
            assert f"val/{figure}" in found
    with pytest.raises(ValueError, match="the labels are numbers: set num_labels=1"):
        new("classification", encoder_folder).training_step(collator(samples), 0)


def rates(trainer: TrainerMaker, encoder_folder: str, steps: int = 4, **options: Any) -> list[float]:
    noted = Noted()
    module = new("classification", encoder_folder, learning_rate=2.0, optimizer_class="sgd", **options)
    trainer(max_steps=steps, callbacks=[noted], limit_val_batches=0).fit(
        module, data("classification", encoder_folder)
    )
    return [rate / 2 for rate in noted.rates]


SCHEDULES: list[tuple[dict[str, Any], list[float]]] = [
    ({"scheduler_type": "linear"}, [1, 0.75, 0.5, 0.25]),
    ({"scheduler_type": "cosine"}, [1, 0.853553, 0.5, 0.146447]),
    ({"scheduler_type": "polynomial", "scheduler_kwargs": {"power": 2}}, [1, 0.5625, 0.25, 0.0625]),
    ({"scheduler_type": "polynomial"}, [1, 0.75, 0.5, 0.25]),
    ({"scheduler_type": "polynomial", "scheduler_kwargs": {"lr_end": 1.0}}, [1, 0.875, 0.75, 0.625]),
    ({"scheduler_type": "constant"}, [1, 1, 1, 1]),
    ({}, [1, 1, 1, 1]),
]


@pytest.mark.rows(2)
@pytest.mark.parametrize(("options", "expected"), SCHEDULES)
def test_scheduler_type_and_kwargs(
    trainer: TrainerMaker, encoder_folder: str, options: dict[str, Any], expected: list[float]
) -> None:
    assert rates(trainer, encoder_folder, **options) == pytest.approx(expected, abs=1e-5)


def test_scheduler_unknown(encoder_folder: str) -> None:
    with pytest.raises(ValueError, match="linear, cosine, polynomial"):
        new("classification", encoder_folder, scheduler_type="linaer")
    with pytest.raises(ValueError, match="power"):
        new("classification", encoder_folder, scheduler_type="polynomial", scheduler_kwargs={"powr": 2})


def test_scheduler_goes_over_the_epochs(trainer: TrainerMaker, encoder_folder: str) -> None:
    """Without `max_steps` the steps are those of the epochs."""
    noted = Noted()
    module = new("classification", encoder_folder, learning_rate=1.0, scheduler_type="linear")
    trainer(max_epochs=2, callbacks=[noted], limit_val_batches=0).fit(
        module, data("classification", encoder_folder)
    )
    assert noted.rates == pytest.approx([1, 0.75, 0.5, 0.25])


@pytest.mark.rows(1)
@pytest.mark.parametrize("warmup", [{"warmup_steps": 2}, {"warmup_ratio": 0.5}])
def test_warmup_steps_and_ratio(trainer: TrainerMaker, encoder_folder: str, warmup: dict[str, Any]) -> None:
    found = rates(trainer, encoder_folder, scheduler_type="linear", **warmup)
    assert found == pytest.approx([0, 0.5, 1, 0.5])
    assert rates(trainer, encoder_folder, **warmup) == pytest.approx([0, 0.5, 1, 1])


def test_configure_optimizers(encoder_folder: str) -> None:
    module = new("classification", encoder_folder, weight_decay=0.1)
    optimizer = module.configure_optimizers()
    assert isinstance(optimizer, torch.optim.AdamW)
    decay = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    for name, parameter in module.named_parameters():
        vector = "bias" in name or "norm" in name.lower()
        assert vector == (decay[id(parameter)] == 0.0) or "embeddings" in name, name
    keywords = {"betas": [0.5, 0.9]}
    module = new("classification", encoder_folder, optimizer_kwargs=keywords, warmup_steps=3)
    made = module.configure_optimizers()
    assert set(made) == {"optimizer", "lr_scheduler"}
    assert made["lr_scheduler"]["interval"] == "step"
    assert keywords == {"betas": [0.5, 0.9]}


@pytest.mark.slow
def test_num_labels_gradient_checkpointing_compile_model(
    trainer: TrainerMaker, encoder_folder: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert new("classification", encoder_folder, num_labels=None).model.pretrained.config.num_labels == 2
    five = new("classification", encoder_folder, num_labels=5)
    assert five.model.pretrained.classifier.out_features == five.model.pretrained.config.num_labels == 5
    five.model.pretrained.save_pretrained(tmp_path)
    again = new("classification", str(tmp_path), num_labels=None).model.pretrained  # a trained head goes on
    assert torch.equal(again.classifier.weight, five.model.pretrained.classifier.weight)
    assert new("classification", str(tmp_path), num_labels=3).model.pretrained.classifier.out_features == 3
    with pytest.raises(ValueError, match="num_labels=3"):
        trainer(max_steps=1).fit(
            new("classification", encoder_folder, num_labels=2), data("classification", encoder_folder)
        )
    recomputing = new("classification", encoder_folder, gradient_checkpointing=True)
    assert recomputing.model.pretrained.is_gradient_checkpointing
    compiled: list[Any] = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self, **options: compiled.append(self))
    module = new("classification", encoder_folder, compile_model=True)
    assert not compiled
    module.configure_model()
    module.configure_model()
    assert compiled == [module.model.pretrained.base_model], "the compute core alone, once"


@pytest.mark.rows(1)
@pytest.mark.parametrize("task", TASKS)
def test_checkpoints(trainer: TrainerMaker, encoder_folder: str, tmp_path: Any, task: str) -> None:
    """A Hugging Face folder beside each, `load_from_checkpoint`, and `fit(ckpt_path=...)`."""

    def fit(steps: int, path: Any = None) -> tuple[Noted, FinetuningModule, lightning.Trainer]:
        noted = Noted()
        module = new(task, encoder_folder, learning_rate=1e-2, warmup_steps=2)
        runs = trainer(max_steps=steps, callbacks=[noted], limit_val_batches=0)
        runs.fit(module, data(task, encoder_folder, train_batch_size=10), ckpt_path=path)
        return noted, module, runs

    whole, module, _ = fit(5)
    first, stopped, runs = fit(3)
    runs.save_checkpoint(path := tmp_path / "three.ckpt")
    rest, resumed, _ = fit(5, path)
    assert same(whole.batches, first.batches + rest.batches)
    assert same(parameters(module), parameters(resumed))
    loaded = FinetuningModule.load_from_checkpoint(path)
    other = data(task, encoder_folder, train_batch_size=3)
    trainer().validate(new(task, encoder_folder), other, ckpt_path=path, verbose=False)
    assert same(parameters(loaded), parameters(stopped))
    folder = tmp_path / "huggingface" / "step-00000003"
    exported = TASKS[task]["auto"].from_pretrained(folder)
    assert same(parameters(exported), parameters(stopped.model.pretrained))
    if task == "classification":
        assert exported.config.id2label == {0: "birds", 1: "none", 2: "stones"}
    assert len(AutoTokenizer.from_pretrained(folder)) == exported.config.vocab_size
