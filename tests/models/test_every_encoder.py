"""Rows of every encoder: packed, padded or single, whichever leaves what a document gives alone; one line says which."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.models.every_encoder import EVERY, tasks_of, tiny_model
from tests.models.packed.test_tasks import CHOSEN, micro_batch
from tests.objectives.labelled.test_finetuning import case
from tests.objectives.samples import collator, documents, flat
from tests.support.precision import rounding
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models import SparseMaskedLM
from tiryns.runner.models.packed.rows import choose_layout
from tiryns.runner.objectives.base import Collator

pytestmark = pytest.mark.fp32  # transformers' DeBERTa, X-MOD and others cannot be run in autocast

READ_PADDING = {
    "convbert": "all", "fnet": "all", "funnel": "all but classification", "nystromformer": "all", "reformer": "all",
    "xlnet": "classification", "yoso": "all",
}  # fmt: skip
"""Tasks of models that see padding: by convolutions, Fourier transforms, pooling, landmarks, hashes, the last token."""

PACKED = {
    "albert", "bert", "camembert", "crammed_bert", "data2vec-text", "distilbert", "electra", "ernie", "esm", "esmc",
    "eurobert", "gpt_bert", "gte", "jina_embeddings_v3", "layoutlm", "modernbert", "mosaic_bert", "neomme", "nomic_bert",
    "roberta", "roberta-prelayernorm", "roc_bert", "ultrabert", "xlm-roberta", "xlm-roberta-xl", "xmod",
}  # fmt: skip
"""Encoders whose masked language models are given packed rows."""


FP32_INSIDE = {"bloom", "flaubert", "gpt_neo", "longformer", "mpt", "xlm"}
"""Models whose code in transformers casts attention to fp32, also in fp64."""


def wrapped(architecture: str, task: str) -> tuple[Any, Collator, Any]:
    """A model in the module that trains it, its collator, and what to compute: texts, or sequences of the task."""
    made: Any
    if task == "mlm":
        made = collator("mlm")
        return SparseMaskedLM(tiny_model(architecture, task)), made, documents([31, 20, 20, 9, 5])
    sequences, made = case(task)
    labels = {"num_labels": len(made.labels)} if task != "question_answering" else {}
    return (
        made.task_model(tiny_model(architecture, task, vocab_size=made.vocab_size, **labels)),
        made,
        sequences,
    )


def micro_batches(made: Collator, samples: Any, packed: bool, together: bool) -> list[MicroBatch]:
    """Some samples in one micro-batch, or each in its own."""
    if isinstance(samples, list):
        groups = [list(range(len(samples)))] if together else [[i] for i in range(len(samples))]
        return [made(flat(samples, indices=some, packed=packed)) for some in groups]
    chosen = [CHOSEN] if together else np.split(CHOSEN, len(CHOSEN))
    return [micro_batch(samples, made, packed, some) for some in chosen]


def loss_of(model: Any, batches: list[MicroBatch]) -> float:
    with torch.no_grad():
        return sum(float(model(batch)["loss"]) for batch in batches)


@pytest.mark.rows(3)
@pytest.mark.usefixtures("also_in_fp64")
@pytest.mark.parametrize("architecture", EVERY)
def test_loss_does_not_depend_on_the_cut(architecture: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="tiryns")
    for task in tasks_of(architecture):
        caplog.clear()
        model, made, samples = wrapped(architecture, task)
        model.train()
        layout = choose_layout("auto", made, model)
        assert model.training
        lines = [record.getMessage() for record in caplog.records if record.name == "tiryns"]
        assert len(lines) == (layout != "packed"), lines
        assert not any("\n" in line for line in lines)
        reading = READ_PADDING.get(architecture, "none")
        if torch.get_default_dtype() == torch.float32:
            assert (layout == "single") == (
                reading in ("all", task) or (reading.startswith("all but") and task not in reading)
            )
        if task == "mlm":
            assert (layout == "packed") == (architecture in PACKED)
        if layout != "single" and "could not be tried" not in "".join(lines):
            cuts = [
                loss_of(model.eval(), micro_batches(made, samples, layout == "packed", together))
                for together in (True, False)
            ]
            assert cuts[0] == pytest.approx(
                cuts[1], rel=3e-6 if architecture in FP32_INSIDE else rounding(3e-6, 3e-6)
            )
