"""Decodes images, from bytes or a folder, to RGB, and encodes them as tokens of a text and input tensors of a model.

Letters in shapes: L tokens of an image, n images, r rows of an image in a tensor (1 if stacked, else one per patch).
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps

from tiryns.runner.data.micro_batch import FlatSamples

Size = tuple[int, int]
"""Width and height in pixels."""

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""Formats that are decoded. Decoding some other formats would run external programs."""

MOST_PIXELS = 2**26
"""Pixels of the largest image that is decoded: a small file may claim to hold gigabytes."""

SIDEWAYS = (5, 6, 7, 8)
"""EXIF orientations that exchange width and height."""

EXIF_IN_PNG = {"exif", "xmp", "XML:com.adobe.xmp", "Raw profile type exif", "Raw profile type APP1"}
"""Entries of a PNG that hold EXIF data. If all are missing, `getexif` would decode the image to search for EXIF."""


class UndecodableImage(ValueError):
    """An image is there but cannot be decoded."""


class Images(Protocol):
    """Images by reference; `where` names the row in messages."""

    def check(self, reference: str, where: str) -> None:
        """Raises ValueError or FileNotFoundError for a reference without an image; decodes nothing."""

    def read(self, reference: str, where: str) -> Image.Image:
        """Returns the image in RGB; raises UndecodableImage where it is broken."""


@runtime_checkable
class SizedImages(Images, Protocol):
    """Images whose sizes are known before they are decoded."""

    def size_of(self, reference: str, where: str) -> Size:
        """Width and height; raises UndecodableImage where they cannot be found."""


