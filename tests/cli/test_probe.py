"""`mode=probe` as a user calls it: figures of frozen features in a folder like that of a run."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, spearmanr
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from tests.conftest import WORDS
from tests.modules.conftest import NEW
from tests.support.in_process import Done, succeeded, tiryns_here
from tiryns.runner.cli.models.probe import prepare
from tiryns.runner.in_python import compose
from tiryns.runner.run.recording import config_hash

PROBE = ["mode=probe", *NEW, "data.max_length=32", "trainer=cpu"]


def line(number: int, salt: int) -> tuple[str, int]:
    """A text whose words lean to those of its class, and the class."""
    drawn = np.random.default_rng([salt, number])
    kind = int(drawn.integers(3))
    own = WORDS[4 * kind : 4 * kind + 4]
    return " ".join(drawn.choice(own if drawn.random() < 0.55 else WORDS) for _ in range(6)), kind


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Overrides of data sets by task."""
    folder = tmp_path_factory.mktemp("probed")
    kinds: dict[str, Any] = {
        "classification": lambda text, kind, _: {"text": text, "label": "abc"[kind]},
        "similarity": lambda text, kind, other: {
            "text": text,
            "other": other[0],
            "label": (kind == other[1]) + 0.5,
        },
        "retrieval": lambda text, _, other: {"query": text, "passage": other[0]},
        "words": lambda text, kind, _: {
            "words": text.split(),
            "labels": ["B-X" if word in WORDS[:4] else "O" for word in text.split()],
        },
    }
    found: dict[str, list[str]] = {name: [] for name in kinds}
    for task, make in kinds.items():
        for salt, (part, count) in enumerate({"train": 60, "validation": 40, "test": 40}.items()):
            rows = [make(*line(number, salt), line(number + 1, salt)) for number in range(count)]
            file = folder / f"{task}-{part}.jsonl"
            file.write_text("".join(json.dumps(row) + "\n" for row in rows))
            found[task].append(f"data.{part}={file}")
    found["classification"] += ["data=classification"]
    found["words"] += ["data=token_classification"]
    found["similarity"] += ["data=classification", "data.pair_column=other"]
    found["retrieval"] += ["data=retrieval"]
    return found


def probed(cwd: Path, *words: str) -> tuple[Path, dict[str, Any]]:
    """The folder of a probe, and its status."""
    succeeded(cwd, *PROBE, *words)
    folder = max((cwd / "outputs").glob("*/*"), key=lambda path: path.stat().st_mtime)
    return folder, json.loads((folder / "status.json").read_text())


def test_figures_of_labels_are_scikit_learns_in_a_folder_like_that_of_a_run(
    files: dict[str, list[str]], tmp_path: Path
) -> None:
    folder, status = probed(tmp_path, *files["classification"])
    assert status["state"] == "done"
    results, chosen = status["results"], status["resolved"]
    data, encoder = prepare(compose(*PROBE, *files["classification"]))
    sets = [data.train_set, data.evaluated_sets["test/test"]]
    raw = [encoder.features(given).double().numpy() for given in sets]
    (y, truth), scaler = [given.labels for given in sets], StandardScaler().fit(raw[0])
    x, held_out = (scaler.transform(features) for features in raw)
    linear = LogisticRegression(C=1 / (chosen["linear_penalty"] * len(y)), tol=1e-8, max_iter=10_000)
    theirs = linear.fit(x, y)
    knn = KNeighborsClassifier(chosen["neighbours"], metric="cosine").fit(raw[0], y)
    for predicted, name in ((theirs.predict(held_out), ""), (knn.predict(raw[1]), "knn_")):
        assert results[f"test/test/{name}accuracy"] == pytest.approx((predicted == truth).mean(), abs=1e-12)
        expected = f1_score(truth, predicted, average="macro")
        assert results[f"test/test/{name}macro_f1"] == pytest.approx(expected, abs=1e-12)
    assert 0.4 < results["test/test/accuracy"] < 1
    assert results["objective"] == results["val/validation/accuracy"]

    entry = json.loads((folder / "evaluation.json").read_text())["sets"]["test/test"]
    for figure in ("accuracy", "knn_accuracy"):
        low, high = entry["intervals"][figure]
        assert low < entry["metrics"][figure] < high
    assert len((folder / "predictions.jsonl").read_text().splitlines()) == 80
    page = (folder / "report.html").read_text()
    assert "Evaluation: test/test, 40 examples" in page
    assert "Best accuracy" in page
    assert "last checkpoint" not in page
    assert (folder / "config.yaml").exists()
    listed = tiryns_here(tmp_path, "runs").stdout
    assert f"{results['objective']:.5g}" in listed
    assert f"{folder.name}" in listed


