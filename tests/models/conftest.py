"""Every test of a model runs where a training step does, but those marked `fp32`."""

import pytest


@pytest.fixture(autouse=True)
def where_steps_are_taken(request: pytest.FixtureRequest) -> None:
    """Inside autocast, when the tests are run in bf16."""
    if not request.node.get_closest_marker("fp32"):
        request.getfixturevalue("precision_of_training")
