"""Images are decoded to RGB; what is broken, too large or outside its folder is named."""

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tiryns.runner.data.vision.images import (
    MOST_PIXELS,
    ImageFolder,
    UndecodableImage,
    decode_image,
    size_of_image,
)


def encoded(image: Image.Image, form: str = "PNG", **options: object) -> bytes:
    file = BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    Image.new("RGB", (6, 4), "red").save(tmp_path / "images" / "red.png")
    Image.new("RGB", (6, 4), "red").save(tmp_path / "secret.png")
    return tmp_path / "images"


def test_image_is_read_in_rgb(folder: Path) -> None:
    image = ImageFolder(folder).read("red.png", "row 1")
    assert (image.mode, image.size, image.getpixel((0, 0))) == ("RGB", (6, 4), (255, 0, 0))


@pytest.mark.parametrize("reference", ["../secret.png", "link.png", "ABSOLUTE", "red.png/../../secret.png"])
def test_path_that_leaves_its_folder_is_refused(folder: Path, reference: str) -> None:
    (folder / "link.png").symlink_to(folder.parent / "secret.png")
    reference = str(folder.parent / "secret.png") if reference == "ABSOLUTE" else reference
    message = r"rows.jsonl, line 3: the image path .* leaves the folder of images"
    with pytest.raises(ValueError, match=message):
        ImageFolder(folder).read(reference, "rows.jsonl, line 3")


def test_missing_image_and_folder_are_named(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"row 7: there is no image 'blue.png'"):
        ImageFolder(folder).read("blue.png", "row 7")
    with pytest.raises(FileNotFoundError, match=r"no folder of images .*nowhere"):
        ImageFolder(folder / "nowhere")


def test_transparent_pixels_are_white_and_deep_ones_scaled() -> None:
    clear = encoded(Image.new("RGBA", (2, 2), (255, 0, 0, 0)))
    assert decode_image(clear, "clear").getpixel((0, 0)) == (255, 255, 255)
    deep = encoded(Image.fromarray(np.full((2, 2), 0x8000, dtype=np.uint16)))
    for image in (deep, b"P5 2 2 65535\n" + b"\x80\0" * 4):
        assert decode_image(image, "deep").getpixel((0, 0)) == (128, 128, 128)
    values = np.int32(200), np.int32(70_000), np.float32(0.5)
    small, *deeper = (encoded(Image.fromarray(np.full((2, 2), value)), "TIFF") for value in values)
    assert decode_image(small, "small").getpixel((0, 0)) == (200, 200, 200)
    for image in deeper:
        with pytest.raises(UndecodableImage, match=r"32-bit numbers \(mode [IF]\): save it with 8 or 16"):
            decode_image(image, "deeper")


def test_camera_orientation_is_undone() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    for form in ("JPEG", "PNG", "WEBP"):
        turned = encoded(Image.new("RGB", (8, 4)), form, exif=exif)
        assert decode_image(turned, "turned").size == (4, 8)
        assert size_of_image(turned, "turned") == (4, 8)


def test_size_is_read_from_the_beginning_of_a_file(folder: Path) -> None:
    assert ImageFolder(folder).size_of("red.png", "row 1") == (6, 4)
    noise = np.random.default_rng(0).integers(0, 255, (64, 48, 3), dtype=np.uint8)
    assert size_of_image(encoded(Image.fromarray(noise))[:3000], "cut off") == (48, 64)
    (folder / "red.png").write_bytes(b"no image")
    with pytest.raises(UndecodableImage, match=r"row 1: the image 'red.png' cannot be decoded: of no known"):
        ImageFolder(folder).size_of("red.png", "row 1")


@pytest.mark.parametrize("what", ["text", "cut off", "postscript"])
def test_undecodable_image_is_named(what: str) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    data = {
        "text": b"no image",
        "cut off": encoded(Image.fromarray(noise))[:3000],
        "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n",
    }[what]
    with pytest.raises(UndecodableImage, match=r"row 2: the image 'a.png' cannot be decoded: \S"):
        decode_image(data, "row 2: the image 'a.png'")


def test_image_that_claims_to_be_huge_is_refused_before_it_is_decoded() -> None:
    width = MOST_PIXELS // 4096 + 1
    bomb = encoded(Image.new("1", (width, 4096)))
    assert len(bomb) < 100_000
    with pytest.raises(UndecodableImage, match=rf"{width} x 4096 pixels"):
        decode_image(bomb, "bomb")
