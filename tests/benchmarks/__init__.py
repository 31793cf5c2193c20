"""Benchmarks against peers: each prints a table of ours and theirs, measured side by side in one run."""

from tiryns.runner.launch.processes import quiet_threads

quiet_threads()  # before torch is imported: threads that spin for long measure the machine's other work
