"""`tiryns push --format onnx`: the graph computes what torch does, its cost is told, and nothing else is written."""

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.conftest import ROOT, train_here
from tests.inference.conftest import Runs, finetuned
from tests.inference.test_trained_vectors import SHORT, TEXTS, pairs
from tests.models.every_encoder import ENCODERS, tiny_model
from tests.objectives.samples import VOCABULARY
from tests.support import needs
from tests.support.commands import blocks
from tiryns.conf.registry import better_when
from tiryns.runner.cli.commands import main
from tiryns.runner.cli.models.onnx import graph, proof, written
from tiryns.runner.data.text.tokenizer import train_tokenizer
from tiryns.runner.inference.evaluated import Asked, evaluate
from tiryns.runner.inference.predictor import Predictor
from tiryns.runner.models.packed.rows import padded_rows

pytestmark = pytest.mark.fp32  # graphs are exported and measured in fp32, whatever a run was trained in

NO_GRAPH = ("funnel", "longformer", "mbart", "perceiver", "reformer")
"""Encoders whose code torch cannot export, or whose graph has one size alone."""
EXPORTED = [name for name in ENCODERS if name not in NO_GRAPH]
NO_RUN = ("bart", "flaubert", "mvp", "xlm")
"""Encoders whose masked language models cannot be measured as those of runs, and so are refused."""


@pytest.fixture(autouse=True)
def _packages() -> None:
    for name in ("onnx", "onnxscript", "onnxruntime"):
        needs.package(name)


def message(*words: object) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(["push", *map(str, words)])
    return str(stopped.value.code)


def pushed(run: Path, target: Path, *words: object) -> dict[str, Any]:
    """What the manifest of the pushed model says of its graph."""
    main(["push", str(run), str(target), "--format", "onnx", *map(str, words)])
    found: dict[str, Any] = json.loads((target / "manifest.json").read_text())["onnx"]
    return found


