"""`runner.modules.PretrainingModule` with `runner.data.PretrainingDataModule` and a plain Trainer."""

import inspect
import math
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from lightning.pytorch.plugins import MixedPrecision
from torch.utils.data import DataLoader
from transformers import AutoTokenizer

from tests.documented.conftest import TrainerMaker
from tests.documented.notebook import SIZES, TEXTS, Noted, parameters, same
from tests.documented.training.conftest import collator, data, new
from tiryns.runner.modules import PretrainingModule

DEFAULTS: dict[str, Any] = {
    "learning_rate": 1e-5, "weight_decay": 1e-3, "compile_model": True, "pretrained_tokenizer_name_or_path": None,
    "optimizer_class": "adamw", "optimizer_quantized": False, "optimizer_kwargs": None,
    "scheduler_warmup_kind": "linear", "scheduler_warmup_steps": 1000, "scheduler_warmup_decay": 0.1,
    "scheduler_training_kind": "constant", "scheduler_training_steps": -1, "scheduler_training_decay": 1.0,
    "scheduler_cooldown_kind": "linear", "scheduler_cooldown_steps": 0, "scheduler_cooldown_decay": 0.0,
    "objective": "mlm", "gradient_checkpointing": False, "model_config_kwargs": None, "model_kwargs": None,
}  # fmt: skip


def test_signature() -> None:
    documented = inspect.signature(PretrainingModule).parameters
    assert {n: p.default for n, p in list(documented.items())[: len(DEFAULTS)]} == DEFAULTS
    assert list(documented)[: len(DEFAULTS)] == list(DEFAULTS)
    assert all(p.default is not p.empty for p in documented.values())
    assert issubclass(PretrainingModule, lightning.LightningModule)


def test_none_where_allowed(tokenizer_folder: str) -> None:
    module = new(
        tokenizer_folder, learning_rate=None, weight_decay=None, compile_model=None, optimizer_class=None,
        scheduler_warmup_kind=None, scheduler_warmup_steps=None,
    )  # fmt: skip
    [optimizer], [scheduled] = module.configure_optimizers()
    assert isinstance(optimizer, torch.optim.AdamW)
    assert {group["weight_decay"] for group in optimizer.param_groups} == {0.0}
    default = inspect.signature(torch.optim.AdamW).parameters["lr"].default
    assert optimizer.param_groups[0]["lr"] == default
    assert scheduled["scheduler"].factor(0) == 1.0
    assert not module.compile_model


@pytest.mark.parametrize(
    "architecture",
    ["bert", "modernbert", "eurobert", "roberta", "electra", "deberta-v2", "gpt_bert", "crammed_bert"],
)
def test_small_vocabulary_without_tokenizer_leaves_out_special_ids_beyond_it(architecture: str) -> None:
    sizes = {
        **SIZES, "num_hidden_layers": 2, "num_attention_heads": 2, "architecture": architecture,
        "vocab_size": 30,
    }  # fmt: skip
    module = new(None, model_config_kwargs=sizes)
    config = module.model.pretrained.config
    for role in ("pad", "bos", "eos", "cls", "sep"):
        assert (getattr(config, f"{role}_token_id", None) or 0) < 30, role
    batch = {"input_ids": torch.randint(4, 30, (2, 9)), "attention_mask": torch.ones(2, 9, dtype=torch.int64)}
    assert module.training_step({**batch, "labels": batch["input_ids"]}, 0).isfinite()
    message = r"model\.config\.pad_token_id=30 is beyond the vocabulary: expected 0 to 29"
    with pytest.raises(ValueError, match=message):
        new(None, model_config_kwargs={**sizes, "pad_token_id": 30})


