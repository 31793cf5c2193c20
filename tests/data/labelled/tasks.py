"""Labelled data of a few words, and data modules over it, shared by the tests of finetuning."""

import random
from typing import Any

from omegaconf import OmegaConf

import tiryns.conf  # noqa: F401
from tiryns.conf.registry import OPTIONS
from tiryns.runner.config.targets import resolve_name
from tiryns.runner.data import FinetuningData
from tiryns.runner.tasks import get_task

WORDS = "the a river runs under old bridge while seven herons watch and nobody speaks of winter again"


def data_module(option: str, **fields: Any) -> FinetuningData:
    """The data module of an option, with a small tokenizer trained on its own texts."""
    fields = {"train": None, "tokenizer": None, "vocab_size": 300, "seed": 3, "max_length": 64, **fields}
    sets = {name: fields.pop(name) for name in ("train", "validation", "test") if name in fields}
    made = OmegaConf.to_container(OmegaConf.merge(OmegaConf.structured(OPTIONS["data"][option]), fields))
    assert isinstance(made, dict)
    made |= sets  # rows may hold what no config does
    module: type[FinetuningData] = resolve_name(f"tiryns.{made.pop('_target_')}")
    made["task"] = get_task(made["task"])
    return module(**made)  # type: ignore[arg-type]


def prepared_data(option: str, began: Any = None, **fields: Any) -> Any:
    """The same with all sets read, as a run that `began` so goes on; nothing is held out unless `fields` say so."""
    data = data_module(option, **{"validation_documents": 0, **fields})
    data.take_over(began or {})
    data.prepare_data()
    return data


def texts(count: int = 60, seed: int = 0) -> list[dict[str, Any]]:
    """Texts of 2 to 30 words, labelled by whether they name the herons or the bridge more often."""
    draw = random.Random(seed)
    rows: list[dict[str, Any]] = []
    while len(rows) < count:
        words = draw.choices(WORDS.split(), k=draw.randint(2, 30))
        herons, bridge = words.count("herons"), words.count("bridge")
        label = "birds" if herons > bridge else "stones" if bridge > herons else "none"
        rows.append({"text": " ".join(words), "label": label})
    return rows


PARTS = (
    (["old", "bridge"], ["B-PLACE", "I-PLACE"]), (["herons"], ["B-ANIMAL"]), (["river"], ["O"]),
    (["runs"], ["O"]),
)  # fmt: skip


def sentences(count: int = 60, seed: int = 0) -> list[dict[str, Any]]:
    """Sentences in which `old bridge` is a place and `herons` are animals."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        parts = draw.choices(PARTS, k=draw.randint(1, 12))
        words = [word for part, _ in parts for word in part]
        rows.append({"words": words, "labels": [tag for _, tags in parts for tag in tags]})
    return rows


def questions(count: int = 40, seed: int = 0) -> list[dict[str, Any]]:
    """Questions on what comes after a word, in contexts of 5 to 120 words; every fifth has no answer."""
    draw = random.Random(seed)
    rows = []
    for number in range(count):
        words = draw.choices(WORDS.split()[2:12], k=draw.randint(5, 120))
        place = draw.randrange(len(words))
        context = " ".join(words)
        start = sum(len(word) + 1 for word in words[:place])
        answers: dict[str, Any] = {"text": [words[place]], "answer_start": [start]}
        if number % 5 == 4:
            answers = {"text": [], "answer_start": []}
        rows.append(
            {"id": f"q{number}", "question": "what stands here", "context": context, "answers": answers}
        )
    return rows


def choices(count: int = 60, seed: int = 0) -> list[dict[str, Any]]:
    """Texts of 2 to 12 words with two to five choices, of which one is in the text."""
    draw = random.Random(seed)
    vocabulary = WORDS.split()
    rows: list[dict[str, Any]] = []
    for number in range(count):
        words = draw.choices(vocabulary, k=draw.randint(2, 12))
        others = draw.sample([word for word in vocabulary if word not in words], k=draw.randint(1, 4))
        label = draw.randint(0, len(others))
        others.insert(label, draw.choice(words))
        rows.append({"id": f"c{number}", "text": " ".join(words), "choices": others, "label": label})
    return rows


def rankings(count: int = 60, seed: int = 0) -> list[dict[str, Any]]:
    """Queries of 2 to 6 words with two to five candidates, graded by how many words of the query each has; one has 1."""
    draw = random.Random(seed)
    vocabulary = WORDS.split()
    rows: list[dict[str, Any]] = []
    for number in range(count):
        query = draw.sample(vocabulary, k=draw.randint(2, 6))
        others = [word for word in vocabulary if word not in query]
        shared = [1, 0, *(draw.randint(0, 2) for _ in range(draw.randint(0, 3)))]
        draw.shuffle(shared)
        texts = [" ".join(draw.sample(query, k=n) + draw.sample(others, k=3)) for n in shared]
        rows.append({"id": f"r{number}", "query": " ".join(query), "passage": texts, "label": shared})
    return rows


def tags(count: int = 60, seed: int = 0) -> list[dict[str, Any]]:
    """The sentences, with their tags as `kind`, and as `part` what kind of word each is."""
    parts = {"old": "adjective", "runs": "verb"}
    return [
        {
            "words": row["words"],
            "kind": row["labels"],
            "part": [parts.get(word, "noun") for word in row["words"]],
        }
        for row in sentences(count, seed)
    ]
