"""`tiryns plan`: the plan of a run, which trains and leaves nothing."""

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import TINY
from tests.support.in_process import Done, refused, succeeded, tiryns_here
from tests.support.malformed.configs import write
from tiryns import assemble, compose
from tiryns.runner.models.flops import step_flops
from tiryns.runner.models.packed import dropout
from tiryns.runner.models.packed.dropout_keys import current_keys


@pytest.fixture(scope="module")
def inspected(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> tuple[Done, Path]:
    folder, temporary = tmp_path_factory.mktemp("inspect"), tmp_path_factory.mktemp("temporary")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(temporary))
        done = tiryns_here(folder, "plan", *TINY, f"data.source={text_file}")
    assert not list(temporary.glob("tiryns*")), "Hydra's folder is still there"
    return done, folder


def fact(done: Done, name: str) -> str:
    found = re.search(rf"^  {re.escape(name)}  +(.*)$", done.stdout, re.MULTILINE)
    assert found, f"{name} is not in\n{done.stdout}"
    return found[1]


def test_nothing_is_trained_or_left(inspected: tuple[Done, Path]) -> None:
    done, folder = inspected
    assert done.returncode == 0, done.stderr
    assert "nothing was trained" in done.stdout
    assert not list(folder.iterdir())


def test_data_is_counted_and_known_by_its_fingerprint(inspected: tuple[Done, Path]) -> None:
    done, _ = inspected
    assert re.search(r"documents, \d+ sequences, [\d,]+ tokens", fact(done, "training"))
    assert re.search(r"training [0-9a-f]{12,}, held_out [0-9a-f]{12,}", fact(done, "fingerprints"))
    assert "global_batch_size 12" in fact(done, "sampler")


def test_samples_show_what_is_masked_and_what_has_to_be_said(inspected: tuple[Done, Path]) -> None:
    done, _ = inspected
    samples = re.findall(r"^  epoch 0, \d+ +(.*)$", done.stdout, re.MULTILINE)
    assert len(samples) >= 3
    assert any(re.search(r"\{\[MASK\]>[a-z#]+\}", sample) for sample in samples)
    assert all(sample.startswith("[CLS]") for sample in samples)


def test_lengths_fill_groups_and_rate_are_shown(inspected: tuple[Done, Path]) -> None:
    done, _ = inspected
    shares = [float(share) for share in re.findall(r"█* ([\d.]+)%$", done.stdout, re.MULTILINE)]
    assert sum(shares) == pytest.approx(100, abs=1)
    assert re.match(r"100\.0% of the places hold text \(packed\)", fact(done, "fill rate"))
    assert re.search(r"tensors such as .*, lr 0.003, decay", fact(done, "decay"))
    assert "│" in done.stdout
    assert re.search(r"^training +constant", done.stdout, re.MULTILINE)


@pytest.mark.slow
def test_time_is_that_of_usual_steps_not_of_the_one_that_is_tried(tmp_path: Path, text_file: Path) -> None:
    words = ["sampler=sequential", "sampler.global_batch_size=2", "data.validation_documents=1"]
    done = tiryns_here(tmp_path, "plan", "--json", *TINY, f"data.source={text_file}", *words)
    plan = json.loads(done.stdout)
    found = plan["time"]["tokens_per_second"] * plan["time"]["step_seconds"]
    config = compose(*TINY, f"data.source={text_file}", *words)
    data = assemble(config).data
    tokens = [int(data.train_batches(0, 1)[step]["tokens"]) for step in (0, 2, 3, 5, 6, 8, 9, 11)]
    assert found == pytest.approx(sum(tokens) / 8, rel=1e-6)
    assert max(tokens) - found > 1


