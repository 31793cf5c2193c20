"""`runner.modules.PretrainingModule`: validation, optimizers, checkpoints."""

import math
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from tests.documented.conftest import TrainerMaker
from tests.documented.notebook import SIZES, Noted, parameters, same
from tests.documented.training.conftest import data, new
from tiryns.runner.modules import PretrainingModule
from tiryns.runner.optim import OPTIMIZERS


def test_validation_step(tokenizer_folder: str, batch: dict[str, torch.Tensor]) -> None:
    module = new(tokenizer_folder).eval()
    assert float(module.validation_step(batch, 0)) == float(
        module.validation_step(batch, 0, dataloader_idx=1)
    )
    assert float(module.validation_step(batch, 0)) == pytest.approx(
        float(module.model.pretrained(**batch).loss), rel=1e-5
    )


def test_validation_loss_is_that_of_the_whole_set(
    trainer: TrainerMaker, text_lines: str, tokenizer_folder: str, tmp_path: Path
) -> None:
    """However it is cut into batches, whose numbers of targets differ."""
    module = new(tokenizer_folder)
    found = [
        trainer().validate(
            module,
            data(
                text_lines,
                tokenizer_folder,
                tmp_path,
                val_dataset_name_or_path=text_lines,
                val_batch_size=size,
            ),
            verbose=False,
        )[0]["val/loss"]
        for size in (40, 7)
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-5)


def test_configure_model_compiles_once(tokenizer_folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self, **options: compiled.append(self))
    module = new(tokenizer_folder, compile_model=True)
    assert not compiled
    module.configure_model()
    module.configure_model()
    assert compiled == [module.model.pretrained.base_model], "the compute core alone, once"
    new(tokenizer_folder).configure_model()
    assert len(compiled) == 1


def test_configure_optimizers(tokenizer_folder: str) -> None:
    module = new(tokenizer_folder, weight_decay=0.1)
    [optimizer], [scheduled] = module.configure_optimizers()
    assert scheduled["interval"] == "step"
    assert isinstance(scheduled["scheduler"], torch.optim.lr_scheduler.LRScheduler)
    decay = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    for name, parameter in module.named_parameters():
        if "bias" in name or "norm" in name.lower():
            assert decay[id(parameter)] == 0.0, name
    assert decay[id(module.model.pretrained.bert.encoder.layer[0].output.dense.weight)] == 0.1


def test_scheduler(trainer: TrainerMaker, text_lines: str, tokenizer_folder: str, tmp_path: Path) -> None:
    noted = Noted()
    module = new(
        tokenizer_folder, learning_rate=1.0, scheduler_warmup_steps=2, scheduler_warmup_decay=0.1,
        scheduler_cooldown_kind="inverse-sqrt", scheduler_cooldown_steps=2,
    )  # fmt: skip
    trainer(max_steps=7, callbacks=[noted]).fit(module, data(text_lines, tokenizer_folder, tmp_path))
    assert noted.rates == pytest.approx([0.1, 0.55, 1, 1, 1, 1, 1 - math.sqrt(0.5)])
    module = new(tokenizer_folder, scheduler_cooldown_steps=2)
    with pytest.raises(ValueError, match="cooldown_steps"):
        module.configure_optimizers()


def test_scheduler_as_documented_in_a_short_training(
    trainer: TrainerMaker, text_lines: str, tokenizer_folder: str, tmp_path: Path
) -> None:
    """The default warm-up of 1000 steps does not keep a Trainer from fewer."""
    noted = Noted()
    module = PretrainingModule(
        pretrained_tokenizer_name_or_path=tokenizer_folder, model_config_kwargs=SIZES, compile_model=False
    )
    trainer(max_steps=2, callbacks=[noted]).fit(module, data(text_lines, tokenizer_folder, tmp_path))
    assert noted.rates == pytest.approx([1e-6, 1e-6 + 9e-9])


@pytest.mark.rows(2)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(
    trainer: TrainerMaker, text_lines: str, tokenizer_folder: str, tmp_path: Path, name: str
) -> None:
    own: dict[str, dict[str, Any]] = {"lars": {"momentum": 0.9}, "adamw": {"betas": [0.5, 0.9]}}
    keywords = own.get(name, {})
    given = dict(keywords)
    module = new(tokenizer_folder, optimizer_class=name, optimizer_kwargs=keywords, learning_rate=1e-3)
    before, noted = parameters(module), Noted()
    made = data(text_lines, tokenizer_folder, tmp_path, val_dataset_name_or_path=text_lines)
    trainer(max_steps=2, callbacks=[noted]).fit(module, made)
    assert keywords == given
    assert not same(before, parameters(module))
    assert all(math.isfinite(loss) for loss in noted.losses)


def test_optimizer_unknown(tokenizer_folder: str) -> None:
    with pytest.raises(ValueError, match="adamw"):
        new(tokenizer_folder, optimizer_class="adamv")
    with pytest.raises(ValueError, match="beta"):
        new(tokenizer_folder, optimizer_kwargs={"beta": 1}).configure_optimizers()


def test_on_before_optimizer_step(
    trainer: TrainerMaker, text_lines: str, tokenizer_folder: str, tmp_path: Path
) -> None:
    runs = trainer(max_steps=1)
    module = new(tokenizer_folder)
    runs.fit(module, data(text_lines, tokenizer_folder, tmp_path))
    norm = torch.nn.utils.get_total_norm([p.grad for p in module.parameters() if p.grad is not None])
    assert float(runs.callback_metrics["optim/grad_norm"]) == pytest.approx(float(norm), rel=1e-5)


@pytest.mark.parametrize("objective", ["mlm", "enhanced_mlm"])
def test_on_save_checkpoint(
    trainer: TrainerMaker, text_lines: str, tokenizer_folder: str, tmp_path: Path, objective: str
) -> None:
    module = new(tokenizer_folder, learning_rate=1e-2, objective=objective)
    checkpoint = lightning.pytorch.callbacks.ModelCheckpoint(every_n_train_steps=2, save_top_k=-1)
    runs = trainer(max_steps=4, callbacks=[checkpoint])
    runs.fit(module, data(text_lines, tokenizer_folder, tmp_path, objective=objective))
    folders = sorted(path.parent for path in tmp_path.rglob("config.json") if "cache" not in path.parts)
    folders = [
        folder for folder in folders if not folder.name.startswith(("1_", "2_"))
    ]  # of sentence-transformers' pooling and normalising
    assert [folder.name for folder in folders] == ["step-00000002", "step-00000004"]
    loaded = AutoModelForMaskedLM.from_pretrained(folders[-1])
    assert same(parameters(loaded), parameters(module.model.pretrained))
    assert len(AutoTokenizer.from_pretrained(folders[-1])) == loaded.config.vocab_size
    first = AutoModelForMaskedLM.from_pretrained(folders[0])
    assert not same(parameters(first), parameters(loaded))


def test_gradient_checkpointing(tokenizer_folder: str, batch: dict[str, torch.Tensor]) -> None:
    plain, recomputing = new(tokenizer_folder), new(tokenizer_folder, gradient_checkpointing=True)
    assert not plain.model.pretrained.is_gradient_checkpointing
    assert recomputing.model.pretrained.is_gradient_checkpointing
    losses = [module.training_step(batch, 0) for module in (plain, recomputing)]
    assert float(losses[0]) == pytest.approx(float(losses[1]), rel=1e-6)
