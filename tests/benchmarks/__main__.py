"""Runs the benchmarks: all of them, or those named: `python -m tests.benchmarks permute step`."""

import importlib
import pkgutil
import platform
import sys

import torch

import tests.benchmarks as package


def main() -> None:
    modules = [module.name for module in pkgutil.iter_modules(package.__path__)]
    names = [name.removeprefix("bench_") for name in modules if name.startswith("bench_")]
    chosen = sys.argv[1:] or names
    if unknown := set(chosen) - set(names):
        sys.exit(f"no benchmark {', '.join(sorted(unknown))}; there are: {', '.join(names)}")
    print(
        f"Python {platform.python_version()}, torch {torch.__version__}, {torch.get_num_threads()} threads\n"
    )
    for name in chosen:
        print(f"## {name}\n", flush=True)
        sys.argv[1:] = []
        importlib.import_module(f"tests.benchmarks.bench_{name}").main()
        print(flush=True)


if __name__ == "__main__":
    main()
