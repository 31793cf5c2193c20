"""Which settings of a search mattered, by Optuna's own measure of its study."""

import warnings
from pathlib import Path

from tiryns.runner.report.comparison.importance import Importance
from tiryns.runner.run.files import read_json
from tiryns.runner.sweeps.optuna import TRIAL
from tiryns.runner.sweeps.study import PROXY, STUDY, import_optuna, noted_storage, open_storage

FEWEST_TRIALS, ENOUGH_TRIALS = 20, 50
"""Complete trials below which nothing is told; and from which 5 are among the best tenth, as Optuna advises."""


def study_importance(sweep: Path) -> Importance | None:
    """The importance of each setting of a search for reaching the best tenth of its trials, by PED-ANOVA.

    None for a sweep without a journal here, fewer than two settings or `FEWEST_TRIALS`, or where Optuna is not installed.
    Source: Watanabe, Bansal and Hutter 2023, "PED-ANOVA" (arXiv 2304.10255).
    """
    noted = ((file, read_json(file, {}).get("journal")) for file in sorted(sweep.glob(f"*/{TRIAL}")))
    storage = next((noted_storage(str(place), file.parent) for file, place in noted if place), PROXY)
    if storage.startswith(PROXY) or not Path(storage).is_file():
        return None
    try:
        optuna = import_optuna()
        study = optuna.load_study(study_name=STUDY, storage=open_storage(storage))
        trials = study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.COMPLETE])
    except (ImportError, KeyError, OSError, ValueError):  # a page needs no whole journal
        return None
    if len(trials) < FEWEST_TRIALS or len({name for trial in trials for name in trial.params}) < 2:
        return None
    with warnings.catch_warnings(action="ignore"):
        shares = optuna.importance.get_param_importances(
            study, evaluator=optuna.importance.PedAnovaImportanceEvaluator()
        )
    rough = "" if len(trials) >= ENOUGH_TRIALS else f" With fewer than {ENOUGH_TRIALS} trials it is rough."
    sentence = (
        f"How much each setting matters for reaching the best tenth of {len(trials)} complete trials, in shares of all "
        f"(PED-ANOVA, by Optuna).{rough}"
    )
    return Importance(shares, {}, sentence)