@pytest.mark.slow
def test_similarity_and_ranks_fit_nothing(files: dict[str, list[str]], tmp_path: Path) -> None:
    _, status = probed(tmp_path, *files["similarity"], "pooling=cls")
    data, encoder = prepare(compose(*PROBE, *files["similarity"], "pooling=cls"))
    given = data.evaluated_sets["test/test"]
    left, right = (encoder.embed([getattr(e, side) for e in given.examples]) for side in ("text", "pair"))
    cosine = torch.cosine_similarity(left.double(), right.double()).numpy()
    for name, theirs, near in (("spearman", spearmanr, 1e-5), ("pearson", pearsonr, 1e-6)):
        expected = theirs(cosine, given.labels)[0]
        assert status["results"][f"test/test/{name}"] == pytest.approx(expected, abs=near)
    assert "test/test/mse" not in status["results"]

    folder, status = probed(tmp_path, *files["retrieval"])
    assert 0 < status["results"]["test/test/mrr_at_10"] <= status["results"]["test/test/ndcg_at_10"] <= 1
    first = json.loads((folder / "predictions.jsonl").read_text().splitlines()[0])
    assert first["gold"] == [line(1, 2)[0]]


@pytest.mark.slow
def test_words_have_entities_and_a_probe_knows_more_than_chance(
    files: dict[str, list[str]], tmp_path: Path
) -> None:
    _, status = probed(tmp_path, *files["words"])
    assert status["results"]["test/test/entity_f1"] > 0.9, "the identity of a word decides here"
    assert status["monitor"] == "val/validation/entity_f1"


def refused(tmp_path: Path, *words: str) -> Done:
    done = tiryns_here(tmp_path, *words)
    assert done.returncode == 1
    assert done.stderr.count("error:") == 1
    return done


@pytest.mark.slow
def test_what_is_not_measured_is_refused_in_one_line(files: dict[str, list[str]], tmp_path: Path) -> None:
    assert "measures labelled data" in refused(tmp_path, *PROBE).stderr
    numbers = refused(tmp_path, *PROBE, *files["similarity"], "data.pair_column=null").stderr
    assert "numbers without a second text" in numbers
    several = refused(tmp_path, *PROBE, *files["classification"], "data.label_separator='|'").stderr
    assert "several labels" in several
    without = [word for word in files["classification"] if not word.startswith("data.validation")]
    none = refused(tmp_path, *PROBE, *without, "data.validation_documents=0").stderr
    assert "there are none: set data.validation" in none
    trained = refused(tmp_path, *NEW, *files["retrieval"], "trainer=cpu")
    assert "data=retrieval is measured by mode=probe" in trained.stderr


def test_mteb_is_asked_for_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mteb", None)
    done = refused(tmp_path, "mode=probe", *NEW[:3], "data=mteb", "data.tasks=[STSBenchmark]")
    assert "data=mteb needs mteb: pip install 'tiryns[mteb]'" in done.stderr


@pytest.mark.slow
def test_a_probe_is_no_training_of_the_same_settings() -> None:
    words = ["experiment=classification"]
    train = config_hash(compose(*words))
    assert config_hash(compose(*words, "pooling=cls")) == train, "a training does not read it"
    mean, first = (config_hash(compose(*words, "mode=probe", f"pooling={name}")) for name in ("mean", "cls"))
    assert len({train, mean, first}) == 3
