"""A run on disk, and its surroundings.

- `folder`: `Run`, which reads a run's folder; `recording`: what training writes, leaves and locks of it, and the
  hash of a config.
- `metrics_file`: `metrics.csv`; `audit`: `order.txt`; `yaml_files`: where a file of YAML is, and what it may be.
- `command`: exit statuses, answers as JSON, the words of a command and seals of them, processes without parents.
- `environment`: packages, machine and git state; `redaction`: texts without secrets.
- `cluster`: this process among those of srun or torchrun; `signals`: signals that stop a run.
- `errors`: one message instead of a traceback.
- `files`: writing atomically, and the newest of many; `lazy`: names imported when they are asked for.
- `model_folder`: the exported model of a run, and whose a folder is.
"""
