"""What a process imports and makes once, before others that run the program are forked from it."""
# ruff: noqa: F401

import torch._dynamo
import transformers.models.auto
import transformers.models.bert.modeling_bert
import transformers.models.modernbert.modeling_modernbert
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
import tiryns.runner.loop.profiling
import tiryns.runner.loop.resolved
import tiryns.runner.loop.trainer
import tiryns.runner.loop.trials.precision
import tiryns.runner.manifest.differences
import tiryns.runner.models.pretraining.head_alone
import tiryns.runner.models.quick.linear_cross_entropy
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
from tiryns.runner.cli.compose import compose, initialized
from tiryns.runner.manifest.code import code
from tiryns.runner.report.changed import changed_settings

WORDS = "data=files data.source=a/b.txt data.vocab_size=300 optimizer.lr=0.003 optimizer.betas=[0.9,0.95]"

with initialized():  # which fills the caches of Hydra's grammar
    compose(WORDS.split())
get_checkpoint_conversion_mapping("bert")
code()
changed_settings({})
