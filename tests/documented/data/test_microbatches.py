"""`runner.loaders.microbatches`."""

from tiryns.runner.loaders.microbatches import prepare_finetuning_batch


def test_prepare_finetuning_batch_without_an_iterator() -> None:
    assert prepare_finetuning_batch(data_iterator=None, num_microbatches=4, default_seq_length=2048) == (
        None,
        2048,
    )
