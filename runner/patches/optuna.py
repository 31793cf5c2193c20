"""The id of a trial in its storage, which Optuna 5 has only as `Trial._trial_id`.

`Trial.number` counts within the study; `optuna.trial.Trial(study, trial_id)`, which continues a trial of another
process, takes the id in the storage.
"""

from typing import Any


def id_in_storage(trial: Any) -> int:
    """Returns the id of a trial in the storage of its study."""
    return int(trial._trial_id)
