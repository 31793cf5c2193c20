"""What callbacks of a ladder of widths measure: distances from the first weights, and the metric at the end of a run."""

from tests.runs.test_train import Train

SHORT = ["trainer.max_steps=3", "trainer.validate_every=2", "checkpoint.every_steps=2", "checkpoint.keep_last=9"]


def test_prediction_is_compared_with_the_last_weights(run_here: Train) -> None:
    predicted = "{_target_:runner.callbacks.Prediction,figure:val/held_out/loss,value:4,low:3,high:5}"
    run = run_here(*SHORT, f"+callback.prediction={predicted}")
    measured = run.status["results"]["val/held_out/loss"]
    assert f"was predicted to be 4 (3 to 5) and is {measured:.4g}\n" in (run.path / "train.log").read_text()
