"""Processors of transformers, with torchvision and without: their pixels are the same, and nothing here needs videos."""

import importlib.util
import json
from collections.abc import Sequence
from typing import Any

from transformers import AutoConfig, AutoImageProcessor, AutoProcessor, ProcessorMixin
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES, processor_class_from_name
from transformers.utils import cached_file

from iolaus.runner.config.custom_code import CustomCodeRefused, from_pretrained


def processor_of(name_or_path: str) -> Any:
    """The processor of a model; without torchvision one that leaves videos to others, but saves their settings.

    Images go through Pillow either way: torchvision resizes to slightly other pixels, and a run may go on elsewhere.
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


_NO_VIDEOS = object()
"""Replaces the video processor of processors."""


class _WithoutVideos(ProcessorMixin):
    """Methods of processors that got `_NO_VIDEOS` as video processor."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        named = {name: value for name, value in kwargs.items() if value is not _NO_VIDEOS}
        super().__init__(*(value for value in args if value is not _NO_VIDEOS), **named)


def _image_only(base: Any) -> Any:
    """The class of a processor, which has no part for videos."""

    class ImageOnly(base, _WithoutVideos):
        __init__ = base.__init__  # its parameters tell the parts

        @classmethod
        def from_args_and_dict(
            cls, args: Sequence[Any], processor_dict: dict[str, Any], **kwargs: Any
        ) -> Any:
            found = dict(zip(cls.get_attributes(), args, strict=False))
            parts = [found.get(part, _NO_VIDEOS) for part in base.get_attributes()]
            return super().from_args_and_dict(parts, processor_dict, **kwargs)

        @classmethod
        def get_attributes(cls) -> list[str]:
            return [part for part in super().get_attributes() if "video" not in part]

        def to_dict(self) -> dict[str, Any]:
            settings = getattr(self, "video_settings", None)
            return super().to_dict() | ({"video_processor": settings} if settings else {})

        def __reduce__(self) -> Any:
            return _remade, (base, self.__dict__)

    ImageOnly.__name__ = base.__name__
    return ImageOnly


def _remade(base: Any, state: dict[str, Any]) -> Any:
    """A processor of a class that has no name to be pickled by."""
    kind = _image_only(base)
    processor = kind.__new__(kind)
    processor.__dict__.update(state)
    return processor


def _video_settings(name_or_path: str) -> dict[str, Any] | None:
    """The settings that older models have in a file of their own."""
    file = cached_file(
        name_or_path,
        "video_preprocessor_config.json",
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    if file is None:
        return None
    with open(file, encoding="utf-8") as opened:
        return dict(json.load(opened))