def test_pretrained_tokenizer_name_or_path_and_model_config_kwargs(tokenizer_folder: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    module = new(tokenizer_folder, model_kwargs={"attn_implementation": "eager"})
    config = module.model.pretrained.config
    assert (config.model_type, config.hidden_size, config.num_hidden_layers) == ("bert", 16, 1)
    assert config.vocab_size == len(tokenizer)
    assert config.pad_token_id == tokenizer.pad_token_id
    assert config.mask_token_id == tokenizer.mask_token_id
    assert config._attn_implementation == "eager"
    other = new(
        None, model_config_kwargs={**SIZES, "architecture": "distilbert", "vocab_size": 77, "dropout": 0.1}
    )
    assert (other.model.pretrained.config.model_type, other.model.pretrained.config.vocab_size) == (
        "distilbert",
        77,
    )
    layer_norm_eps = new(tokenizer_folder, model_config_kwargs={**SIZES, "layer_norm_eps": 1e-5})
    assert layer_norm_eps.model.pretrained.config.layer_norm_eps == 1e-5
    with pytest.raises(ValueError, match="vocab_size"):
        new(None)
    with pytest.raises(ValueError, match="hiden_size"):
        new(tokenizer_folder, model_config_kwargs={**SIZES, "hiden_size": 3})
    with pytest.raises(ValueError, match="mask_token_id"):
        new(None, objective="diffusion", model_config_kwargs={**SIZES, "vocab_size": 77})


@pytest.mark.rows(1)
@pytest.mark.parametrize("objective", ["mlm", "enhanced_mlm", "diffusion"])
def test_objective_fits(
    trainer: TrainerMaker, text_lines: str, tokenizer_folder: str, tmp_path: Path, objective: str
) -> None:
    module = new(tokenizer_folder, objective=objective, learning_rate=1e-2)
    before, noted = parameters(module), Noted()
    made = data(
        text_lines, tokenizer_folder, tmp_path, objective=objective, val_dataset_name_or_path=[text_lines] * 2
    )
    runs = trainer(max_steps=3, callbacks=[noted], val_check_interval=3, check_val_every_n_epoch=None)
    runs.fit(module, made)
    assert runs.global_step == len(noted.losses) == 3
    assert all(math.isfinite(loss) and 0 < loss < 10 for loss in noted.losses)
    assert not same(before, parameters(module))
    logged = {name: float(value) for name, value in runs.callback_metrics.items()}
    assert {"train/loss", "val/texts_1/loss", "val/texts_2/loss"} <= set(logged)
    assert all(math.isfinite(value) for value in logged.values())


def test_objective_unknown(tokenizer_folder: str) -> None:
    with pytest.raises(ValueError, match="enhanced_mlm, diffusion"):
        new(tokenizer_folder, objective="clm")


def test_training_step(tokenizer_folder: str, batch: dict[str, torch.Tensor], trainer: TrainerMaker) -> None:
    module = new(tokenizer_folder, learning_rate=1e-2)
    loss = module.training_step(batch, 0)
    expected = module.model.pretrained(**batch).loss
    assert float(loss.detach()) == pytest.approx(float(expected), rel=1e-5), (
        "the mean per target, as transformers has it"
    )
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    samples: Any = [dict(tokenizer(text)) for text in TEXTS[:12]]
    loader = DataLoader(samples, batch_size=4, collate_fn=collator(tokenizer_folder))
    runs = trainer(max_epochs=1)
    runs.fit(module, loader)
    assert runs.global_step == 3


def test_training_step_of_diffusion_weighs_by_time(tokenizer_folder: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    torch.manual_seed(0)
    made = collator(tokenizer_folder, "diffusion")([dict(tokenizer(text)) for text in TEXTS[:6]])
    module = new(tokenizer_folder, objective="diffusion")
    logits = module.model.pretrained(
        input_ids=made["input_ids"], attention_mask=made["attention_mask"]
    ).logits
    logits[..., tokenizer.all_special_ids] = -math.inf
    losses = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), made["labels"].flatten(), reduction="none"
    )
    expected = (losses * made["target_weights"].flatten()).sum() / made["weight"]
    assert float(module.training_step(made, 0).detach()) == pytest.approx(float(expected), rel=1e-5)


