"""`tiryns push RUN TARGET`: copies the exported model of a run, with its model card, to a folder or the hub.

TARGET is a folder (`./name`, `/path/name`, or any name without a slash), or `owner/name` of the Hugging Face hub, where
a new repository is private unless `--public` is given. The hub needs a token: `hf auth login`, or HF_TOKEN.

`--format onnx` adds the model as a graph for onnxruntime, `onnx/model.onnx`, and `--int8` a second one with int8 weights,
`onnx/model_quantized.onnx`. Both are measured beside torch on the run's test rows, else on its validation rows, for the
model card and the manifest. If outputs differ by more than 1e-4, or int8 weights cost more of the main metric than
`--most`, one line says so, and nothing is written.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tiryns.runner.run.command.json_output import print_json
from tiryns.runner.run.files import copy_folder, naming, staging
from tiryns.runner.run.lazy import many_imports

MOST = 0.01
"""Most that int8 weights may cost of the main metric."""

Convert = Callable[[Path], None]


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    add = parser.add_argument
    add("run", metavar="RUN", help="run folder")
    add("target", metavar="TARGET", help="a folder, or owner/name on the hub")
    add("--replace", action="store_true", help="replaces an existing folder")
    add("--public", action="store_true", help="makes a new repository of the hub public")
    add("--format", choices=("onnx",), help="adds the model in this format, measured beside torch")
    add("--int8", action="store_true", help="for onnx: adds a graph with int8 weights")
    add("--most", type=float, metavar="COST", help=f"allowed cost of int8 in the main metric ({MOST})")
    about = "for onnx: settings of the run that let code of others run, such as allowed_targets=[mine]"
    add("allowed", nargs="*", metavar="SETTING=VALUE", help=about)


def main(arguments: Namespace) -> None:
    """Copies or uploads the model, and prints its new path or address; ValueError without a complete model."""
    run: str = arguments.run
    convert: Convert | None = None
    if arguments.most is not None and not arguments.int8:
        raise ValueError("--most bounds what int8 weights cost: give it with --format onnx --int8")
    if arguments.format is None and (arguments.int8 or arguments.allowed):
        raise ValueError("--int8 and settings of the run are for --format onnx: add it")
    if arguments.format is not None:
        with many_imports():
            from tiryns.runner.cli.models.onnx.written import add_onnx

        most = MOST if arguments.most is None else arguments.most
        convert = partial(add_onnx, Path(run), int8=arguments.int8, most=most, allowed=arguments.allowed)
    source = Path(run) / "model" if (Path(run) / "model").is_dir() else Path(run)
    for name in ("config.json", "README.md"):
        if not (source / name).is_file():
            hint = "expected a run folder with the model/ that a run writes at its end"
            raise ValueError(f"there is no exported model in {run!r} ({name} is missing): {hint}")
    target: str | Path
    if is_hub_name(arguments.target):
        with TemporaryDirectory() as scratch:
            folder = copy_to_folder(source, Path(scratch) / "model", False, convert) if convert else source
            target = push_to_hub(folder, arguments.target, arguments.public)
    elif arguments.public:
        raise ValueError(f"--public is for the hub, and {arguments.target!r} is a folder: name owner/name")
    else:
        target = copy_to_folder(source, Path(arguments.target).expanduser(), arguments.replace, convert)
    if arguments.json:
        print_json({"model": source, "target": target})
    else:
        print(target)


def is_hub_name(target: str) -> bool:
    """Returns whether a target is `owner/name`, does not begin like a path, and `owner` is no folder here."""
    owner, *names = target.split("/")
    is_name = len(names) == 1 and owner and names[0] and not target.startswith((".", "~"))
    return bool(is_name) and not Path(owner).is_dir()


def copy_to_folder(source: Path, target: Path, replace: bool, convert: Convert | None = None) -> Path:
    """Copies the model atomically, and converts the copy; raises ValueError or OSError if that fails."""
    if target.exists() and not replace:
        raise ValueError(f"{str(target)!r} is there already; --replace replaces it")
    if target.exists() and not (target / "config.json").is_file():
        raise ValueError(f"{str(target)!r} holds no model, so --replace does not replace it: name another")
    if target.resolve().is_relative_to(source.resolve()) or source.resolve().is_relative_to(target.resolve()):
        raise ValueError(f"{str(target)!r} and {str(source)!r} lie one in the other; choose another folder")
    with naming(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with staging(target, over=True) as temporary:
            copy_folder(source, temporary)
            if convert is not None:
                convert(temporary)
    return target


def push_to_hub(source: Path, name: str, public: bool) -> str:
    """Uploads the model in one commit, and returns its address; raises ValueError if that fails."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    unreachable: Any = HfHubHTTPError.__bases__[0]  # of whichever HTTP library the hub's client is built on
    api = HfApi()
    try:
        api.create_repo(name, private=not public, exist_ok=True)
        api.upload_folder(repo_id=name, folder_path=source, commit_message="Model trained with Tiryns")
    except (OSError, unreachable) as error:  # the others are subclasses of these
        reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        folder = f"./{name.rpartition('/')[2]}"
        raise ValueError(
            f"cannot push to {name!r}: {reason}. It needs a token (`hf auth login`); push to a folder, such as {folder}"
        ) from error
    return f"{api.endpoint}/{name}"
