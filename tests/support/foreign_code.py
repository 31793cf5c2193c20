"""Targets that run code, open files or load libraries: what no recipe may name, wherever in a config it does."""

TARGETS = [
    # torch
    "torch.utils.collect_env.run", "torch.utils.collect_env.run_and_read_all", "torch.utils.model_zoo.load_url",
    "torch.hub.load", "torch.hub.load_state_dict_from_url", "torch.hub.download_url_to_file", "torch.load", "torch.save",
    "torch.serialization.load", "torch.jit.load", "torch.jit.CompilationUnit", "torch.ops.load_library",
    "torch.classes.load_library", "torch.utils.cpp_extension.load", "torch.utils.cpp_extension.load_inline",
    "torch.utils.benchmark.Timer", "torch.distributed.launch.main", "torch.distributed.run.main",
    "torch.multiprocessing.spawn", "torch.package.PackageImporter", "torch.compile", "torch.export.load",
    "torch.fx.GraphModule", "torch.utils.data.DataLoader", "torch.os.system", "torch.sys.modules.clear",
    "torch.testing._internal.common_utils.run_tests", "torch._C._import_dummy_logger", "torch.from_file",
    # transformers, lightning, torchmetrics, pytorch_optimizer
    "transformers.pipeline", "transformers.AutoModel.from_pretrained", "transformers.AutoTokenizer.from_pretrained",
    "transformers.dynamic_module_utils.get_class_from_dynamic_module", "transformers.utils.import_utils.os.system",
    "transformers.Trainer", "transformers.trainer_utils.set_seed", "lightning.pytorch.cli.LightningCLI",
    "lightning.pytorch.callbacks.ModelCheckpoint.from_checkpoint", "lightning.fabric.utilities.cloud_io._load",
    "lightning.pytorch.core.saving.load_hparams_from_yaml", "lightning.pytorch.demos.mnist_datamodule.MNISTDataModule",
    "lightning.pytorch.LightningModule.load_from_checkpoint", "lightning.pytorch.utilities.model_helpers.os.system",
    "torchmetrics.utilities.imports.Version", "pytorch_optimizer.load_optimizer",
    # ours
    "runner.run.environment.output_of", "runner.cli.models.push.push_to_hub", "runner.launch.agent.supervise",
    "runner.launch.requeue.requeue", "runner.train.main",
    "runner.cli.models.consolidate.consolidate", "runner.run.folder.write_atomically", "runner.build.build",
    "runner.config.targets.allow_targets", "runner.config.loading.allow_custom_code",
    "runner.checkpoints.files.os.remove",
    # hydra and omegaconf
    "hydra.utils.call", "hydra.utils.instantiate", "hydra.utils.get_method", "hydra.utils.get_class", "hydra.main",
    "hydra._internal.instantiate._instantiate2.instantiate", "hydra.core.utils.run_job", "hydra.core.utils.configure_log",
    "hydra._internal.utils.run_and_report", "omegaconf.OmegaConf.load", "hydra.experimental.callbacks.pickle.loads",
    # Python's own
    "os.system", "os.popen", "os.remove", "os.execv", "posix.system", "subprocess.run", "subprocess.Popen",
    "subprocess.check_output", "builtins.eval", "builtins.exec", "builtins.open", "builtins.__import__",
    "builtins.compile", "importlib.import_module", "runpy.run_path", "runpy.run_module", "code.interact",
    "pickle.load", "pickle.loads", "shutil.rmtree", "ctypes.CDLL", "pathlib.Path.write_text", "pathlib.Path.unlink",
    "webbrowser.open", "socket.create_connection", "urllib.request.urlretrieve", "multiprocessing.Process",
    "functools.partial", "functools.reduce", "operator.methodcaller", "timeit.timeit", "pty.spawn", "antigravity.geohash",
    # other libraries
    "numpy.load", "numpy.fromfile", "numpy.ctypeslib.load_library", "pandas.read_pickle", "joblib.load",
    "datasets.load_dataset", "datasets.load_from_disk", "wandb.init", "wandb.restore", "wandb.sdk.launch.launch",
    "megatron.energon.get_train_dataset", "megatron.energon.get_loader", "megatron.energon.load_dataset",
    "megatron.energon.flavors.base_dataset.os.system", "huggingface_hub.snapshot_download", "submitit.AutoExecutor",
    "optuna.load_study", "yaml.unsafe_load", "cloudpickle.loads", "mine.Anything", "torch", "torch.", "", "..os.system",
]  # fmt: skip
"""None is an option that is registered, nor a class of a group's kind."""