def test_training_step_of_enhanced_mlm_masks_by_itself(tokenizer_folder: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    made = collator(tokenizer_folder, "enhanced_mlm")([dict(tokenizer(text)) for text in TEXTS[:6]])
    module = new(tokenizer_folder, objective="enhanced_mlm")
    bare = {name: made[name] for name in ("input_ids", "attention_mask", "labels")}
    torch.manual_seed(1)
    first = module.training_step(bare, 0)
    second = module.training_step(bare, 0)
    torch.manual_seed(1)
    again = module.training_step(bare, 0)
    assert float(first) == float(again) != float(second)


def test_under_trainer_accumulates(
    trainer: TrainerMaker, text_lines: str, tokenizer_folder: str, tmp_path: Path
) -> None:
    """Two batches of four targets each are a step on their mean."""
    module = new(
        tokenizer_folder, optimizer_class="sgd", learning_rate=0.5, optimizer_kwargs={"momentum": 0.0}
    )
    made = data(text_lines, tokenizer_folder, tmp_path, train_batch_size=4)
    made.prepare_data()
    batches = iter(made.train_dataloader())
    start = parameters(module)
    loss = (module.training_step(next(batches), 0) + module.training_step(next(batches), 1)) / 2
    gradients = torch.autograd.grad(loss, list(module.parameters()), allow_unused=True)
    runs = trainer(max_steps=1, accumulate_grad_batches=2)
    runs.fit(module, data(text_lines, tokenizer_folder, tmp_path, train_batch_size=4))
    assert runs.global_step == 1
    progress: Any = runs.fit_loop.epoch_loop.batch_progress.current
    assert progress.processed == 2
    decayed = {id(p) for g in runs.optimizers[0].param_groups if g["weight_decay"] for p in g["params"]}
    for parameter, before, gradient in zip(module.parameters(), start, gradients, strict=True):
        if gradient is not None and id(parameter) not in decayed:
            torch.testing.assert_close(parameter.detach(), before - 0.5 * gradient, rtol=1e-4, atol=1e-6)


def test_under_trainer_clips(
    trainer: TrainerMaker, text_lines: str, tokenizer_folder: str, tmp_path: Path
) -> None:
    options = {
        "optimizer_class": "sgd",
        "learning_rate": 1.0,
        "weight_decay": 0.0,
        "optimizer_kwargs": {"momentum": 0.0},
    }
    moved = []
    for limit in (None, 1e-3):
        module = new(tokenizer_folder, **options)
        before = parameters(module)
        trainer(max_steps=1, gradient_clip_val=limit).fit(
            module, data(text_lines, tokenizer_folder, tmp_path)
        )
        change = [a - b for a, b in zip(parameters(module), before, strict=True)]
        moved.append(float(torch.nn.utils.get_total_norm(change)))
    assert moved[0] > 0.1
    assert moved[1] == pytest.approx(1e-3, rel=1e-2)


def test_norm_of_fp16_gradients_is_logged_without_the_scale_of_the_loss(
    trainer: TrainerMaker, text_lines: str, tokenizer_folder: str, tmp_path: Path
) -> None:
    scaler, norms = torch.amp.GradScaler("cpu", init_scale=1024.0), []
    for plugins in ([], [MixedPrecision("16-mixed", "cpu", scaler)]):
        runs = trainer(max_steps=1, plugins=plugins)
        runs.fit(new(tokenizer_folder), data(text_lines, tokenizer_folder, tmp_path))
        norms.append(float(runs.callback_metrics["optim/grad_norm"]))
    assert norms[1] == pytest.approx(norms[0], rel=0.02)


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    ("lengths", "options"),
    [
        ([{"max_epochs": 1}, {"max_epochs": 2}], {"shuffle": True}),
        ([{"limit_train_batches": 2, "max_steps": n} for n in (2, 5)], {"shuffle": True}),
        ([{"limit_val_batches": 0, "max_steps": n} for n in (3, 7)], {"shuffle": True}),
        ([{"limit_train_batches": 2, "max_epochs": n} for n in (1, 2)], {"shuffle": True}),
        ([{"max_steps": 3}, {"max_steps": 7}], {"streaming": True, "shuffle": True}),
        ([{"max_steps": 4}, {"max_steps": 7}], {"packing": True, "train_batch_size": 2}),
    ],
)
def test_under_trainer_resumes(
    trainer: TrainerMaker, text_lines: str, tokenizer_folder: str, tmp_path: Path, lengths: Any, options: Any
) -> None:
    """A run stopped in a pass or after it goes on with the same batches to the same weights."""
    arguments = {"train_batch_size": 16, "shuffle_buffer_size": 10, **options}

    def fit(length: Any, path: str | None = None) -> tuple[Noted, PretrainingModule, lightning.Trainer]:
        noted = Noted()
        module = new(tokenizer_folder, learning_rate=1e-2, scheduler_warmup_steps=4)
        runs = trainer(**length, callbacks=[noted])
        runs.fit(module, data(text_lines, tokenizer_folder, tmp_path, **arguments), ckpt_path=path)
        return noted, module, runs

    first, _, runs = fit(lengths[0])
    path = str(tmp_path / "first.ckpt")
    runs.save_checkpoint(path)
    (whole, module, _), (rest, resumed, _) = fit(lengths[1]), fit(lengths[1], path)
    assert same(whole.batches, first.batches + rest.batches)
    assert whole.rates == first.rates + rest.rates
    assert same(parameters(module), parameters(resumed))
    arguments["train_batch_size"] = 5
    with pytest.raises(ValueError, match=r"train_batch_size was .* and is 5"):
        fit(lengths[1], path)


def test_load_from_checkpoint(
    trainer: TrainerMaker,
    text_lines: str,
    tokenizer_folder: str,
    tmp_path: Path,
    batch: dict[str, torch.Tensor],
) -> None:
    module = new(tokenizer_folder, learning_rate=1e-2)
    runs = trainer(max_steps=2)
    runs.fit(module, data(text_lines, tokenizer_folder, tmp_path))
    runs.save_checkpoint(tmp_path / "two.ckpt")
    loaded = PretrainingModule.load_from_checkpoint(tmp_path / "two.ckpt")
    assert same(parameters(module), parameters(loaded))
    assert float(loaded.training_step(batch, 0)) == float(module.training_step(batch, 0))


@pytest.mark.parametrize(
    ("sizes", "problem"),
    [
        (
            {"max_position_embeddings": 8},
            "is more than the 8 tokens that this model can read: set max_sequence_length=8",
        ),
        (
            {"vocab_size": 100},
            r"the tokenizer of the data has 1\d+ tokens, the model 100: give the data the tok",
        ),
    ],
)
def test_tokens_beyond_the_model_are_refused(
    trainer: TrainerMaker, text_lines: str, tokenizer_folder: str, tmp_path: Path, sizes: Any, problem: str
) -> None:
    module = new(None, model_config_kwargs={**SIZES, "vocab_size": 160, **sizes})
    with pytest.raises(ValueError, match=problem):
        trainer(max_steps=1).fit(module, data(text_lines, tokenizer_folder, tmp_path))
