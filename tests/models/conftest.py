"""Every test of a model runs where a training step does."""

import pytest


@pytest.fixture(autouse=True)
def where_steps_are_taken(precision_of_training: None) -> None:
    """Inside autocast, when the tests are run in bf16."""
