"""The parts on own metrics and tasks hold: their files, as they stand, make a run measure and learn what it says."""

import csv
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from transformers import AutoModel, AutoTokenizer

from tests.conftest import ROOT
from tests.data.labelled.tasks import WORDS, texts
from tests.modules.conftest import NEW, TINY
from tests.support.commands import blocks
from tests.support.in_process import Done, tiryns_here
from tiryns.conf import registry
from tiryns.runner.cli.commands import main
from tiryns.runner.run.folder import Run
from tiryns.runner.tasks import get_task, get_trainer_task

SHOWN = blocks(ROOT / "docs" / "extending.md", "Metrics of your own", "Tasks of your own")
SHORT = ["trainer.max_steps=4", "trainer.validate_every=2"]
MODULES = ("my_metrics", "similarity")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the files of the page, on the path; what they register is gone afterwards."""
    for block in SHOWN:
        if block.title:
            (tmp_path / block.title).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / block.title).write_text(block.text)
    monkeypatch.syspath_prepend(str(tmp_path))
    kept = [(held, dict(held)) for held in (registry.TASKS, registry.METRICS)]
    errors = set(registry.SMALLER_IS_BETTER)
    yield tmp_path
    for held, before in kept:
        held.clear()
        held.update(before)
    registry.SMALLER_IS_BETTER.intersection_update(errors)
    for name in MODULES:
        sys.modules.pop(name, None)


def only_run(home: Path, done: Done) -> Run:
    assert done.returncode == 0, done.stderr
    (status,) = home.glob("outputs/*/*/status.json")
    return Run(status.parent)


def labelled_files(home: Path) -> list[str]:
    found = []
    for seed, name in enumerate(("train", "validation", "test")):
        rows = "".join(json.dumps(row) + "\n" for row in texts(30, seed))
        (home / f"{name}.jsonl").write_text(rows)
        found.append(f"data.{name}={home / name}.jsonl")
    return found


def classify(home: Path, *words: str) -> Done:
    chosen = ["data=classification", "objective=classification", *TINY, *NEW, *SHORT, *labelled_files(home)]
    return tiryns_here(home, *chosen, *words)


def logged(run: Run, name: str) -> list[float]:
    with (run.path / "metrics.csv").open() as file:
        return [float(row[name]) for row in csv.DictReader(file) if row.get(name)]


@pytest.mark.slow
def test_own_metric_is_logged_reported_and_monitored(home: Path) -> None:
    monitor = "checkpoint.monitor=val/validation/auroc"
    run = only_run(home, classify(home, "imports=[my_metrics]", monitor))
    values = logged(run, "val/validation/auroc")
    assert len(values) == 2
    assert all(0 <= value <= 1 for value in values)
    assert run.status["mode"] == "max"
    assert run.status["results"]["objective"] == pytest.approx(max(values))
    figures = json.loads((run.path / "evaluation.json").read_text())["sets"]["test/test"]["metrics"]
    assert figures["auroc"] == run.status["results"]["test/test/auroc"]
    assert "auroc" in (run.path / "report.html").read_text()


@pytest.mark.slow
def test_evaluating_says_that_the_monitored_metric_is_not_defined_there(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monitor = "checkpoint.monitor=val/validation/auroc"
    run = only_run(home, classify(home, "imports=[my_metrics]", monitor))
    registry.METRICS["classification"].pop("auroc")
    sys.modules.pop("my_metrics")
    words = ["evaluate", str(run.path), str(home / "test.jsonl"), "--resamples", "0"]
    said = "auroc, by which the run chose its best checkpoint, is not computed, as nothing here defines it"
    main(words)
    assert capsys.readouterr().err.count(said) == 1
    main([*words, "--import", "my_metrics"])
    told = capsys.readouterr()
    assert said not in told.err
    assert "auroc" in told.out


@pytest.mark.slow
def test_own_metric_is_that_of_the_probabilities(home: Path) -> None:
    """The figure of a run is what the metric makes of the probabilities that its exported model gives."""
    import torch
    from torchmetrics.classification import MulticlassAUROC
    from transformers import AutoModelForSequenceClassification

    run = only_run(home, classify(home, "imports=[my_metrics]", "trainer.precision=32-true"))
    folder = run.path / "model"
    model, tokenizer = (
        c.from_pretrained(folder) for c in (AutoModelForSequenceClassification, AutoTokenizer)
    )
    rows = [json.loads(line) for line in (home / "test.jsonl").read_text().splitlines()]
    encoded = tokenizer(
        [row["text"] for row in rows], padding=True, truncation=True, max_length=48, return_tensors="pt"
    )
    with torch.no_grad():
        probabilities = model.eval()(**encoded).logits.softmax(-1)
    true = torch.tensor([model.config.label2id[row["label"]] for row in rows])
    expected = float(MulticlassAUROC(3)(probabilities, true))
    assert run.status["results"]["test/test/auroc"] == pytest.approx(expected, abs=1e-4)


@pytest.mark.slow
def test_metric_of_a_taken_name_and_one_of_many_numbers_are_refused(home: Path) -> None:
    (home / "my_metrics.py").write_text(
        "from torchmetrics.classification import MulticlassAUROC\n"
        "from tiryns.runner.tasks import register_metric\n"
        "register_metric('classification', 'macro_f1', MulticlassAUROC)\n"
    )
    done = classify(home, "imports=[my_metrics]")
    assert "error: classification has a metric 'macro_f1' already" in done.stderr
    registry.METRICS.clear()
    registry.register_metric(
        "classification",
        "each",
        lambda n: __import__("torchmetrics").Accuracy("multiclass", num_classes=n, average=None),
    )
    done = classify(home)
    assert "error: the metric 'each' must be one number" in done.stderr


def test_errors_are_better_small_if_they_say_so(home: Path) -> None:
    registry.register_metric("classification", "calibration_error", "nowhere.made", smaller_is_better=True)
    assert registry.better_when("val/validation/calibration_error") == "min"
    assert registry.better_when("val/validation/auroc") == "max"


def pairs(home: Path) -> Path:
    """Pairs of texts, and the share of their words that are the same."""
    draw, file = random.Random(0), home / "pairs.csv"
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["text", "other", "label"])
        for _ in range(40):
            first, second = (draw.sample(WORDS.split(), 6) for _ in range(2))
            writer.writerow([" ".join(first), " ".join(second), len({*first} & {*second}) / 6])
    return file


def learn_similarity(home: Path, *words: str) -> Done:
    file = pairs(home)
    sets = [f"data.{name}={file}" for name in ("train", "validation", "test")]
    chosen = [
        "--config-dir", str(home / "configs"), "data=similarity", "objective=similarity", *TINY, *NEW, *sets,
    ]  # fmt: skip
    return tiryns_here(home, *chosen, *words)


def test_own_task_trains_predicts_and_reports(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = only_run(home, learn_similarity(home, "imports=[similarity]", "trainer.max_steps=30"))
    losses = logged(run, "train/loss")
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])
    assert run.status["monitor"] == "val/validation/spearman"
    rows = [json.loads(line) for line in (run.path / "predictions.jsonl").read_text().splitlines()]
    tested = [row for row in rows if row["set"] == "test/test"]
    assert len(tested) == 40
    assert all({"text", "pair", "gold", "predicted"} <= set(row) for row in tested)
    assert all(-1 <= row["predicted"] <= 1.0001 for row in tested)
    assert "spearman" in (run.path / "report.html").read_text()
    assert type(AutoModel.from_pretrained(run.path / "model")).__name__ == "BertModel"
    capsys.readouterr()
    words = [str(run.path), tested[0]["text"], "--second", tested[0]["pair"], "--import", "similarity"]
    main(["predict", *words])
    assert float(capsys.readouterr().out.split()[0]) == pytest.approx(tested[0]["predicted"], abs=2e-2)
    main(["predict", str(run.path), str(home / "pairs.csv"), "--import", "similarity"])
    found = [json.loads(line)["predicted"] for line in capsys.readouterr().out.splitlines()]
    assert found == pytest.approx([row["predicted"] for row in tested], abs=2e-2)


def test_each_text_is_read_by_itself(home: Path) -> None:
    """Order and company of the texts do not matter: the cosine of a pair is that of its texts' own states."""
    import torch
    from transformers import BertConfig, BertModel

    from tiryns.runner.tasks import import_modules

    import_modules(["similarity"])
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    config = BertConfig(vocab_size=50, **sizes)  # type: ignore[arg-type]
    config.sep_token_id = 3
    model = sys.modules["similarity"].TwoTexts(BertModel(config)).eval()
    alone = torch.tensor([[2, 11, 12, 3, 13, 14, 3]])
    wider = torch.tensor([[2, 11, 12, 3, 13, 14, 3, 0, 0], [2, 40, 41, 42, 43, 3, 44, 45, 3]])
    found = [
        model({"input_ids": ids, "attention_mask": (ids > 0).long(), "example_labels": torch.zeros(len(ids))})
        for ids in (alone, wider)
    ]
    assert torch.allclose(found[0]["logits"][0], found[1]["logits"][0], atol=1e-6)
    assert not torch.allclose(found[1]["logits"][0], found[1]["logits"][1], atol=1e-3)


