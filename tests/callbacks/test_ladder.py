"""What callbacks of a ladder of widths measure: distances from the first weights, and the metric at the end of a run."""

from tests.runs.test_train import Train, assert_same_run, continued

SHORT = ["trainer.max_steps=3", "trainer.validate_every=2", "checkpoint.keep_last=9"]


def test_prediction_is_compared_with_the_last_weights(run_here: Train) -> None:
    predicted = "{_target_:runner.callbacks.Prediction,figure:val/held_out/loss,value:4,low:3,high:5}"
    run = run_here(*SHORT, f"+callback.prediction={predicted}")
    measured = run.status["results"]["val/held_out/loss"]
    assert f"was predicted to be 4 (3 to 5) and is {measured:.4g}\n" in (run.path / "train.log").read_text()


def test_activations_of_a_resumed_run_are_compared_with_those_of_its_first_weights(run_here: Train) -> None:
    words = [*SHORT, "callback=[default,coordinates]", "data.layout=padded"]
    whole = run_here(*words)
    assert any(name.startswith("coordinates/") for name in whole.series)
    continued(whole, 2, "copy")
    assert_same_run(whole, run_here(*words, folder="copy"), 3)
