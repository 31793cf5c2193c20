"""A run on disk, and its surroundings.

- `folder`: `Run`, which reads a run's folder; `recording`: what training writes and locks in the folder, and
  the hash of a config.
- `metrics_file`: `metrics.csv`; `audit`: `order.txt`; `yaml_files`: finds and checks files of YAML.
- `command`: exit statuses, answers as JSON, the words of a command and their seals, the ends of processes.
- `environment`: packages, machine and git state; `redaction`: texts without secrets.
- `cluster`: the rank of this process under srun or torchrun; `signals`: signals that stop a run.
- `errors`: one message instead of a traceback.
- `files`: atomic writes, and the newest of many files; `lazy`: names imported on first use.
- `model_folder`: the exported model of a run, and the owner of a folder.
"""