@pytest.mark.slow
def test_task_that_nobody_registers_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = only_run(home, learn_similarity(home, "imports=[similarity]", "trainer.max_steps=1"))
    del registry.TASKS["similarity"]
    done = learn_similarity(home, "allowed_targets=[similarity]")
    assert "name the module that registers it: imports=[MODULE]" in done.stderr
    assert done.stderr.startswith("error: data.task='similarity'; there are: contrastive, classification, ")
    done = learn_similarity(home, "imports=[similarity,my_metric]")
    assert "imports: there is no module 'my_metric'" in done.stderr
    with pytest.raises(SystemExit, match=r"task 'similarity', which is not registered here.*--import MODULE"):
        main(["predict", str(run.path), "a heron", "--second", "some birds"])


def test_own_task_is_found_by_name_but_not_by_the_module_for_a_plain_trainer(home: Path) -> None:
    registry.register_task("similarity", "similarity.Similarity")
    assert get_task("similarity").head == "AutoModel"
    message = r"task='similarity'; there are: classification.*question_answering$"
    with pytest.raises(ValueError, match=message):
        get_trainer_task("similarity")
    registry.register_task("similarity", "similarity.TwoTexts")
    with pytest.raises(ValueError, match=r"registered as .*expected a runner\.tasks\.Task"):
        get_task("similarity")


