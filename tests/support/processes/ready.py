"""What a process imports and makes once, before others that run the program are forked from it."""
# ruff: noqa: F401

import torch._dynamo
import transformers.models.auto
import transformers.models.bert.modeling_bert
import transformers.models.modernbert.modeling_modernbert
from hydra.types import RunMode
from transformers.conversion_mapping import get_checkpoint_conversion_mapping

import tiryns.runner.callbacks
import tiryns.runner.checkpoints
import tiryns.runner.data.text.prepare
import tiryns.runner.data.text.pretraining
import tiryns.runner.data.text.vocabulary
import tiryns.runner.evaluation.totals
import tiryns.runner.inference.export
import tiryns.runner.logging.wandb
import tiryns.runner.loop.assembly
import tiryns.runner.loop.resolved
import tiryns.runner.loop.trainer
import tiryns.runner.loop.trials
import tiryns.runner.manifest.differences
import tiryns.runner.models.quick.linear_cross_entropy
import tiryns.runner.models.replaced_encoder
import tiryns.runner.modules.pretraining
import tiryns.runner.modules.samples
import tiryns.runner.objectives.mlm
import tiryns.runner.optim.elementwise
import tiryns.runner.report.comparison
import tiryns.runner.report.single
import tiryns.runner.samplers.phased
import tiryns.runner.sweeps.pruning
import tiryns.runner.sweeps.sweep_page
import tiryns.runner.train
from tests.support.processes.kept_options import kept_options
from tiryns.runner.cli.compose import initialize
from tiryns.runner.manifest.code import code
from tiryns.runner.report.comparison.differences import changed_settings

WORDS = "data=files data.source=a/b.txt data.vocab_size=300 model=bert_tiny trainer=cpu optimizer.betas=[0.9,0.95]"

# Fills the caches of Hydra's grammar. Hydra composes in this mode at first, and options that are composed twice are kept.
(keeping := kept_options()).__enter__()  # as long as the process and its children live
with initialize() as loader:
    for words in [WORDS.split(), ["optimizer.lr=0.003"]] * 2:
        loader.load_configuration("config", words, RunMode.MULTIRUN)
get_checkpoint_conversion_mapping("bert")
code()
changed_settings({})
