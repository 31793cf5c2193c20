"""The number by which a storage knows a trial: Optuna 5 has it as `Trial._trial_id` alone.

`Trial.number` counts within the study; `optuna.trial.Trial(study, trial_id)`, which continues a trial of another
process, takes the storage's number.
"""

from typing import Any


def id_in_storage(trial: Any) -> int:
    """Returns the id of a trial in the storage of its study."""
    return int(trial._trial_id)