def test_imports_count_on_the_command_line_alone(home: Path) -> None:
    (home / "configs" / "experiment").mkdir()
    (home / "configs" / "experiment" / "sly.yaml").write_text("# @package _global_\nimports: [my_metrics]\n")
    done = tiryns_here(home, "--config-dir", str(home / "configs"), "experiment=sly")
    assert "imports lets code of others run" in done.stderr
    assert "my_metrics" not in sys.modules


def test_tables_of_a_task_are_shown_in_the_report(tmp_path: Path) -> None:
    from tiryns.runner.report.evaluation import evaluation_sections

    rows = [{"choices": 2, "right": 0.5, "note": "<b>"}, {"choices": 4, "right": 0.25}]
    found = {"examples": 6, "metrics": {"accuracy": 0.4}, "by_number": rows, "names": ["no", "rows"]}
    (tmp_path / "evaluation.json").write_text(json.dumps({"sets": {"test/test": found}}))
    (section,) = evaluation_sections(tmp_path)
    assert section["parts"][1:] == [
        {"is": "label", "text": "By number"},
        {
            "is": "table",
            "heads": ["choices", "right", "note"],
            "rows": [[2, 0.5, "<b>"], [4, 0.25, ""]],
            "marks": (),
            "sorts": True,
        },
    ]


@pytest.mark.slow
def test_module_that_measures_needs_labelled_data(home: Path) -> None:
    done = tiryns_here(home, "module=finetuning", "trainer=cpu", "trainer.max_steps=1", *NEW)
    assert "error: the module measures a task, and PretrainingData has none" in done.stderr
