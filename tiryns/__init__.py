"""Tiryns: pretrain and finetune transformer encoders, from the command line or from Python.

    import tiryns

    run = tiryns.run("experiment=mlm", "optimizer.lr=2e-3")     trains as `tiryns train` does, and returns the run
    run.metrics(), run.model(), run.predict(["a [MASK] text"])  its metrics, model and predictions
    config = tiryns.compose("experiment=mlm")                   the config alone
    parts = tiryns.assemble(config)                             data, model, optimizer ... for a loop of your own

Every name below is imported when it is first used. `conf` holds the options, `runner` the program.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiryns.conf.registry import register, register_configs, register_metric, register_task
    from tiryns.runner.data import EnergonMultiModalDataModule
    from tiryns.runner.data.energon import EnergonDataloader, MultiModalSampleConfig
    from tiryns.runner.data.read.documents import Source
    from tiryns.runner.evaluation.metrics import get_metrics_for_task
    from tiryns.runner.in_python import assemble, compose, run, runs
    from tiryns.runner.inference.kinds import PredictOptions
    from tiryns.runner.inference.predictor import Predictor
    from tiryns.runner.loaders import FinetuningDataModule, PretrainingDataModule
    from tiryns.runner.loaders.microbatches import prepare_finetuning_batch, split_batch_into_microbatches
    from tiryns.runner.loaders.multi_epoch import (
        EpochIndex,
        IdentityMultiEpochDatasetWrapper,
        MultiEpochDataset,
        MultiEpochDatasetResampler,
        MultiEpochDatasetWrapper,
        SizedDataset,
    )
    from tiryns.runner.loaders.split_modality import SplitModalitySampler
    from tiryns.runner.loop.assembly import Parts
    from tiryns.runner.models import TaskModel
    from tiryns.runner.modules import FinetuningModule, PretrainingModule
    from tiryns.runner.objectives import (
        Collator,
        EnhancedMaskedLanguageModelingCollator,
        MaskedDiffusionCollator,
        MaskedLanguageModelingCollator,
        QuestionAnsweringCollator,
        SequenceClassificationCollator,
        TokenClassificationCollator,
        get_collator_cls,
    )
    from tiryns.runner.opened_run import OpenedRun as Run
    from tiryns.runner.opened_run import open_run
    from tiryns.runner.optim import InverseSqrtScheduler, get_optimizer, get_scheduler, get_single_scheduler
    from tiryns.runner.run.errors import TrainingFailure
    from tiryns.runner.samplers import GlobalBatchSampler
    from tiryns.runner.tasks import Task
else:
    from tiryns.runner.run.lazy import lazy_names

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
