"""Vision-language finetuning: the shared step, and evaluation of the answers that the model writes."""

from dataclasses import fields
from typing import Any

from torch import Tensor

from tiryns.conf import module as options
from tiryns.runner import log
from tiryns.runner.config.calling import takes_settings
from tiryns.runner.data.micro_batch import MicroBatch, Share
from tiryns.runner.evaluation.totals import loss_and_accuracy
from tiryns.runner.models.vision.vision_language import AnswerWriter, VisionLanguageModel
from tiryns.runner.modules.finetuning import FinetuningRun
from tiryns.runner.run.errors import TrainingFailure


class VisionLanguageModule(FinetuningRun):
    """Finetunes a model of images and text; it answers `generated_samples` samples of each evaluated set (0: all).

    Samples with an image that cannot be decoded are left out; more than `data.max_undecodable` end the run.
    Example: `tiryns experiment=vlm_shapes module.generated_samples=8`
    """

    model: VisionLanguageModel

    @takes_settings(options.VisionLanguage)
    def __init__(self, settings: options.VisionLanguage, **arguments: object) -> None:
        names = (f.name for f in fields(options.Finetuning) if f.name != "_target_")
        super().__init__(**{name: getattr(settings, name) for name in names}, **arguments)
        self.writer = AnswerWriter(settings.generated_samples, settings.max_new_tokens)
        self.votes["undecodable"] = 0.0
        self._undecodable: set[int] = set()

    def training_step(self, batch: Share, batch_idx: int) -> dict[str, Any]:
        """Takes the shared step; also counts, and names, the images that cannot be decoded."""
        ids = {int(i) for micro in batch["micro_batches"] for i in micro["undecodable"]} - self._undecodable
        self.votes["undecodable"] = float(len(ids))
        outputs = super().training_step(batch, batch_idx)
        if outputs["votes"]["undecodable"]:
            self._undecodable.update(*self.gather_objects(ids))
            sequences = self.datamodule.train
            for index in sorted(ids):
                name = sequences.examples[index].name()
                log.warning("%s has an image that cannot be decoded: left out", name)
            if len(self._undecodable) > sequences.max_undecodable:
                raise TrainingFailure(
                    f"{len(self._undecodable)} samples have images that cannot be decoded, above data.max_undecodable="
                    f"{sequences.max_undecodable}: among them {sequences.examples[min(self._undecodable)].name()}"
                )
        return outputs

    def output(self, micro_batch: MicroBatch, number: int) -> dict[str, Tensor]:
        """Returns the model's output, with its answers to some of the samples as `AnswerWriter.write` returns them."""
        size, together = self._sets[number][1].predictions.size(), self.device_mesh is not None
        answers = self.writer.write(self.model, micro_batch, size, together)
        return {**super().output(micro_batch, number), **answers}

    def figures(self, totals: dict[str, float]) -> dict[str, float]:
        """Returns the mean loss per token of the answers, and the accuracy over these tokens."""
        return loss_and_accuracy(totals)
