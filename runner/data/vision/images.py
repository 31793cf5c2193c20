"""Images decoded to RGB, from bytes or from files of one folder; every error names the image."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Protocol

import numpy as np
from PIL import ExifTags, Image, ImageOps

from tiryns.runner.data.vision.image_inputs import Size

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""Formats that are decoded; to decode some others runs programs."""

MOST_PIXELS = 2**26
"""Pixels of the largest image that is decoded: a small file may claim to hold gigabytes."""

SIDEWAYS = (5, 6, 7, 8)
"""EXIF orientations that exchange width and height."""

EXIF_IN_PNG = {"exif", "xmp", "XML:com.adobe.xmp", "Raw profile type exif", "Raw profile type APP1"}
"""Entries of a PNG with EXIF data; without one, `getexif` would decode the image to look for it."""


class UndecodableImage(ValueError):
    """An image is there but cannot be decoded."""


class Images(Protocol):
    """Images by reference; `where` names the row in messages."""

    def check(self, reference: str, where: str) -> None:
        """Raises ValueError or FileNotFoundError for a reference without an image; decodes nothing."""

    def read(self, reference: str, where: str) -> Image.Image:
        """The image in RGB; raises UndecodableImage where it is broken."""


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
        """The file of a reference. Raises FileNotFoundError, or ValueError for a path that leaves the folder."""
        try:
            path = (self.folder / reference).resolve()
            is_file = path.is_file()
        except (OSError, ValueError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ValueError(f"{where}: the image path {reference!r:.200} is none: {reason}") from None
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
        """The image in RGB; raises as `path`, and UndecodableImage for a broken one."""
        return decode_image(self.path(reference, where), f"{where}: the image {reference!r}")


def decode_image(source: bytes | Path, name: str) -> Image.Image:
    """An image in RGB, upright, on white where transparent. Raises UndecodableImage, which gives its `name`."""
    with _opened(source, name) as opened:
        image = ImageOps.exif_transpose(opened)
        if image.mode.startswith("I;16"):  # which Pillow would clip
            image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
        if image.has_transparency_data:
            above = image.convert("RGBA")
            image = Image.alpha_composite(Image.new("RGBA", above.size, "white"), above)
        return image.convert("RGB")


def size_of_image(source: bytes | Path, name: str) -> Size:
    """The size of the image of `decode_image`, from the beginning of the file; raises as that does."""
    with _opened(source, name) as image:
        has_exif = image.format != "PNG" or EXIF_IN_PNG.intersection(image.info)
        sideways = has_exif and image.getexif().get(ExifTags.Base.Orientation) in SIDEWAYS
        return (image.height, image.width) if sideways else image.size


@contextmanager
def _opened(source: bytes | Path, name: str) -> Iterator[Image.Image]:
    """An image of a known format; every error in the context becomes an UndecodableImage."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            file = BytesIO(source) if isinstance(source, bytes) else source
            with Image.open(file, formats=FORMATS) as image:
                width, height = image.size
                if width * height > MOST_PIXELS:
                    raise ValueError(f"it has {width} x {height} pixels, {MOST_PIXELS:,} are the most")
                yield image
    except Exception as error:  # the decoders raise a dozen kinds, some of the interpreter's own
        raise UndecodableImage(f"{name} cannot be decoded: {_reason(error, source)}") from error


def _reason(error: Exception, source: bytes | Path) -> str:
    """Why an image cannot be decoded, in words."""
    if isinstance(error, Image.DecompressionBombError):  # Pillow's own bound is higher
        return f"it has more than {MOST_PIXELS:,} pixels, which are the most"
    if not isinstance(error, Image.UnidentifiedImageError):
        return str(error) or type(error).__name__
    size = len(source) if isinstance(source, bytes) else source.stat().st_size
    return f"of no known format, which are {', '.join(FORMATS)}" if size else "the file is empty"
