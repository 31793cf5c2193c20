"""Tokenizer and image processor of a vision-language model: its own, or new ones for random weights."""

import importlib.util
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isqrt
from pathlib import Path
from typing import Any, NamedTuple

from transformers import AutoConfig, AutoImageProcessor, AutoProcessor, ProcessorMixin
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES, processor_class_from_name
from transformers.utils import cached_file

from tiryns.conf.data.common import ImagesAndText
from tiryns.conf.values import check_choice
from tiryns.runner.config.loading import CustomCodeRefused, from_pretrained
from tiryns.runner.data.micro_batch import Tokenizer
from tiryns.runner.data.text.tokenizer import load_tokenizer, train_tokenizer
from tiryns.runner.data.vision.conversation_encoder import PLAIN_TEMPLATE, ConversationEncoder
from tiryns.runner.data.vision.conversations import ASSISTANT, IMAGE_PLACE, Conversation
from tiryns.runner.data.vision.images import EncodesWithProcessor, ImageEncoder
from tiryns.runner.run.errors import reason_of
from tiryns.runner.run.model_folder import model_folder


def processor_of(name_or_path: str) -> Any:
    """Returns the processor of a model; without torchvision it reads no videos, but saves their settings.

    Images go through Pillow either way: torchvision resizes to slightly other pixels.
    """
    has_torchvision = importlib.util.find_spec("torchvision") is not None
    if not has_torchvision:
        settings, _ = ProcessorMixin.get_processor_dict(name_or_path)
        base = processor_class_from_name(settings.get("processor_class") or _by_architecture(name_or_path))
        if base is not None and any("video" in part for part in base.get_attributes()):
            processor = from_pretrained(_image_only(base), name_or_path)
            processor.video_settings = settings.get("video_processor") or _video_settings(name_or_path)
            return processor
    processor = from_pretrained(AutoProcessor, name_or_path)
    if has_torchvision and hasattr(processor, "image_processor"):
        processor.image_processor = from_pretrained(AutoImageProcessor, name_or_path, backend="pil")
    return processor


def _by_architecture(name_or_path: str) -> str:
    try:
        architecture = from_pretrained(AutoConfig, name_or_path).model_type
    except CustomCodeRefused:
        raise
    except (OSError, ValueError):
        return ""
    return str(PROCESSOR_MAPPING_NAMES.get(architecture, ""))


class _WithoutVideos(ProcessorMixin):
    """Takes None for the video processor."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        arguments = {name: value for name, value in kwargs.items() if value is not None}
        super().__init__(*(value for value in args if value is not None), **arguments)


def _image_only(base: Any) -> Any:
    """Returns the processor class `base` without its video processor."""

    class ImageOnly(base, _WithoutVideos):
        __init__ = base.__init__  # its parameters tell the parts

        @classmethod
        def from_args_and_dict(cls, args: Any, processor_dict: dict[str, Any], **kwargs: Any) -> Any:
            by_name = dict(zip(cls.get_attributes(), args, strict=False))
            parts = [by_name.get(part) for part in base.get_attributes()]
            return super().from_args_and_dict(parts, processor_dict, **kwargs)

        @classmethod
        def get_attributes(cls) -> list[str]:
            return [part for part in super().get_attributes() if "video" not in part]

        def to_dict(self) -> dict[str, object]:
            settings = getattr(self, "video_settings", None)
            return super().to_dict() | ({"video_processor": settings} if settings else {})

        def __reduce__(self) -> tuple[object, ...]:
            return _empty, (base,), self.__dict__

    ImageOnly.__name__ = base.__name__
    return ImageOnly


def _empty(base: object) -> Any:
    """Returns a processor without parts, for pickle, which cannot find its class by name."""
    kind = _image_only(base)
    return kind.__new__(kind)


def _video_settings(name_or_path: str) -> dict[str, object] | None:
    """Returns the video settings, which older models have in a separate file; None if the file is missing."""
    file = cached_file(
        name_or_path,
        "video_preprocessor_config.json",
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return None if file is None else dict(json.loads(Path(file).read_text("utf-8")))


SPECIAL_TOKENS = {
    "llava": ("<image>",),
    "idefics3": ("<image>", "<fake_token_around_image>", "<end_of_utterance>", "<global-img>"),
}
"""The tokens that an architecture adds to a tokenizer, for each architecture of `make_processor`."""


class VisionProcessor(NamedTuple):
    """A `processor` of transformers, and the encoder of its images."""

    processor: Any
    images: ImageEncoder

    @property
    def tokenizer(self) -> Tokenizer:
        """The processor's tokenizer; it has a chat template."""
        tokenizer: Tokenizer = self.processor.tokenizer
        return tokenizer

    def encoder(self, max_length: int, too_long: str) -> ConversationEncoder:
        """An encoder of conversations of up to `max_length` tokens."""
        return ConversationEncoder(self.tokenizer, self.images, max_length, too_long, ignore_index=-100)


