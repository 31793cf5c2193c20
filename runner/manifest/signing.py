"""Signatures of exported models by `model-signing` (OpenSSF), over every file of the folder, the manifest among them."""

from importlib import import_module
from pathlib import Path
from types import ModuleType

from tiryns.runner.manifest.inputs import SIGNATURE


def sign(folder: Path, private_key: Path) -> Path:
    """Writes the signature of a model, or of that in a run folder, beside its manifest; ValueError for another key."""
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
    """A line for what is wrong with the signature of a model, or of that in a run folder; raises as `sign`."""
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
