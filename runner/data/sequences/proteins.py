"""Variable regions of antibodies and T-cell receptors, some 100,000 residues, to train on without a download."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

GENES = (("ig", "homosapiens"), ("tr", "homosapiens"), ("tr", "musmusculus"))
"""Antibodies (ig) and T-cell receptors (tr), by species."""


class Proteins:
    """The variable regions of IMGT genes in tidytcells, in the order of `GENES` and of allele names, without repetitions.

    Its methods raise ImportError if tidytcells is missing.

    Example:
        >>> next(Proteins().documents())[:12]  # doctest: +SKIP
        'QVQLVQSGAEVK'
    """

    tokenized = False

    def documents(self) -> Iterator[str]:
        """Returns the regions."""
        regions: dict[str, None] = {}
        for kind, species in GENES:
            genes = getattr(library(), kind)
            for allele in sorted(genes.query(species=species)):
                with suppress(KeyError, ValueError):  # an allele without a sequence, and other genes
                    regions[genes.get_aa_sequence(allele, species=species)["V-REGION"]] = None
        return iter(regions)

    def fingerprint(self) -> dict[str, str]:
        """Returns the version of the package."""
        return {"source": "proteins", "version": library().VERSION}

    def describe(self) -> str:
        """One line for the summary of a run."""
        return f"variable regions of tidytcells {library().VERSION}"


def library() -> Any:
    """Returns the package of the extra `sequences`; raises ImportError with the command that installs it."""
    try:
        import tidytcells
    except ImportError as error:
        raise ImportError("data=proteins needs tidytcells: pip install 'tiryns[sequences]'") from error
    return tidytcells
