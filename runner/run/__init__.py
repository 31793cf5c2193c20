"""A run on disk, and its surroundings.

- `folder`: the run folder and its status; `metrics_file`: `metrics.csv`; `audit`: `order.txt`.
- `command`: exit statuses, answers as JSON, and seals of what was typed.
- `environment`: versions, machine and git state; `redaction`: texts without secrets.
- `cluster`: this process among those of srun or torchrun; `signals`: signals that stop a run.
- `errors`: one message instead of a traceback.
- `lifetime`: processes without parents, output without readers.
- `files`: writing atomically, and the newest of many; `lazy`: names imported when they are asked for.
- `model_folder`: the exported model of a run; `sweep_folder`: a sweep on disk.
"""
