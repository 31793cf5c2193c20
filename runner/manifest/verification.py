"""Checks a run folder or an exported model against its manifest, and signs models and checks their signatures.

`model-signing` (OpenSSF) signs every file of a model's folder, the manifest among them.
"""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

from tiryns.runner.manifest import inputs
from tiryns.runner.manifest.differences import SINCE, digest_changes
from tiryns.runner.manifest.digests import value_digest
from tiryns.runner.manifest.inputs import SIGNATURE
from tiryns.runner.manifest.record import outputs_of
from tiryns.runner.run.command.failure import coded
from tiryns.runner.run.files import meant_run


def sign(folder: Path, private_key: Path) -> Path:
    """Writes the signature of a model, or of a run folder's model, next to its manifest; ValueError for a wrong key."""
    model, library = _model_in(folder), _library("signing")
    file = model / SIGNATURE
    try:
        signer = library.Config().use_elliptic_key_signer(private_key=_readable(private_key))
    except ValueError as error:
        raise ValueError(f"{str(private_key)!r} is no private key of an elliptic curve: {error}") from error
    file.unlink(missing_ok=True)  # a former one would be signed too
    signer.sign(model, file)
    return file


def check_signature(folder: Path, public_key: Path) -> list[str]:
    """Returns one line if the signature of a model, or of a run folder's model, is wrong, else []; raises as `sign`."""
    model, library = _model_in(folder), _library("verifying")
    file = model / SIGNATURE
    if not file.is_file():
        return [f"{file} is missing: the model is not signed"]
    try:
        checker = library.Config().use_elliptic_key_verifier(public_key=_readable(public_key))
    except ValueError as error:
        raise ValueError(f"{str(public_key)!r} is no public key of an elliptic curve: {error}") from error
    try:
        checker.set_hashing_config(_library("hashing").Config().set_ignored_paths(paths=[file]))
        checker.verify(model, file)
    except Exception as error:  # those of protocol, cryptography and json
        return [f"{file} is no signature of this model by that key: {error or type(error).__name__}"]
    return []


def _model_in(folder: Path) -> Path:
    return folder / "model" if (folder / "model").is_dir() else folder


def _readable(key: Path) -> Path:
    with open(key, "rb"):
        return key


def _library(part: str) -> ModuleType:
    try:
        return import_module(f"model_signing.{part}")
    except ImportError as error:
        raise ImportError(
            f"signatures need model-signing: pip install 'tiryns[signing]' ({error})"
        ) from error


LINKS = {
    "weights": ("the weights that it began with", inputs.weights_of),
    "checkpoint": ("the checkpoint that it branched from", lambda path: inputs.checkpoint_of(Path(path))),
}
"""Inputs that other runs may have made: their names in words, and the functions that read them."""


def verify(folder: Path, alone: bool = False) -> list[str]:
    """Returns a line for each deviation from the manifest and, unless `alone`, for each break in the chain of lineage.

    Raises ValueError if the manifest is missing, or was written before the run was done.
    """
    if not folder.exists():
        problem = f"there is no run folder or exported model {str(folder)!r}{meant_run(folder)}"
        raise coded("no_such_run", problem)
    manifest = inputs.read_manifest(folder)
    if not manifest:
        why = "it is no run folder or exported model, the file is damaged, or callback.manifest was off"
        raise ValueError(f"{str(folder)!r} has no {inputs.FILE_NAME}: {why}")
    if not manifest.get("complete"):
        problem = f"is not done, so its {inputs.FILE_NAME} has no results to compare"
        raise ValueError(f"the run {str(folder)!r} {problem}")
    lines = [*_manifest_changes(manifest, inputs.FILE_NAME), *_outputs(folder, manifest)]
    return lines if alone else [*lines, *_lineage(manifest, set())]


def _manifest_changes(manifest: inputs.Manifest, name: str) -> Iterator[str]:
    content = {key: value for key, value in manifest.items() if key != "digest"}
    if manifest.get("complete") and manifest.get("digest") != value_digest(content):
        yield f"{name} was changed"


def _outputs(folder: Path, manifest: inputs.Manifest) -> Iterator[str]:
    outputs: dict[str, str] = manifest["outputs"]
    if (folder / "config.json").is_file():  # an exported model by itself
        outputs, digests = _below("model/", outputs), inputs.model_digests(folder)
    else:
        digests = {name: one for name, one in outputs_of(folder).items() if name in outputs or "/" in name}
        model = folder / "model"
        if model.is_dir() and inputs.read_manifest(model) != manifest:
            yield f"model/{inputs.FILE_NAME} is not the {inputs.FILE_NAME} of the run"
    yield from digest_changes(outputs, digests, SINCE)


def _below(folder: str, digests: dict[str, str]) -> dict[str, str]:
    return {name.removeprefix(folder): digest for name, digest in digests.items() if name.startswith(folder)}


def _lineage(manifest: inputs.Manifest, seen: set[str]) -> Iterator[str]:
    """Yields a line for each problem of a run's inputs, and of the inputs of the runs that made them."""
    for kind, (words, look) in LINKS.items():
        entry = manifest["inputs"].get(kind)
        path = str((entry or {}).get("path") or (entry or {}).get("name"))
        if not entry or path in seen:
            continue
        seen.add(path)
        link, above = f"{words}, {path!r}", entry.get("manifest") or {}
        yield from _manifest_changes(above, f"{link}: its manifest in {inputs.FILE_NAME}")
        if above.get("complete") and not _are_outputs(entry["files"], above["outputs"], kind, Path(path)):
            yield f"{link}: its manifest describes other files"
        if not Path(path).exists():
            yield f"{link}: it is not here, so it cannot be compared"
        else:
            now, files = look(path), entry.get("files", {})
            here = {name: digest for name, digest in now.get("files", {}).items() if name in files}
            yield from (f"{link}: {line}" for line in digest_changes(files, here, SINCE))
            if above.get("complete") and now.get("manifest") != above:
                yield f"{link}: its {inputs.FILE_NAME} was changed"
        yield from _lineage(above, seen) if above else ()


def _are_outputs(files: dict[str, str], outputs: dict[str, str], kind: str, path: Path) -> bool:
    if kind == "weights":
        return files == _below("model/", outputs)
    name = f"checkpoints/{path.name}"
    return files == (_below(f"{name}/", outputs) or {".": outputs.get(name, "")})