def find_processor(settings: ImagesAndText, texts: Callable[[], Iterable[str]]) -> VisionProcessor:
    """Returns the processor `settings.processor`; if that is None, makes one for a model with random weights.

    A new processor has the tokenizer `settings.tokenizer`, or one trained on `texts`. Raises ValueError for a model that
    cannot read images, or that reads fewer than `settings.max_length` tokens.
    """
    if settings.processor is not None:
        vision = load_processor(settings.processor, settings.processor_options)
        if settings.max_length > vision.tokenizer.model_max_length:
            raise ValueError(
                f"data.max_length={settings.max_length} is more than the {vision.tokenizer.model_max_length} tokens that "
                f"{settings.processor!r} can read"
            )
        return vision
    if settings.processor_options:
        raise ValueError(
            "data.processor_options are for a loaded model's processor; a model with random weights has the "
            "settings model.image_size and model.image_places instead"
        )
    if None in (settings.architecture, settings.image_size, settings.image_places):
        raise ValueError(
            "the model reads no images: choose one that does, such as model=llava_tiny, or model=pretrained "
            "model.name_or_path=<a vision-language model>"
        )
    if settings.tokenizer is None:
        training = (settings.tokenizer_kind, settings.vocab_size, settings.lowercase)
        tokenizer = train_conversation_tokenizer(list(texts()), *training)
    else:
        tokenizer = load_tokenizer(settings.tokenizer, needed=("pad", "eos"))
    return make_processor(settings.architecture, tokenizer, settings.image_size, settings.image_places)


def load_processor(name_or_path: str, options: Mapping[str, object] | None = None) -> VisionProcessor:
    """Returns the processor of a vision-language model, by a hub name, a folder, or the folder of a run.

    `options` replace settings of its image processor, such as `do_image_splitting` or `size`. Raises FileNotFoundError
    for a model without a processor of images, and ValueError for one that cannot be used here, or for unknown options.
    """
    try:
        processor = processor_of(model_folder(name_or_path))
    except CustomCodeRefused:
        raise
    except Exception as error:  # the library raises a dozen kinds, some without a message
        raise FileNotFoundError(
            f"{name_or_path!r} has no processor that can be loaded ({reason_of(error)}). Give the name or folder of a "
            "vision-language model with processor_config.json, tokenizer and image processor"
        ) from error
    if getattr(processor, "image_processor", None) is None or getattr(processor, "tokenizer", None) is None:
        raise FileNotFoundError(
            f"{name_or_path!r} has a {type(processor).__name__}, expected a processor of texts and images: give the "
            "name or folder of a vision-language model"
        )
    if options:
        images = processor.image_processor
        settings = images.to_dict()
        for option in options:
            check_choice("data.processor_options", option, sorted(settings))
        processor.image_processor = type(images).from_dict(settings | dict(options))
    return vision_processor(processor)


def make_processor(
    architecture: str, tokenizer: Tokenizer, image_size: int, image_places: int
) -> VisionProcessor:
    """Returns a processor for random weights: `image_size` x `image_size` pixels and `image_places` tokens per image.

    Adds the architecture's special tokens and a chat template to the tokenizer. Raises ValueError for an unknown
    architecture, or if `image_places` is not the square of a divisor of `image_size`.
    """
    import transformers

    check_choice("model.architecture", architecture, SPECIAL_TOKENS)
    side = isqrt(image_places)
    if side < 1 or side**2 != image_places or image_size % side:
        raise ValueError(
            f"{image_places} places for an image of {image_size} pixels squared: expected the square of a divisor of "
            f"{image_size}"
        )
    tokens = list(SPECIAL_TOKENS[architecture])
    tokenizer.add_special_tokens({"extra_special_tokens": tokens}, replace_extra_special_tokens=False)
    if architecture == "idefics3":
        edge = {"longest_edge": image_size}
        as_it_is: dict[str, Any] = {"size": edge, "max_image_size": edge, "do_image_splitting": False}
        tiles = transformers.Idefics3ImageProcessorPil(**as_it_is)
        return vision_processor(transformers.Idefics3Processor(tiles, tokenizer, image_seq_len=image_places))
    square = {"height": image_size, "width": image_size}
    processor = transformers.LlavaProcessor(
        transformers.CLIPImageProcessorPil(size=square, crop_size=square, do_center_crop=False),
        tokenizer,
        patch_size=image_size // side,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,  # the class token, which the strategy drops
    )
    return vision_processor(processor)


def vision_processor(processor: Any) -> VisionProcessor:
    """Returns a processor with the encoder of its images. Raises ValueError if it has no token for images."""
    tokenizer = processor.tokenizer
    if tokenizer.chat_template is None:
        tokenizer.chat_template = getattr(processor, "chat_template", None) or PLAIN_TEMPLATE
    name = type(processor).__name__
    place = getattr(processor, "image_token", None)
    place = getattr(place, "content", place)  # an AddedToken
    if not isinstance(place, str) or place not in tokenizer.get_vocab():
        raise ValueError(f"{name} has no token for images, which is needed here")
    place_id = tokenizer.convert_tokens_to_ids(place)
    others = [getattr(part, "image_token_id", None) for part in (tokenizer, processor)]  # in its place
    feature_ids = [place_id, *(i for i in others if i is not None)]
    try:
        images = ImageEncoder(EncodesWithProcessor(processor, place), place_id, feature_ids)
    except Exception as error:  # processors raise what they like
        raise ValueError(f"{name} cannot encode an image in place of its token {place}: {error}") from error
    return VisionProcessor(processor, images)


def conversation_texts(conversations: Iterable[Conversation]) -> Iterator[str]:
    """Yields the turns of conversations as texts, to train a tokenizer on."""
    for conversation in conversations:
        for turn in conversation.turns:
            speaker = "ASSISTANT" if turn.role == ASSISTANT else "USER"
            yield f"{speaker}: {turn.text.replace(IMAGE_PLACE, '')}"


def train_conversation_tokenizer(
    texts: Iterable[str], kind: str, vocab_size: int, lowercase: bool
) -> Tokenizer:
    """A tokenizer trained on texts, for a language model: [CLS] begins a text, [SEP] ends an answer."""
    tokenizer = train_tokenizer(texts, kind=kind, vocab_size=vocab_size, lowercase=lowercase)
    tokenizer.bos_token, tokenizer.eos_token = tokenizer.cls_token, tokenizer.sep_token
    return tokenizer
