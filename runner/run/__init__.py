"""A run on disk, and its surroundings.

- `folder`: the run folder and its status; `metrics_file`: `metrics.csv`; `audit`: `order.txt`.
- `environment`: versions, machine and git state; `redaction`: texts without secrets.
- `cluster`: this process among those of srun or torchrun; `signals`: signals that stop a run.
- `errors`: one message instead of a traceback.
"""
