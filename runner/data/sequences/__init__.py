"""Sequences of letters, such as proteins and DNA; `runner.data.text.tokenizer` has their alphabets.

- `fasta`: reads FASTA files.
- `proteins`: sequences of residues to train on, from the extra `sequences`.
"""

from typing import TYPE_CHECKING

from tiryns.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from tiryns.runner.data.sequences.proteins import Proteins
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["Proteins"]
