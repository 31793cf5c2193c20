"""From text, labelled rows and images to micro-batches.

A sample goes from source to tokenizer, `store`, sampler (global batch k), partition (ranks, micro-batches) and collator.

- `micro_batch`: the types of flat samples, micro-batches and shares. Read it first.
- `batches`: a rank's micro-batches of global batch k, with the changes by phases and by a length warm-up.
- `module`: the base class of data modules; `evaluated`: the base class for labelled validation and test sets, with
  one error for all problems of the files.
- `workers`: loader processes and their batches; `replicas`: the index of a rank's model replica.
- `read`: files; `text`: documents for pretraining; `store`: token sequences on disk.
- `labelled`: rows of finetuning tasks, queries with passages; `vision`: conversations about images; `energon`: streams.
- `pairs`: queries with passages, hard negatives or scores, to train on.
- `mixture`: several sources of text in given shares.
- `origin`: the files, documents and rows that samples came from; `without`: samples that a run leaves out.
- `corpus`: large corpora, tokenised by datatrove into sharded stores.
- `sequences`: letters of proteins and DNA; `demo`: generated data.

The data modules for a plain `lightning.Trainer` are in `runner.loaders`.
"""

from typing import TYPE_CHECKING

from tiryns.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from tiryns.runner.data.energon.module import EnergonMultiModalDataModule
    from tiryns.runner.data.energon.run import EnergonData
    from tiryns.runner.data.labelled.finetuning import FinetuningData
    from tiryns.runner.data.labelled.measured import MinimalPairs, MtebTasks, RetrievalPairs
    from tiryns.runner.data.mixture.module import MixtureData
    from tiryns.runner.data.pairs.module import PairsData
    from tiryns.runner.data.text.pretraining import PretrainingData
    from tiryns.runner.data.vision.image_text import ImageTextDataModule

__getattr__, __dir__ = lazy_names(
    __name__, dict.fromkeys(("FinetuningDataModule", "PretrainingDataModule"), "tiryns.runner.loaders")
)

__all__ = [
    "EnergonData", "EnergonMultiModalDataModule", "FinetuningData", "FinetuningDataModule",
    "ImageTextDataModule", "MinimalPairs", "MixtureData", "MtebTasks", "PairsData", "PretrainingData",
    "PretrainingDataModule", "RetrievalPairs",
]  # fmt: skip
