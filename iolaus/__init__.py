"""Iolaus: pretrain and finetune transformer encoders, from the command line or from Python.

    import iolaus

    run = iolaus.run("experiment=mlm", "optimizer.lr=2e-3")     trains as `iolaus train` does, and returns the run
    run.metrics(), run.model(), run.predict(["a [MASK] text"])  its figures, model and predictions
    config = iolaus.compose("experiment=mlm")                   the config alone
    parts = iolaus.assemble(config)                             data, model, optimizer ... for a loop of your own

Every name below is imported when it is first used. `conf` holds the options, `runner` the program.
"""

from typing import TYPE_CHECKING

from iolaus.old_names import keep_old_names

keep_old_names()

if TYPE_CHECKING:
    from iolaus.conf.registry import register, register_configs, register_metric, register_task
    from iolaus.runner.data import EnergonMultiModalDataModule
    from iolaus.runner.data.energon import EnergonDataloader, MultiModalSampleConfig
    from iolaus.runner.data.read.documents import Source
    from iolaus.runner.evaluation.metrics import get_metrics_for_task
    from iolaus.runner.in_python import assemble, compose, run, runs
    from iolaus.runner.inference.kinds import PredictOptions
    from iolaus.runner.inference.opened_run import Run, open_run
    from iolaus.runner.inference.predictor import Predictor
    from iolaus.runner.loaders import FinetuningDataModule, PretrainingDataModule
    from iolaus.runner.loaders.microbatches import prepare_finetuning_batch, split_batch_into_microbatches
    from iolaus.runner.loaders.multi_epoch import (
        EpochIndex,
        IdentityMultiEpochDatasetWrapper,
        MultiEpochDataset,
        MultiEpochDatasetResampler,
        MultiEpochDatasetWrapper,
        SizedDataset,
    )
    from iolaus.runner.loaders.split_modality import SplitModalitySampler
    from iolaus.runner.loop.assembly import Parts
    from iolaus.runner.models import TaskModel
    from iolaus.runner.modules import FinetuningModule, PretrainingModule
    from iolaus.runner.objectives import (
        Collator,
        EnhancedMaskedLanguageModelingCollator,
        MaskedDiffusionCollator,
        MaskedLanguageModelingCollator,
        QuestionAnsweringCollator,
        SequenceClassificationCollator,
        TokenClassificationCollator,
        get_collator_cls,
    )
    from iolaus.runner.optim import InverseSqrtScheduler, get_optimizer, get_scheduler, get_single_scheduler
    from iolaus.runner.run.errors import TrainingFailure
    from iolaus.runner.samplers import GlobalBatchSampler
    from iolaus.runner.tasks import Task
else:
    from iolaus.runner.run.lazy import lazy_names

    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "Collator", "EnergonDataloader", "EnergonMultiModalDataModule", "EnhancedMaskedLanguageModelingCollator",
    "EpochIndex", "FinetuningDataModule", "FinetuningModule", "GlobalBatchSampler",
    "IdentityMultiEpochDatasetWrapper", "InverseSqrtScheduler", "MaskedDiffusionCollator",
    "MaskedLanguageModelingCollator", "MultiEpochDataset", "MultiEpochDatasetResampler", "MultiEpochDatasetWrapper",
    "MultiModalSampleConfig", "Parts", "PredictOptions", "Predictor",
    "PretrainingDataModule", "PretrainingModule", "QuestionAnsweringCollator",
    "Run", "SequenceClassificationCollator", "SizedDataset", "Source", "SplitModalitySampler", "Task", "TaskModel",
    "TokenClassificationCollator", "TrainingFailure", "assemble", "compose", "get_collator_cls",
    "get_metrics_for_task", "get_optimizer", "get_scheduler", "get_single_scheduler", "open_run",
    "prepare_finetuning_batch", "register", "register_configs", "register_metric", "register_task", "run", "runs",
    "split_batch_into_microbatches",
]  # fmt: skip
