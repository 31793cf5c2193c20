"""The words `seeds=5` and `folds=5` of a command: sweeps over seeds, and over folds of labelled data."""

from collections.abc import Sequence

MEANING = {"seeds": ("seed={each}",), "folds": ("data.folds={count}", "data.fold={each}")}
"""What each word stands for, where it counts up to `count`."""

LEAST = {"seeds": 1, "folds": 2}


def with_replicates(words: Sequence[str]) -> list[str]:
    """The words of a command, in which `seeds=N` is `-m seed=1,...,N`, and `folds=N` `-m data.folds=N data.fold=1,...,N`.

    Raises ValueError where N is no such number, what the word stands for is given too, or a search chooses the values.

    Example:
        >>> with_replicates(["optimizer=lion", "seeds=3"])
        ['-m', 'optimizer=lion', 'seed=1,2,3']
    """
    given = [word for word in words if word.partition("=")[0] in MEANING and "=" in word]
    if not given:
        return list(words)
    names = [word.partition("=")[0] for word in words]
    if search := next((word for word in words if word.startswith("hydra/sweeper=optuna")), None):
        raise ValueError(f"{given[0]}: every value is trained, and {search} chooses values: leave out one")
    if "folds" in (word.partition("=")[0] for word in given) and any(name == "suite" for name in names):
        raise ValueError("folds: a suite measures each task on its own test set: leave out folds or suite")
    found: list[str] = []
    for word in words:
        if word not in given:
            found.append(word)
            continue
        meant = _meaning(word)
        own = {word.partition("=")[0], *(one.partition("=")[0] for one in meant)}
        if twice := [w for w, n in zip(words, names, strict=True) if w is not word and n.lstrip("+~") in own]:
            raise ValueError(f"{word} stands for {' '.join(meant)}: leave out {twice[0]}")
        found += meant
    return found if {"-m", "--multirun"} & {*words} else ["-m", *found]


def _meaning(word: str) -> list[str]:
    name, _, number = word.partition("=")
    least = LEAST[name]
    if not number.isdecimal() or int(number) < least:
        raise ValueError(f"{word}: expected a whole number, {least} or more, such as {name}=5")
    each = ",".join(str(value) for value in range(1, int(number) + 1))
    return [meant.format(count=number, each=each) for meant in MEANING[name]]