def test_costs_are_those_of_all_phases(tmp_path: Path, text_file: Path) -> None:
    """Of a last phase with three quarters of the tokens too."""
    long = "{name: long, steps: 4, data: {max_length: 96}, sampler: {global_batch_size: 40}}"
    phases = [f"phases=[{{name: short, steps: 4}}, {long}]", "trainer.max_steps=-1"]
    words = [*TINY, f"data.source={text_file}", *phases, "data.micro_batch_tokens=2000"]
    plan = json.loads(succeeded(tmp_path, "plan", "--json", *words).stdout)
    parts = assemble(compose(*words))
    model, batches = parts.module.model, parts.data.train_batches(0, 1)
    flops = sum(step_flops(model, model.flop_counts(), batches[step]) for step in range(8))
    assert plan["time"]["flops"] == pytest.approx(flops, rel=1e-6)
    words += ["phases=[]", "trainer.max_steps=8"]
    short = json.loads(succeeded(tmp_path, "plan", "--json", *words).stdout)
    assert plan["memory"]["activations"] > 2 * short["memory"]["activations"]


def test_cost_is_that_of_the_model(inspected: tuple[Done, Path]) -> None:
    done, _ = inspected
    parameters = int(fact(done, "parameters").split()[0].replace(",", ""))
    for part, size in (("weights", 4), ("optimizer", 8)):
        measured = float(fact(done, part).split()[0]) * 2**20
        assert measured == pytest.approx(size * parameters, abs=0.06 * 2**20)
    assert re.match(r"12, \d\.\d\d epochs", fact(done, "steps"))
    flops = float(fact(done, "FLOPs").split()[0])
    tokens = int(re.search(r"about ([\d,]+) tokens", fact(done, "global batch"))[1].replace(",", ""))  # type: ignore[index]
    assert flops > 6 * 0.3 * parameters * tokens * 0.3
    assert "tokens per second" in fact(done, "speed")


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["experiment=classification", "data=classification", "data.train=labels.csv"], "=> (red|blue)"),
        (["experiment=token_classification", "data=token_classification", "data.train=tags.conll"], "{a>X}"),
        (
            ["experiment=diffusion", "data=files", "data.source=herons.txt", "data.num_workers=0"],
            r"\{\[MASK\]>",
        ),
    ],
)
def test_every_objective_shows_its_targets(tmp_path: Path, words: list[str], expected: str) -> None:
    write(tmp_path)
    sizes = ["sampler.global_batch_size=4", "model.hidden_size=32", "data.vocab_size=60", "trainer=cpu"]
    done = succeeded(tmp_path, *words, *sizes, "mode=inspect")
    assert re.search(expected, done.stdout), done.stdout
    assert not (tmp_path / "outputs").exists()


def test_ranks_of_all_nodes_share_the_work(tmp_path: Path, text_file: Path) -> None:
    words = ["trainer.devices=3", "trainer.num_nodes=2", "mode=inspect"]
    done = succeeded(tmp_path, *TINY, f"data.source={text_file}", *words)
    assert "memory, each of 6" in done.stdout
    assert "Python and its libraries, loader processes" in done.stdout


def test_what_would_end_the_run_ends_the_inspection(tmp_path: Path) -> None:
    assert "gone.txt" in refused(tmp_path, *TINY, "data.source=gone.txt", "mode=inspect")
    assert not list(tmp_path.iterdir())


def test_trial_step_drops_by_keys_and_is_taken_inside_autocast(
    tmp_path: Path, text_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the training step is: what would fail there fails here."""
    dropped, inside = [], []
    factors_of, backward = dropout.factors_of, torch.Tensor.backward

    def noted(fates: torch.Tensor, rate: float, dtype: torch.dtype) -> torch.Tensor:
        dropped.append((rate, current_keys() is not None))
        return factors_of(fates, rate, dtype)

    def watched(loss: torch.Tensor, **options: Any) -> None:
        inside.append(torch.is_autocast_enabled("cpu"))
        backward(loss, **options)

    monkeypatch.setattr(dropout, "factors_of", noted)
    monkeypatch.setattr(torch.Tensor, "backward", watched)
    words = ["model.dropout=0.125", "trainer.precision=bf16-mixed", "mode=inspect"]
    done = succeeded(tmp_path, *TINY, f"data.source={text_file}", *words)
    assert "bf16-mixed, measured on cpu" in fact(done, "speed")
    assert set(dropped) == {(0.125, True)}
    assert inside
    assert all(inside)
