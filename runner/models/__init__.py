"""Models: encoders of transformers by config or by name, and the task models that train them.

- `architectures`: published encoders that transformers does not have.
- `encoder`: builds or loads an encoder; `head`: its class in transformers; `weights`: strict loading.
- `adapters`: low-rank adapters of a trained model, and their export.
- `initial`: the dtype of weights; initial weights by published schemes, from a smaller model, or for a new vocabulary.
- `wrapped`: the base class of task models around an encoder of transformers; sums over each row of a micro-batch.
- `pretraining`: task models of the pretraining objectives.
- `embedding`: one vector for each text.
- `distillation`: students of frozen teachers.
- `finetuning`: classifiers, tags and question answering; `label_loss`: the loss of labels.
- `vision`: models of images and text.
- `packed`: attention and dropout over packed rows.
- `quick`: faster computations of a step on a CPU.
- `positions`: the longest text and rotary bases; `autocast`: the precision; `flops`: numbers of operations.
- `replaced_encoder`: runs a head without its encoder, also in compiled code, or in another precision than the encoder.
- `task_model`: the interface of every trained model.
"""

from typing import TYPE_CHECKING

from tiryns.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from tiryns.runner.models.encoder import build_encoder, load_encoder
    from tiryns.runner.models.pretraining.sparse_head import SparseMaskedLM
    from tiryns.runner.models.task_model import TaskModel
    from tiryns.runner.models.vision.image_text import build_image_text
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["SparseMaskedLM", "TaskModel", "build_encoder", "build_image_text", "load_encoder"]