@pytest.fixture(scope="module")
def graph_of(labelled_runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder that the run of a task was pushed to, with both graphs."""
    folder = tmp_path_factory.mktemp("graphs")

    @cache
    def push(task: str) -> Path:
        pushed(labelled_runs[task][0], folder / task, "--int8", "--most", 1)
        return folder / task

    return push


@pytest.fixture
def target(task: str, graph_of: Callable[[str], Path], tmp_path: Path) -> Path:
    """A copy of the folder that the run of a task was pushed to."""
    return shutil.copytree(graph_of(task), tmp_path / "pushed")


def computed(folder: Path, **rows: Any) -> Sequence[Any]:
    """What onnxruntime alone makes of rows."""
    import onnxruntime

    session = onnxruntime.InferenceSession(folder / "onnx" / "model.onnx")
    return session.run(None, {name: np.asarray(value) for name, value in rows.items()})


@pytest.mark.slow
@pytest.mark.parametrize("architecture", EXPORTED)
def test_graph_computes_logits_and_metrics_of_torch(
    architecture: str, tmp_path: Path, text_file: Path
) -> None:
    paragraphs = text_file.read_text().split("\n\n")[:30]
    train_tokenizer(paragraphs, "wordpiece", VOCABULARY, True).save_pretrained(tmp_path)
    pretrained = tiny_model(architecture, "mlm")
    pretrained.save_pretrained(tmp_path)
    has_types = architecture != "tapas"  # its types are those of cells of a table, seven for each token
    network = graph.Network(pretrained, has_types)
    graph.export_graph(network, tmp_path / "model.onnx")
    checked = proof.Agreement(graph.Session(tmp_path / "model.onnx"), network)
    generator = torch.Generator().manual_seed(0)
    for lengths in ([17, 4, 9], [6], [30, 30, 3, 12]):
        documents = [torch.randint(6, 20, (length,), generator=generator) for length in lengths]
        rows: Any = padded_rows(documents, network.pretrained.config)
        assert checked(rows)["logits"].shape[:2] == rows["input_ids"].shape
    assert 0 < checked.largest <= 1e-4
    if architecture in NO_RUN:
        with pytest.raises(ValueError, match=r"not a language model|is none: leave it out"):
            proof.open_for_graph(str(tmp_path))
        return
    opened: Any = proof.open_for_graph(str(tmp_path))
    (tmp_path / "text.txt").write_text("\n\n".join(paragraphs))
    sequences = opened.read(tmp_path / "text.txt", "text")
    expected = proof.measure(opened, sequences, "torch").figures
    assert proof.measure(opened, sequences, "onnx", checked).figures == pytest.approx(expected, rel=1e-5)
    rolled = lambda rows: {"logits": checked(rows)["logits"].roll(1, -1)}  # noqa: E731
    moved = proof.measure(opened, sequences, "moved", rolled)
    assert moved.figures != pytest.approx(expected, rel=1e-4)


@pytest.mark.rows(1)
@pytest.mark.parametrize("task", ["classification", "token_classification", "question_answering", "ranking"])
def test_graph_is_pushed_with_the_figures_of_both(
    task: str, labelled_runs: Runs, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, file = labelled_runs[task]
    facts = json.loads((target / "manifest.json").read_text())["onnx"]
    asked = Asked(precision="32-true", resamples=0)
    expected = evaluate(str(run), {"test": file}, asked).content["sets"]["test"]["metrics"]
    figures = facts["sets"]["test/test"]
    assert figures.keys() == expected.keys()
    card = (target / "README.md").read_text()
    for name, found in figures.items():
        assert found["torch"] == pytest.approx(expected[name], abs=1e-5)
        assert found["onnx"] == pytest.approx(found["torch"], abs=1e-4 if name == "loss" else 1e-9)
        low, high = found["int8_difference"]
        assert low - 1e-9 <= found["int8"] - found["torch"] <= high + 1e-9
        assert f"| test/test | {name} | {found['torch']:.4f} | {found['onnx']:.4f} |" in card
        cost = (found["torch"] - found["int8"]) * (-1 if better_when(name) == "min" else 1)
        written.check_cost(figures, name, "test/test", cost + 1e-6)
        with pytest.raises(ValueError, match=f"int8 weights cost .* of test/test/{name}, "):
            written.check_cost(figures, name, "test/test", cost - 1e-6)
    assert figures["loss"]["int8"] != figures["loss"]["torch"]
    assert 0 < facts["largest_difference"] <= 1e-4
    sizes = [(target / "onnx" / name).stat().st_size for name in ("model.onnx", "model_quantized.onnx")]
    assert sizes[1] < 0.8 * sizes[0]
    assert str(ROOT).encode() not in (target / "onnx" / "model.onnx").read_bytes()
    main(["verify", str(target)])
    with open(target / "onnx" / "model.onnx", "ab") as changed:
        changed.write(b" ")
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["verify", str(target)])
    assert "onnx/model.onnx" in "".join(capsys.readouterr())
    assert not (run / "model" / "onnx").exists(), "the run stays as it was"


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["mlm", "diffusion"])
def test_language_model_is_measured_as_its_run_was(
    objective: str, tmp_path: Path, text_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["trainer.max_steps=2", "trainer.validate_every=2", "trainer.precision=32-true"]
    run = train_here(tmp_path / "run", text_file, f"objective={objective}", *words)
    [(name, figures)] = pushed(run.path, tmp_path / "pushed")["sets"].items()
    assert f"{name}/loss: {figures['loss']['torch']:.4f} by torch, " in capsys.readouterr().err
    for figure, found in figures.items():
        assert found["torch"] == pytest.approx(run.results[f"{name}/{figure}"], rel=1e-5)
        assert found["onnx"] == pytest.approx(found["torch"], rel=1e-5)
        assert "onnx_difference" in found
    ids = [[2, 9, 11, 4, 3]]
    [logits] = computed(tmp_path / "pushed", input_ids=ids, attention_mask=[[1] * 5])
    assert logits.shape[:2] == (1, 5)


@pytest.mark.slow
def test_vectors_are_those_of_predict(tmp_path: Path) -> None:
    run = finetuned(tmp_path / "run", *pairs(tmp_path), *SHORT, "data.validation_documents=9")
    facts = pushed(run, target := tmp_path / "pushed")
    [figures] = facts["sets"].values()
    assert figures["mrr_at_10"]["onnx"] == pytest.approx(figures["mrr_at_10"]["torch"], abs=1e-3)
    from transformers import AutoTokenizer

    rows = AutoTokenizer.from_pretrained(target)(TEXTS, padding=True, truncation=True, max_length=16)
    hidden, vectors = computed(target, **rows)
    ours = [row["embedding"] for row in Predictor(run).predict(TEXTS)]
    np.testing.assert_allclose(vectors, ours, atol=1e-5)
    assert hidden.shape[:2] == np.shape(rows["input_ids"])


def test_api_of_the_page_answers_as_predict_does(
    labelled_runs: Runs, graph_of: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (api,) = [block for block in blocks(ROOT / "docs" / "serving.md") if block.title == "api.py"]
    run, file = labelled_runs["classification"]
    (tmp_path / "my_model").symlink_to(graph_of("classification"))
    monkeypatch.chdir(tmp_path)

    class FastAPI:
        """Leaves a function as it is, where the web framework calls it for a path."""

        def post(self, path: str) -> Callable[[Any], Any]:
            return lambda function: function

    monkeypatch.setitem(sys.modules, "fastapi", SimpleNamespace(FastAPI=FastAPI))
    program: dict[str, Any] = {}
    exec(api.text, program)
    texts = [json.loads(line)["text"] for line in file.read_text().splitlines()]
    for answer, row in zip(program["predict"](texts), Predictor(run).predict(texts), strict=True):
        assert answer["label"] == row["predicted"]
        assert answer["probability"] == pytest.approx(row["probability"], abs=1e-4)


def test_graph_of_another_model_is_refused(
    labelled_runs: Runs, graph_of: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = labelled_runs["classification"]
    rounded = graph_of("classification") / written.QUANTIZED
    monkeypatch.setattr(written, "export_graph", lambda network, target: shutil.copyfile(rounded, target))
    said = message(run, tmp_path / "here" / "pushed", "--format", "onnx")
    assert "gives other outputs than torch on test/test" in said
    assert not list((tmp_path / "here").iterdir())


def test_what_has_no_graph_is_told(
    labelled_runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = labelled_runs["multiple_choice"]
    assert "--format onnx exports masked language models" in message(run, tmp_path / "a", "--format", "onnx")
    run, _ = labelled_runs["classification"]
    assert "--most bounds what int8 weights cost" in message(
        run, tmp_path / "a", "--format", "onnx", "--most", 1
    )
    assert "are for --format onnx" in message(run, tmp_path / "a", "--int8")
    shutil.copytree(run / "model", tmp_path / "model")
    assert "name a run folder" in message(tmp_path / "model", tmp_path / "a", "--format", "onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert "pip install 'tiryns[onnx]'" in message(run, tmp_path / "a", "--format", "onnx")
    assert not (tmp_path / "a").exists()
