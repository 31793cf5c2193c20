"""Training from a folder of sentence-transformers keeps its pooling, unit length and prompts where none are set."""

from omegaconf import DictConfig

from tiryns.runner import log
from tiryns.runner.models.embedding.folder import Embedding, read_embedding

NEW = Embedding("mean", normalised=True)
"""That of a model which has none yet."""


def settle_embedding(config: DictConfig) -> None:
    """Fills in settings of vectors that are none: those of the folder that the model begins with, else of `NEW`.

    One line of the log names those that are set to something else than the folder's. Raises ValueError for a folder with
    modules that cannot be trained here.
    """
    name = config.model.get("name_or_path")
    found = read_embedding(name) if name else None
    kept, changed = found or NEW, []
    for group, field, value in (
        ("objective", "pooling", kept.pooling),
        ("objective", "normalised", kept.normalised),
        ("data", "query_prompt", kept.prompt("query")),
        ("data", "passage_prompt", kept.prompt("passage")),
    ):
        if field not in config[group]:
            continue
        given = config[group][field]
        if given is None:
            config[group][field] = value
        elif given != value:
            changed.append(f"{group}.{field}={given!r} instead of {value!r}")
    if found is not None and changed:
        log.info("other than in the folder of sentence-transformers %s: %s", name, ", ".join(changed))
