"""What callbacks of a ladder of widths measure: distances from the first weights, and the metric at the end of a run."""

import pytest

from tests.runs.test_train import Train, assert_same_run, continued


def test_resumed_run_measures_from_its_first_weights_and_to_its_last_metric(
    run_here: Train, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    predicted = "{_target_:runner.callbacks.Prediction,figure:val/held_out/loss,value:4,low:3,high:5}"
    words = ["trainer.max_steps=3", "trainer.validate_every=2", "checkpoint.keep_last=9"]
    words += ["data.layout=padded", "callback=[default,coordinates]", f"+callback.prediction={predicted}"]
    whole = run_here(*words)
    measured = whole.status["results"]["val/held_out/loss"]
    assert f"was predicted to be 4 (3 to 5) and is {measured:.4g}" in caplog.text
    assert any(name.startswith("coordinates/") for name in whole.series)
    continued(whole, 2, "copy")
    assert_same_run(whole, run_here(*words, folder="copy"), 3)
