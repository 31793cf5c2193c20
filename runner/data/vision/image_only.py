"""Processors of transformers, with torchvision and without; their pixels are the same."""

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoImageProcessor, AutoProcessor, ProcessorMixin
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES, processor_class_from_name
from transformers.utils import cached_file

from tiryns.runner.config.loading import CustomCodeRefused, from_pretrained


def processor_of(name_or_path: str) -> Any:
    """The processor of a model; without torchvision one that reads no videos, but saves their settings.

    Images go through Pillow either way: torchvision resizes to slightly other pixels.
    """
    has_torchvision = importlib.util.find_spec("torchvision") is not None
    if not has_torchvision:
        settings, _ = ProcessorMixin.get_processor_dict(name_or_path)
        known = processor_class_from_name(settings.get("processor_class") or _by_architecture(name_or_path))
        if known is not None and any("video" in part for part in known.get_attributes()):
            processor = from_pretrained(_image_only(known), name_or_path)
            processor.video_settings = settings.get("video_processor") or _video_settings(name_or_path)
            return processor
    processor = from_pretrained(AutoProcessor, name_or_path)
    if has_torchvision and hasattr(processor, "image_processor"):
        processor.image_processor = from_pretrained(AutoImageProcessor, name_or_path, backend="pil")
    return processor


def _by_architecture(name_or_path: str) -> str:
    """The name of the processor that a model's architecture has."""
    try:
        architecture = from_pretrained(AutoConfig, name_or_path).model_type
    except CustomCodeRefused:
        raise
    except (OSError, ValueError):
        return ""
    return str(PROCESSOR_MAPPING_NAMES.get(architecture, ""))


class _WithoutVideos(ProcessorMixin):
    """Takes None for the video processor."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        named = {name: value for name, value in kwargs.items() if value is not None}
        super().__init__(*(value for value in args if value is not None), **named)


def _image_only(base: Any) -> Any:
    """A class of processors without its part for videos."""

    class ImageOnly(base, _WithoutVideos):
        __init__ = base.__init__  # its parameters tell the parts

        @classmethod
        def from_args_and_dict(
            cls, args: Sequence[Any], processor_dict: dict[str, Any], **kwargs: Any
        ) -> Any:
            found = dict(zip(cls.get_attributes(), args, strict=False))
            parts = [found.get(part) for part in base.get_attributes()]
            return super().from_args_and_dict(parts, processor_dict, **kwargs)

        @classmethod
        def get_attributes(cls) -> list[str]:
            return [part for part in super().get_attributes() if "video" not in part]

        def to_dict(self) -> dict[str, Any]:
            settings = getattr(self, "video_settings", None)
            return super().to_dict() | ({"video_processor": settings} if settings else {})

        def __reduce__(self) -> Any:
            return _empty, (base,), self.__dict__

    ImageOnly.__name__ = base.__name__
    return ImageOnly


def _empty(base: Any) -> Any:
    """A processor without parts; its class has no name by which pickle could find it."""
    kind = _image_only(base)
    return kind.__new__(kind)


def _video_settings(name_or_path: str) -> dict[str, Any] | None:
    """The settings that older models have in a file of their own."""
    file = cached_file(
        name_or_path,
        "video_preprocessor_config.json",
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return None if file is None else dict(json.loads(Path(file).read_text("utf-8")))
