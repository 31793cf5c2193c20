"""`tiryns-lmms-eval RUN --tasks NAME,NAME`: measures a vision-language model on tasks of lmms-eval.

`--out FOLDER` writes `evaluation.json`, the predictions and `report.html`, as `tiryns evaluate` does. Where a task
cannot be measured the exit status is 1, with one line, and nothing is written.
"""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from loguru import logger

from tiryns.runner.cli.models.evaluate import progress, write
from tiryns.runner.config.checks import refusing
from tiryns.runner.inference.evaluated import Asked
from tiryns.runner.report.evaluation import figures_rows
from tiryns.runner.report.table import as_text
from tiryns.runner.run.command.json_output import add_json_argument, print_json


def parser() -> ArgumentParser:
    """Returns the parser of the command."""
    made = ArgumentParser("tiryns-lmms-eval", description=__doc__)
    made.add_argument("run", metavar="RUN", help="run folder, or folder of a Hugging Face model")
    made.add_argument("--tasks", required=True, metavar="NAME,...", help="tasks, or groups of them")
    made.add_argument(
        "--include-path", type=Path, metavar="FOLDER", help="folder with YAML files of your tasks"
    )
    made.add_argument("--limit", type=int, metavar="N", help="the first N documents of each task (all)")
    made.add_argument("--max-new-tokens", type=int, metavar="N", help="the longest answer (the task's)")
    made.add_argument("--batch-size", type=int, metavar="N", help="samples of a micro-batch (the run's)")
    made.add_argument("--precision", help="32-true or bf16-mixed (the run's)")
    made.add_argument("--resamples", type=int, default=1000, metavar="N", help="of each interval (1000)")
    made.add_argument("--seed", type=int, default=0, metavar="N", help="of the resamples (0)")
    made.add_argument("--out", type=Path, metavar="FOLDER", help="folder for figures, predictions and page")
    add_json_argument(made)
    return made


def main(words: Sequence[str] | None = None) -> None:
    """Prints the figures, and writes them with `--out`."""
    arguments = parser().parse_args(words)
    logger.remove()
    logger.add(sys.stderr, level="WARNING", format="{message}")
    with refusing():
        names = [name for name in arguments.tasks.split(",") if name]
        if not names:
            raise ValueError(
                "--tasks names none: expected names of lmms-eval's tasks, with commas between them"
            )
        try:
            from tiryns_lmms_eval.tasks import AskedTasks, evaluate_tasks
        except ImportError as error:
            raise ImportError(f"lmms-eval is missing ({error}): pip install 'tiryns[lmms-eval]'") from error
        size = {} if arguments.batch_size is None else {"micro_batch_size": arguments.batch_size}
        asked = Asked(
            size, arguments.precision, None, arguments.resamples, arguments.seed,
            max_new_tokens=arguments.max_new_tokens,
        )  # fmt: skip
        tasks = AskedTasks(names, arguments.include_path, arguments.limit)
        found = evaluate_tasks(arguments.run, tasks, asked, progress)
        if arguments.out is not None:
            write(found, arguments.out)
    if arguments.json:
        print_json(found.content)
    else:
        print(as_text(*figures_rows(found.content)), end="")
