"""A head that was trained on the data's labels in another order, in `runner.modules.FinetuningModule`."""

from typing import Any

import pytest

from tests.documented.conftest import TrainerMaker
from tests.documented.training.test_finetuning_module import TASKS, data, new
from tiryns.runner.models.head import labels_of, reorder_labels
from tiryns.runner.modules import FinetuningModule
from tiryns.runner.objectives.labelled.finetuning import label_config


@pytest.mark.rows(1)
@pytest.mark.parametrize("task", ["classification", "token_classification"])
def test_trained_head_takes_the_order_of_the_data(
    trainer: TrainerMaker, encoder_folder: str, tmp_path: Any, task: str
) -> None:
    """Also the head of a checkpoint, and where the data lacks a label; other labels are refused unless trained."""
    made, pretrained, figures = data(task, encoder_folder), new(task, encoder_folder).model.pretrained, []
    names = made.label_names
    for known in (names, names[::-1], ["other", *names[:0:-1]]):
        pretrained.config.update(label_config(known))
        pretrained.save_pretrained(tmp_path)
        module, runs = new(task, str(tmp_path), num_labels=None), trainer(max_steps=1)
        if "other" in known:
            with pytest.raises(
                ValueError, match=r"the model has the labels other, .*, the data .*: name them as"
            ):
                runs.validate(module, made, verbose=False)
            runs.fit(module, made)
        figures += runs.validate(module, made, verbose=False)
        assert labels_of(module.model.pretrained.config) == names
        reorder_labels(pretrained, range(len(names))[::-1])
    assert figures[0] == pytest.approx(figures[1], rel=1e-5)
    runs.save_checkpoint(path := tmp_path / "some.ckpt")
    loaded = FinetuningModule.load_from_checkpoint(path)
    assert trainer().validate(loaded, made, verbose=False) == [pytest.approx(figures[2], rel=1e-5)]
    made.set_datasets(test=[row for row in TASKS[task]["rows"](13, 1) if names[1] not in str(row)])
    trainer().test(loaded, made, verbose=False)
    assert labels_of(loaded.model.pretrained.config) == [names[0], *names[2:], names[1]]
    rows = TASKS[task]["rows"](16)
    made.set_datasets(rows, test=[{**row, **dict.fromkeys(("label", "labels"))} for row in rows])
    assert trainer().test(loaded, made, verbose=False) == [{}], "it has no labels"
