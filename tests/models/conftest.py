"""Every test of a model runs where the training step does: inside autocast, when the tests are run in bf16."""

from collections.abc import Iterator

import pytest

from tests.precision import as_in_training


@pytest.fixture(autouse=True)
def precision_of_training() -> Iterator[None]:
    with as_in_training():
        yield
