"""Whole runs on drawn scenes: what they leave, on one process and two, interrupted and not, from stage to stage."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import run_program
from tests.launch.test_kill import without_trace
from tests.runs.test_train import losses
from tests.support.image_text_models import save_image_text_model
from tests.support.precision import rounding
from tests.support.vision import SHAPES, SMALL, TINY_VISION, compose_vision, scenes_of_many_sizes

CHOICE = [*SHAPES, *TINY_VISION, "model=llava_tiny", *SMALL]


def train_here(folder: Path, *overrides: str) -> Any:
    """Trains in this process; returns the run folder."""
    from tiryns.runner.run.folder import Run
    from tiryns.runner.train import train

    run = Run(folder)
    config = compose_vision(*overrides)
    run.begin(config, [])
    train(config, run)
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return train_here(tmp_path_factory.mktemp("vision") / "run", *SHAPES, "model=llava_tiny", *SMALL)


@pytest.mark.slow
def test_run_leaves_figures_predictions_and_a_report_with_images(run: Any) -> None:
    results = run.status["results"]
    for name in ("loss", "token_accuracy", "exact_match", "constant_exact_match"):
        assert f"val/validation/{name}" in results
    kinds = ("colour", "shape", "count", "position", "yes_no", "text", "caption")
    assert all(f"val/validation/exact_match_{kind}" in results for kind in kinds)
    lines = [json.loads(line) for line in (run.path / "predictions.jsonl").read_text().splitlines()]
    assert len(lines) == 36
    assert {"set", "id", "kind", "image", "text", "gold", "predicted"} <= lines[0].keys()
    right = sum(line["predicted"] in line["gold"] for line in lines) / len(lines)
    assert results["val/validation/exact_match"] == pytest.approx(right)
    page = (run.path / "report.html").read_text()
    assert page.count('"image":"data:image/png;base64,') == 12
    assert "best constant answer" in page


def test_exported_model_answers_as_the_run_did(run: Any) -> None:
    """Loaded with transformers alone, from the text and the image of a prediction to its answer."""
    from transformers import AutoModelForImageTextToText, AutoProcessor

    from tiryns.runner.data.demo.scenes import Scenes

    folder = run.path / "model"
    processor, model = (
        AutoProcessor.from_pretrained(folder),
        AutoModelForImageTextToText.from_pretrained(folder),
    )
    assert "AutoProcessor.from_pretrained" in (folder / "README.md").read_text()
    lines = [json.loads(line) for line in (run.path / "predictions.jsonl").read_text().splitlines()]
    line = next(line for line in lines if line["kind"] == "colour")
    messages = [{"role": "user", "content": f"<image>\n{line['text']}"}]
    text = processor.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    image = Scenes("validation", 36).read(line["image"][0], "test")
    inputs = processor(images=[image], text=[text], add_special_tokens=False, return_tensors="pt")
    ids = model.eval().generate(**inputs, max_new_tokens=4, do_sample=False)[
        0, inputs["input_ids"].shape[1] :
    ]
    assert processor.tokenizer.decode(ids, skip_special_tokens=True).strip() == line["predicted"]


@pytest.mark.slow
def test_second_stage_starts_from_the_first_and_freezes_by_pattern(run: Any, tmp_path: Path) -> None:
    """The two stages of LLaVA: the projector alone, then all."""
    first = train_here(
        tmp_path / "projector", *SHAPES, "model=llava_tiny", *SMALL, "trainer.max_steps=2", "trainer.validate_every=0",
        "module.freeze=['re:^(?!.*multi_modal_projector)']",
    )  # fmt: skip
    second = train_here(
        tmp_path / "all", *SHAPES, "model=pretrained", f"model.name_or_path={first.path}", "trainer.max_steps=1",
        "trainer.validate_every=0",
    )  # fmt: skip
    weights = [
        torch.load(r.checkpoint_dir / "last.ckpt", weights_only=True)["state_dict"] for r in (first, second)
    ]
    torch.manual_seed(42)
    assert weights[0].keys() == weights[1].keys()
    changed = {n for n in weights[0] if not torch.equal(weights[0][n], weights[1][n])}
    assert any("vision_tower" in n for n in changed)
    assert (second.path / "model" / "processor_config.json").exists()


@pytest.fixture(scope="module", params=[pytest.param("ddp", marks=pytest.mark.slow), "fsdp"])
def two_ranks(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    run_program(
        *CHOICE, f"trainer={request.param}", "trainer.accelerator=cpu", "trainer.devices=2", cwd=folder
    )
    return next((folder / "outputs").glob("*/*"))


@pytest.mark.slow
def test_two_ranks_reach_the_figures_of_one(run: Any, two_ranks: Path) -> None:
    """Mixed batches, of which some ranks' shares hold no image; ranks that share weights still gather them together."""
    ours = run.status["results"]
    theirs = json.loads((two_ranks / "status.json").read_text())["results"]
    assert theirs.keys() == ours.keys()
    for name, value in ours.items():
        assert theirs[name] == pytest.approx(value, rel=2e-3, abs=1e-6), name
    assert (two_ranks / "order.txt").read_text() == (run.path / "order.txt").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2])
def test_rates_by_part_are_killed_without_a_trace(tmp_path: Path, devices: int) -> None:
    """As nanoVLM is trained: tower and language model at one rate, what joins them at another."""
    rates = "optimizer.overrides=[{pattern: '*connector*', lr: 0.01}, {pattern: '*vision_model*', lr: 0.001}]"
    words = [*SHAPES, *TINY_VISION, "model=smolvlm_tiny", *SMALL, rates]
    found = without_trace(words, tmp_path, 30, devices)
    one = train_here(tmp_path / "one", *words, "trainer.max_steps=30")
    assert losses(found) == pytest.approx(losses(one), rel=rounding(1e-4, 5e-2))


@pytest.mark.rows(1)
@pytest.mark.parametrize("architecture", ["qwen2_vl", "idefics3"])
def test_images_of_many_sizes_are_learnt_from_and_answered_about(
    architecture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model of the hub whose larger images have more tokens: finetuned, exported, asked."""
    from tiryns.runner.cli.commands import main

    folder = save_image_text_model(architecture, tmp_path / "model")
    rows = scenes_of_many_sizes(tmp_path, 40)
    run = train_here(
        tmp_path / "run", "data=image_text", f"data.train={rows}", f"data.validation={rows}",
        f"data.images={tmp_path / 'images'}", "model=pretrained", f"model.name_or_path={folder}",
        "trainer.max_steps=4", "data.num_workers=1",
    )  # fmt: skip
    first, *_, last = losses(run).values()
    assert last < first
    lines = [json.loads(line) for line in (run.path / "predictions.jsonl").read_text().splitlines()]
    capsys.readouterr()  # what the run has said
    main(["predict", str(run.path), str(rows), "--images", str(tmp_path / "images"), "--max-new-tokens", "4"])
    answers = {a["id"]: a["predicted"] for a in map(json.loads, capsys.readouterr().out.splitlines())}
    assert len(lines) == 40
    assert {line["id"]: line["predicted"] for line in lines} == answers