class ImageFolder:
    """The images below a folder, by their paths relative to it."""

    def __init__(self, folder: str | Path) -> None:
        """Raises FileNotFoundError where there is no such folder."""
        self.folder = Path(folder).expanduser().resolve()
        if not self.folder.is_dir():
            raise FileNotFoundError(f"there is no folder of images {str(folder)!r}")

    def path(self, reference: str, where: str) -> Path:
        """Returns the file of a reference. Raises FileNotFoundError, or ValueError for a path that leaves the folder."""
        try:
            path = (self.folder / reference).resolve()
            is_file = path.is_file()
        except (OSError, ValueError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ValueError(f"{where}: the image path {reference!r:.200} is not valid: {reason}") from None
        if not path.is_relative_to(self.folder):
            raise ValueError(
                f"{where}: the image path {reference!r} leaves the folder of images {str(self.folder)!r}; give paths "
                "relative to it"
            )
        if not is_file:
            raise FileNotFoundError(f"{where}: there is no image {reference!r} in {str(self.folder)!r}")
        return path

    def check(self, reference: str, where: str) -> None:
        """Raises as `path`."""
        self.path(reference, where)

    def size_of(self, reference: str, where: str) -> Size:
        """Width and height; raises as `read`."""
        return size_of_image(self.path(reference, where), f"{where}: the image {reference!r}")

    def read(self, reference: str, where: str) -> Image.Image:
        """Returns the image in RGB; raises as `path`, and UndecodableImage for a broken one."""
        return decode_image(self.path(reference, where), f"{where}: the image {reference!r}")


def decode_image(source: bytes | Path, name: str) -> Image.Image:
    """Returns an image in RGB, turned upright by EXIF, white where transparent. UndecodableImage contains `name`."""
    with _open_image(source, name) as image:
        ImageOps.exif_transpose(image, in_place=True)
        return in_rgb(image)


def in_rgb(image: Image.Image) -> Image.Image:
    """Returns an image in RGB, white where transparent; ValueError for 32-bit numbers, which Pillow would clip."""
    if image.mode.startswith("I;16") or (image.mode, image.format) == ("I", "PPM"):  # which Pillow would clip
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    elif image.mode == "F" or (image.mode == "I" and np.abs(np.asarray(image)).max() > 255):
        raise ValueError(f"its pixels are 32-bit numbers (mode {image.mode}): save it with 8 or 16 bits")
    if image.has_transparency_data:
        above = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", above.size, "white"), above)
    return image.convert("RGB")


def size_of_image(source: bytes | Path, name: str) -> Size:
    """Returns the size that `decode_image` gives, but reads only the file's beginning; raises like `decode_image`."""
    with _open_image(source, name) as image:
        has_exif = image.format != "PNG" or EXIF_IN_PNG.intersection(image.info)
        sideways = has_exif and image.getexif().get(ExifTags.Base.Orientation) in SIDEWAYS
        return (image.height, image.width) if sideways else image.size


@contextmanager
def _open_image(source: bytes | Path, name: str) -> Iterator[Image.Image]:
    """Yields an image of a known format. Every error in the context becomes an UndecodableImage."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            file = BytesIO(source) if isinstance(source, bytes) else source
            with Image.open(file, formats=FORMATS) as image:
                width, height = image.size
                if width * height > MOST_PIXELS:
                    raise ValueError(f"it has {width} x {height} pixels; at most {MOST_PIXELS:,} are allowed")
                yield image
    except Exception as error:  # the decoders raise a dozen kinds, some of the interpreter's own
        unknown = isinstance(error, Image.UnidentifiedImageError)
        reason = f"of no known format, which are {', '.join(FORMATS)}" if unknown else str(error)
        raise UndecodableImage(f"{name} cannot be decoded: {reason or type(error).__name__}") from error


ImageInputs = dict[str, NDArray[np.number]]
"""A model's arguments for images, [r, ...] each: `pixel_values`, and for some models `image_grid_thw` and the like."""

ImageTokens = Sequence[int] | NDArray[np.int32]
"""The tokens [L] of an image in the text."""

TEXT_INPUTS = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids", "labels")
"""Names of a processor's outputs for text."""

MARKS = ("mm_token_type_ids", "token_type_ids")
"""Names under which a processor may mark the tokens that are features of images."""

EXAMPLE_SIZE = (96, 64)
"""Size of the image that models and processors are tried with."""

OTHER_SIZES = ((40, 40), (90, 50), (60, 250), (1400, 900))
"""Sizes that show whether an image's tokens depend on its size."""


class EncodedImage(NamedTuple):
    """An image as `ids` [L], its tokens in the text, and `inputs`, the model's arguments."""

    ids: list[int]
    inputs: ImageInputs
    marks: str | None = None
    """The name of a text input that is 1 for features of images and 0 elsewhere, for models that need it."""


class ImageEncoder:
    """Images as a model reads them. The tokens of an image may depend on its size, but on nothing else.

    `place_id` is the placeholder of an image in a text; the tokens of the image replace it. Among these tokens,
    `feature_id` occurs once for each feature that the model has for the image.
    """

    def __init__(
        self, encode: "EncodesWithProcessor | EncodesInPlaces", place_id: int, feature_ids: Sequence[int]
    ) -> None:
        """Sets `feature_id` to the most frequent of `feature_ids` in an image. ValueError if it has none of them."""
        self._encode, self.place_id = encode, place_id
        across, down = np.meshgrid(*(np.linspace(16, 240, size, dtype=np.uint8) for size in EXAMPLE_SIZE))
        colours = Image.fromarray(np.stack([across, down, across[:, ::-1]], axis=-1))
        images = [colours, *(Image.new("RGB", size, "grey") for size in OTHER_SIZES)]
        encodings = [encode(image) for image in images]
        self.example = encodings[0]
        self.feature_id = max(feature_ids, key=self.example.ids.count)
        if self.feature_id not in self.example.ids:
            raise ValueError("the text of an image contains no token for images")
        self.fixed = all(other.ids == self.example.ids for other in encodings)
        both = ((whole.inputs, encode.inputs(image)) for whole, image in zip(encodings, images, strict=True))
        self._needs_text = any(
            inputs.keys() != others.keys() or not all(np.array_equal(inputs[n], others[n]) for n in inputs)
            for inputs, others in both
        )
        self._ids_by_size: dict[Size, NDArray[np.int32]] = {}

    def ids(self, size: Size) -> ImageTokens:
        """Returns the tokens [L] of an image of that size."""
        if self.fixed:
            return self.example.ids
        if size not in self._ids_by_size:
            self(Image.new("RGB", size, "grey"))
        return self._ids_by_size[size]

    def __call__(self, image: Image.Image) -> tuple[ImageTokens, ImageInputs]:
        """Returns the tokens [L] of an image in RGB, and the model's inputs."""
        if self.fixed or image.size in self._ids_by_size:
            return self.ids(image.size), self.inputs(image)
        encoding = self._encode(image)
        self._ids_by_size[image.size] = np.array(encoding.ids, dtype=np.int32)
        return encoding.ids, encoding.inputs

    def inputs(self, image: Image.Image) -> ImageInputs:
        """Returns the model's inputs for an image in RGB; leaves out the text, for speed, if it makes no difference."""
        return self._encode(image).inputs if self._needs_text else self._encode.inputs(image)


class EncodesWithProcessor:
    """Encodes an image with a processor of transformers, which replaces the token `place`."""

    def __init__(self, processor: Any, place: str) -> None:
        self.processor, self.place = processor, place

    def __call__(self, image: Image.Image) -> EncodedImage:
        """Encodes an image in a text that is just `place`; raises whatever the processor raises."""
        text = {"text": [self.place], "add_special_tokens": False}
        outputs = self.processor(images=[image], **text, return_tensors="pt")
        marks = [name for name in MARKS if name in outputs and bool((outputs[name] == 1).any())]
        return EncodedImage(outputs["input_ids"][0].tolist(), _inputs(outputs), marks[0] if marks else None)

    def inputs(self, image: Image.Image) -> ImageInputs:
        """Returns the model's inputs for an image, by the image processor alone."""
        return _inputs(self.processor.image_processor(images=[image], return_tensors="pt"))


class EncodesInPlaces:
    """Encodes an image with an image processor; the placeholder tokens are `ids` for every image."""

    def __init__(self, image_processor: Any, ids: Sequence[int]) -> None:
        """Raises ValueError if the image processor does not resize all images to one size."""
        self.image_processor, self.ids = image_processor, list(ids)
        tensors = [self.inputs(Image.new("RGB", size))["pixel_values"] for size in OTHER_SIZES]
        first, *others = dict.fromkeys(pixels.shape for pixels in tensors)
        if others:
            raise ValueError(
                f"{type(image_processor).__name__} makes images of shapes {first} and {others[0]}; expected every image "
                f"in one size, as all have {len(self.ids)} places"
            )

    def __call__(self, image: Image.Image) -> EncodedImage:
        """Encodes an image in RGB."""
        return EncodedImage(self.ids, self.inputs(image))

    def inputs(self, image: Image.Image) -> ImageInputs:
        """Returns the model's inputs for an image."""
        return _inputs(self.image_processor(images=[image], return_tensors="pt"))


def join_images(images: Sequence[ImageInputs]) -> FlatSamples:
    """Returns `images`, with each input of n images end to end, and `image_rows`, with each input's rows per image [n].

    If images differ in a dimension other than the first, they are padded with zeros, as processors do.
    """
    names = list(images[0]) if images else []
    return {
        "images": {name: _end_to_end([image[name] for image in images]) for name in names},
        "image_rows": {name: np.array([len(image[name]) for image in images]) for name in names},
    }


def _inputs(outputs: Mapping[str, Any]) -> ImageInputs:
    return {name: value.numpy() for name, value in outputs.items() if name not in TEXT_INPUTS}


def _end_to_end(arrays: Sequence[NDArray[np.number]]) -> NDArray[np.number]:
    shapes = {array.shape[1:] for array in arrays}
    if len(shapes) == 1:
        return np.concatenate(arrays)
    largest = np.max(list(shapes), axis=0)
    missing = ([(0, 0), *((0, size) for size in largest - array.shape[1:])] for array in arrays)
    return np.concatenate([np.pad(array, widths) for array, widths in zip(arrays, missing, strict=True)])