PLACES = [
    "callback.x", "callback.throughput", "logger.x", "objective", "sampler", "model", "module", "optimizer", "scheduler",
    "trainer", "checkpoint", "data", "data.source", "data.validation.x", "model.config.x", "callback.x.inner",
    "trainer.devices",
]  # fmt: skip
"""Where a config may name a target: components of each group, and nodes inside of them."""

RUNS = "{_target_: torch.utils.collect_env.run, command: touch pwned}"
CALLS = "{_target_: os.system, command: touch pwned}"
STARTS = "{class: subprocess.Popen, args: touch pwned, shell: true}"

RECIPES = {
    "callback": (f"callback:\n  x: {RUNS}\n", "callback.x: the target"),
    "inside": (f"model:\n  config: {{x: {CALLS}}}\n", "model.config.x: the target"),
    "hydras_callback": (f"hydra:\n  callbacks:\n    x: {RUNS}\n", "hydra.callbacks.x: the target"),
    "instead_of_the_checks": (f"hydra:\n  callbacks:\n    checks: {CALLS}\n", "hydra.callbacks.checks: the target"),
    "referred_to": (f"model:\n  config: {{x: {CALLS}}}\nhydra:\n  callbacks:\n    x: ${{model.config.x}}\n",
                    "refers to no other"),
    "created": (f'hydra:\n  callbacks:\n    x: "${{oc.create:{CALLS}}}"\n', "refers to no other"),
    "created_callback": (f'callback:\n  x: "${{oc.create:{CALLS}}}"\n', "'os.system' is not allowed"),
    "interpolated": ("data:\n  text_column: os.system\ncallback:\n  x: {_target_: '${data.text_column}', command: x}\n",
                     "callback.x: the target 'os.system'"),
    "sweeper": (f"hydra:\n  sweeper:\n    params: {{x: {CALLS}}}\n", "params.x: the target"),
    "handler": (f"hydra:\n  job_logging:\n    handlers:\n      x: {STARTS}\n", "'subprocess.Popen' is not allowed"),
    "factory": ("hydra:\n  hydra_logging:\n    filters:\n      x: {(): os.system, command: touch pwned}\n",
                "'os.system' is not allowed"),
    "external": ("hydra:\n  hydra_logging:\n    handlers:\n      console: {stream: ext://os.system}\n", "ext://os.system"),
    "logging": ("model:\n  config: {x: {version: 1}}\nhydra:\n  job_logging: ${model.config.x}\n", "hydra.job_logging"),
    "log_file": ("hydra:\n  job_logging:\n    handlers:\n      file: {filename: pwned}\n", "expected a log in its run"),
    "environment": ("hydra:\n  job:\n    env_set: {PYTHONPATH: /evil}\n", "hydra.job.env_set can make"),
    "listed": (f"allowed_targets: [os.system]\ncallback:\n  x: {CALLS}\n", "allowed_targets lets code of others run"),
    "custom_code": ("trust_remote_code: true\n", "trust_remote_code lets code of others run"),
    "remote_code": ("model:\n  config: {trust_remote_code: true}\n", "model.config.trust_remote_code is refused"),
    "kernel": ("model:\n  config: {attn_implementation: evil/kernel}\n", "it would run code from the hub"),
    "params": ("hydra:\n  sweeper:\n    params: {allowed_targets: '[os.system]'}\n", "allowed_targets lets code"),
}  # fmt: skip
"""Recipes that would run code, and what is said of each."""
