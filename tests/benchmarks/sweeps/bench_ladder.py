"""Does the best rate of a masked language model stay as it grows wider, and is the next width's loss what was predicted?

Characters of the documentation of Python, two pre-norm layers (EuroBERT's) of 64 to 512, 400 steps. For each
parametrization a ladder of widths and rates; then, with `mup` at the rate that it gives, ten trials: the widths up to 256
with one seed predict the loss of width 512 with that seed, by the parameters or by the FLOPs.

`LADDER_FOLDER=DIR` keeps the runs there, and goes on with those that are there.
"""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks.sweeps.bench_judge import tiryns
from tiryns.runner.evaluation.statistics.scaling_law import predict, transfer

TINY = [
    "data.tokenizer_kind=characters", "data.max_length=64", "data.num_workers=0", "model.architecture=eurobert",
    "model.max_position_embeddings=512", "objective.mlm_probability=0.4", "sampler.global_batch_size=12",
    "trainer.max_steps=400", "trainer.validate_every=400", "trainer.validation_batches=20", "scheduler.warmup_steps=0.1",
    "trainer.devices=1", "trainer.precision=bf16-mixed",
]  # fmt: skip

RATES = {
    "standard": "0.00025,0.0005,0.001,0.002,0.004",
    "embedding": "0.000125,0.00025,0.0005,0.001,0.002,0.004",
    "mup": "0.0005,0.001,0.002,0.004,0.008",
}
NARROW, WIDE, SEEDS, TRIALS = (64, 96, 128, 192, 256), 512, 1, 10
WIDTHS = (64, 128, 256, WIDE)


def ladder(folder: Path, kind: str) -> dict[str, Any]:
    """What `tiryns ladder` says of a parametrization."""
    words = [*TINY, "model.num_attention_heads=4", f"optimizer.parametrization={kind}", f"outputs={kind}"]
    widths = ["--widths", ",".join(map(str, WIDTHS)), "--rates", RATES[kind], "--seeds", str(SEEDS)]
    found: dict[str, Any] = json.loads(tiryns(str(folder), "ladder", *words, *widths, "--json"))
    return found


def trials(folder: Path, rate: float) -> dict[tuple[int, int], dict[str, float]]:
    """Loss, parameters and FLOPs of each width and seed at one rate."""
    sizes = ["model.num_attention_heads=${of_width:1/32}", "model.intermediate_size=${of_width:2}"]
    swept = [f"seed=range(1,{TRIALS + 1})", f"model.hidden_size={','.join(map(str, (*NARROW, WIDE)))}"]
    given = [*TINY, *sizes, "optimizer.parametrization=mup", f"optimizer.lr={rate}", *swept]
    tiryns(str(folder), "-m", "hydra.sweep.dir=trials", *given)
    found = {}
    for number, (width, seed) in enumerate((w, s) for s in range(1, TRIALS + 1) for w in (*NARROW, WIDE)):
        run = folder / "trials" / str(number)
        loss = json.loads((run / "status.json").read_text())["results"]["objective"]
        totals = json.loads((run / "manifest.json").read_text())["totals"]
        found[width, seed] = {"loss": loss, "parameters": totals["parameters"], "flops": totals["flops"]}
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(os.environ.get("LADDER_FOLDER", made))
        ladders = {kind: ladder(folder, kind) for kind in RATES}
        rate = float(f"{ladders['mup']['widths'][0]['rate'] or 0.001:.1g}")
        runs = trials(folder, rate)
    print(
        f"| best rate of width | {' | '.join(map(str, WIDTHS))} | largest over least | loss of width {WIDE} |"
    )
    print("|---|" + "---|" * (len(WIDTHS) + 2))
    for kind, found in ladders.items():
        best = {each["width"]: each for each in found["widths"]}
        shown = [f"{best[w]['rate']:.2g}" if best[w]["rate"] else best[w]["problem"] for w in WIDTHS]
        known = [w for w in WIDTHS if best[w]["rate"]]
        ratio = transfer(known, [best[w]["rate"] for w in known]).ratio if len(known) > 1 else 1.0
        losses = [row["loss"] for row in best[WIDE]["runs"]]
        loss = best[WIDE]["loss"] or min(losses)
        print(f"| {kind} | {' | '.join(shown)} | {ratio:.2f} | {loss:.3f} |")
    print(
        f"\n| law of the loss over | inside the interval, of {TRIALS} | mean error | mean width of the interval |"
    )
    print("|---|---|---|---|")
    for of in ("parameters", "flops"):
        inside, errors, widths = 0, [], []
        for seed in range(1, TRIALS + 1):
            known_runs = [runs[width, seed] for width in NARROW]
            wide = runs[WIDE, seed]
            told = predict(
                [one[of] for one in known_runs], [one["loss"] for one in known_runs], 0.0, wide[of]
            )
            inside += told.low <= wide["loss"] <= told.high
            errors.append(abs(told.value - wide["loss"]))
            widths.append(told.high - told.low)
        print(f"| {of} | {inside} | {sum(errors) / TRIALS:.3f} | {sum(widths) / TRIALS:.3f} |")


if __name__ == "__main__":
    main()
