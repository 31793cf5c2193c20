"""Which settings of a search mattered, by Optuna's own measure."""

import json
import math
from pathlib import Path

import optuna
import pytest

from tiryns.runner.cli.report import _importance
from tiryns.runner.sweeps.study import JOURNAL, STUDY, open_storage, study_importance


def search(
    folder: Path, trials: int, names: tuple[str, ...] = ("optimizer.lr", "model.layers")
) -> optuna.Study:
    """A sweep's folder with a study, in which the first setting matters alone."""
    folder.mkdir(parents=True)
    study = optuna.create_study(study_name=STUDY, storage=open_storage(str(folder / JOURNAL)))
    for number in range(trials):
        params = {name: (number * (7 + 6 * i) % trials) / trials for i, name in enumerate(names)}
        space: dict[str, optuna.distributions.BaseDistribution] = {
            name: optuna.distributions.FloatDistribution(0, 1) for name in names
        }
        value = (params[names[0]] - 0.3) ** 2
        study.add_trial(optuna.trial.create_trial(params=params, distributions=space, value=value))
    (folder / "0").mkdir()
    (folder / "0" / "trial.json").write_text(json.dumps({"journal": f"../{JOURNAL}", "number": 0}))
    return study


def test_importance_is_that_of_optuna(tmp_path: Path) -> None:
    study = search(tmp_path / "sweep", 24)
    found = study_importance(tmp_path / "sweep")
    assert found is not None
    assert found.shares == pytest.approx(optuna.importance.get_param_importances(study))
    assert found.shares["optimizer.lr"] > 0.6
    assert math.isclose(sum(found.shares.values()), 1)
    assert "PED-ANOVA" in found.sentence
    assert found.sentence.endswith("With fewer than 50 trials it is rough.")
    assert _importance([tmp_path / "sweep"]) == found
    assert _importance([tmp_path / "sweep", tmp_path / "sweep"]) is None
    search(tmp_path / "enough", 50)
    assert "rough" not in getattr(study_importance(tmp_path / "enough"), "sentence", "rough")


def test_nothing_is_said_of_few_trials_one_setting_or_no_study(tmp_path: Path) -> None:
    search(tmp_path / "few", 19)
    search(tmp_path / "one", 24, names=("optimizer.lr",))
    (tmp_path / "grid" / "0").mkdir(parents=True)
    (tmp_path / "proxy" / "0").mkdir(parents=True)
    (tmp_path / "proxy" / "0" / "trial.json").write_text('{"journal": "grpc://10.0.0.1:13000"}')
    assert [study_importance(tmp_path / name) for name in ("few", "one", "grid", "proxy")] == [None] * 4
    (tmp_path / "few" / JOURNAL).write_text("damaged\n")
    assert study_importance(tmp_path / "few") is None
