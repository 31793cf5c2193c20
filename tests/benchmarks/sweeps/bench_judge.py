"""How often `tiryns judge` calls a config different from itself, and how many pairs a small difference takes.

The pool: 800 runs of one tiny config, trained once, that differ in their seeds alone. 50 comparisons of 16 runs each are
drawn from it without replacement, 8 for either side, so that no run is in two of them. Four such draws make the first
200 comparisons; 400 draws make 20,000, whose share scatters less.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tests.support.processes import PROGRAM, process
from tiryns.runner.evaluation.statistics.paired import clear_after

POOL, PAIRS, DRAWS, FIRST = 800, 8, 400, 200

TINY = [
    "trainer=cpu", "trainer.precision=32-true", "data.num_workers=0", "data.max_length=48", "model=bert_tiny",
    "model.hidden_size=32", "model.intermediate_size=64", "sampler.global_batch_size=8", "optimizer.lr=0.01",
    "trainer.max_steps=20", "trainer.validate_every=20", "trainer.validation_batches=4",
]  # fmt: skip

SMALL = ["trainer=cpu", "model=bert_tiny", "trainer.max_steps=60", "trainer.validate_every=60"]
NEAR = ["--change", "optimizer.lr=9e-4", "--against", "optimizer.lr=1e-3"]

CHANGES = {
    "learning rate, 0.009 against 0.01": "optimizer.lr=0.009",
    "optimizer, Muon against AdamW": "optimizer=muon",
    "masking rate, 15 % against 30 %": "objective.mlm_probability=0.15",
    "global batch, 16 against 8": "sampler.global_batch_size=16",
    "hidden size, 48 against 32": "model.hidden_size=48",
    "vocabulary, 2,048 against 4,096 (bits per byte)": "data.vocab_size=2048",
}
"""What is changed in the tiny config to see what pairing is worth."""

SHARED = {"initial_weights": "initial weights", "order_and_masks": "order and masks"}


def tiryns(folder: str, *words: str) -> str:
    """What a command prints."""
    done = process(*PROGRAM, *words, cwd=Path(folder), timeout=None, HF_HUB_OFFLINE="1")
    assert done.returncode in (0, 3), done.stderr[-3000:]
    return done.stdout


def judged(folder: str, *words: str) -> dict[str, Any]:
    """The answer on one change."""
    found = json.loads(tiryns(folder, "judge", *words, "--seeds", str(PAIRS), "--json"))
    return dict(found["comparisons"][0])


def figures_of_pool(folder: str) -> NDArray[np.float64]:
    """The validation loss of each run of the pool [N]."""
    tiryns(folder, "-m", f"seed=range(0,{POOL})", "callback=[]", *TINY)
    files = Path(folder).glob("outputs/*/*-sweep/*/status.json")
    return np.array([json.loads(file.read_text())["results"]["objective"] for file in sorted(files)])


def differences_of(pool: NDArray[np.float64]) -> NDArray[np.float64]:
    """The differences of comparisons of the config with itself [20,000, 8]."""
    drawing, size = np.random.default_rng(0), 2 * PAIRS
    draws = [
        drawing.permutation(pool)[: len(pool) // size * size].reshape(-1, 2, PAIRS) for _ in range(DRAWS)
    ]
    sides = np.concatenate(draws)
    return sides[:, 1] - sides[:, 0]


def peeked(differences: NDArray[np.float64]) -> bool:
    """Whether a t-test finds a difference at any number of pairs from 3 on."""
    looks = (stats.ttest_1samp(differences[:pairs], 0) for pairs in range(3, len(differences) + 1))
    return any(look.pvalue <= 0.05 for look in looks)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        alike = differences_of(figures_of_pool(folder))
        small = judged(folder, *NEAR, *SMALL)
        worth = {name: judged(folder, "--change", change, *TINY) for name, change in CHANGES.items()}
    show_errors(alike)
    low, high = small["interval"]
    print("\n| learning rate 9e-4 against 1e-3, 60 steps | |\n|---|---|")
    print(f"| difference in nats | {small['difference']:.4f} ({low:.4f} to {high:.4f}) |")
    print(f"| clear after | {small['clear_after']} pairs, sign-flip p {small['p']:.3f} |")
    print(f"| t of the same runs | paired {small['t']:.1f}, without pairing {small['unpaired_t']:.1f} |")
    print(f"| variance of the difference | {small['variance_ratio']:.0f} times smaller by pairing |")
    print("\n| changed in a tiny config of 20 steps | the pairs share | variance by pairing |\n|---|---|---|")
    for name, answer in worth.items():
        shared = ", ".join(words for key, words in SHARED.items() if answer["shared"][key])
        print(f"| {name} | {shared or 'neither'} | {answer['variance_ratio']:.1f} times smaller |")


def show_errors(alike: NDArray[np.float64]) -> None:
    """Prints how often comparisons of the config with itself are called different."""
    rules = {
        "`tiryns judge`, a look after each pair": lambda d: clear_after(d) is not None,
        "t-test, a look after each pair from the third on": peeked,
        "t-test, one look at 8 pairs": lambda d: stats.ttest_1samp(d, 0).pvalue <= 0.05,
    }
    print(
        f"| a config against itself: called different | first {FIRST} | all {len(alike):,} |\n|---|---|---|"
    )
    for name, is_called in rules.items():
        called = np.array([is_called(differences) for differences in alike])
        print(f"| {name} | {called[:FIRST].sum()} ({called[:FIRST].mean():.1%}) | {called.mean():.1%} |")
