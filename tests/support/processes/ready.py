"""What a process imports and makes once, before others that run the program are forked from it."""
# ruff: noqa: F401

import torch._dynamo
import transformers.models.auto
import transformers.models.bert.modeling_bert
import transformers.models.modernbert.modeling_modernbert
from transformers.conversion_mapping import get_checkpoint_conversion_mapping

import tiryns.runner.callbacks
import tiryns.runner.checkpoints
import tiryns.runner.inference.export
import tiryns.runner.loop.assembly
import tiryns.runner.report.single
import tiryns.runner.train
from tiryns.runner.cli.compose import compose, initialized
from tiryns.runner.manifest.code import program_files
from tiryns.runner.report.changed import changed_settings

WORDS = "data=files data.source=a/b.txt data.vocab_size=300 optimizer.lr=0.003 optimizer.betas=[0.9,0.95]"

with initialized():  # which fills the caches of Hydra's grammar
    compose(WORDS.split())
get_checkpoint_conversion_mapping("bert")
program_files()
changed_settings({})
