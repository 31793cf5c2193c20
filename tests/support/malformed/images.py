"""Rows of images and text, and images, that cannot be used: damaged, foreign, outside their folder, or bombs.

Each row of `ROWS` is a file of its own, `i/NAME.jsonl`, behind a row that is whole; its images lie in `i/images`.
"""

import json
import struct
import sys
import zlib
from io import BytesIO

from PIL import Image

BOMB = 300_000_000
"""Bytes that the text in a small image would be unpacked to."""


NUL = "lstat: embedded null character" if sys.version_info >= (3, 13) else "embedded null byte"


def encoded(form: str = "PNG", mode: str = "RGB", size: tuple[int, int] = (64, 64)) -> bytes:
    """A small image."""
    file = BytesIO()
    Image.effect_noise(size, 90).convert(mode).save(file, form)
    return file.getvalue()


def chunk(kind: bytes, content: bytes) -> bytes:
    """A part of a PNG, with its length and checksum."""
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def header(width: int, height: int, depth: int = 8, colour: int = 2) -> bytes:
    """The beginning of a PNG."""
    return b"\x89PNG\r\n\x1a\n" + chunk(
        b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    )


def unpacked_to(size: int) -> bytes:
    """Compressed zeros."""
    packer = zlib.compressobj(9)
    return b"".join(packer.compress(bytes(10**6)) for _ in range(size // 10**6)) + packer.flush()


def bombs() -> dict[str, bytes]:
    """Images of a few bytes that would take gigabytes, or hundreds of megabytes, of memory."""
    content, zeros = chunk(b"IDAT", zlib.compress(bytes(99))), unpacked_to(BOMB)
    return {
        "wide.png": header(50_000, 50_000) + content + chunk(b"IEND", b""),
        "edge.png": header(8193, 8192) + content + chunk(b"IEND", b""),
        "text.png": header(8, 8) + chunk(b"zTXt", b"Comment\0\0" + zeros) + content,
        "itext.png": header(8, 8) + chunk(b"iTXt", b"Comment\0\1\0\0\0" + zeros) + content,
        "wide.gif": b"GIF89a"
        + struct.pack("<HHBBB", 65_535, 65_535, 0, 0, 0)
        + b"\x2c"
        + struct.pack("<HHHHBB", 0, 0, 65_535, 65_535, 0, 8),
        "wide.bmp": b"BM"
        + struct.pack("<IIIIiiHHIIiiII", 54, 0, 54, 40, 50_000, 50_000, 1, 24, 0, 0, 0, 0, 0, 0),
        "wide.ppm": b"P6\n50000 50000\n255\n",
    }


GOOD = encoded()
FILES: dict[str, str | bytes] = {
    "i/images/good.png": GOOD, "i/images/cut.png": GOOD[: len(GOOD) // 2],
    "i/images/flipped.png": GOOD[:400] + b"\xff" * 60 + GOOD[460:], "i/images/head.png": GOOD[:20],
    "i/images/words.png": "no image\n", "i/images/none.png": "",
    "i/images/zero.png": header(0, 0) + chunk(b"IEND", b""), "i/images/zero.ppm": b"P6\n0 0\n255\n",
    "i/images/mode.png": header(8, 8, 3, 5) + chunk(b"IEND", b""), "i/images/cut.jpg": encoded("JPEG")[:600],
    "i/images/cut.webp": encoded("WEBP")[:200], "i/images/cut.gif": encoded("GIF", "P")[:900],
    "i/images/cut.tiff": encoded("TIFF")[:300],
    "i/images/program.png": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n(pwned) (w) file\n",
    "i/images/drawn.png": '<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>',
    "i/secret.png": GOOD,
}  # fmt: skip
WHOLE = {"image": "good.png", "question": "<image> what?", "answer": "noise"}
ASKED = {"question": "what is it?", "answer": "noise"}
SHOWN = {"image": "good.png"}
UNDECODABLE = {
    "cut.png": "image file is truncated", "flipped.png": "unrecognized data stream",
    "head.png": "Truncated File Read", "words.png": "of no known format, which are BMP, GIF,",
    "none.png": "of no known format", "zero.png": "of no known format", "zero.ppm": "of no known format",
    "mode.png": "of no known format", "cut.jpg": "Truncated File Read",
    "cut.webp": "could not create decoder object", "cut.gif": "image file is truncated",
    "cut.tiff": "image file is truncated", "program.png": "of no known format",
    "drawn.png": "of no known format",
}  # fmt: skip
MANY = "Image size ("
TOO_LARGE = {
    "wide.png": MANY, "edge.png": "it has 8193 x 8192 pixels; at most 67,108,864 are allowed",
    "text.png": "Decompressed data too large", "itext.png": "Decompressed data too large", "wide.gif": MANY,
    "wide.bmp": MANY, "wide.ppm": MANY,
}  # fmt: skip
LEAVES = "leaves the folder of images"
ROWS: dict[str, tuple[object, str]] = {
    **{
        name.replace(".", "_"): ({"image": name, **ASKED}, f"the image {name!r} cannot be decoded: {cause}")
        for name, cause in (UNDECODABLE | TOO_LARGE).items()
    },
    "gone": ({"image": "gone.png", **ASKED}, "there is no image 'gone.png' in"),
    "climbs": ({"image": "../secret.png", **ASKED}, f"'../secret.png' {LEAVES}"),
    "climbs_later": ({"image": "a/../../secret.png", **ASKED}, f"'a/../../secret.png' {LEAVES}"),
    "absolute": ({"image": "/etc/hostname", **ASKED}, f"'/etc/hostname' {LEAVES}"),
    "address": (
        {"image": "http://127.0.0.1:9/a.png", **ASKED},
        "there is no image 'http://127.0.0.1:9/a.png'",
    ),
    "is_folder": ({"image": ".", **ASKED}, "there is no image '.'"),
    "long_name": ({"image": "a" * 5000, **ASKED}, "is not valid: File name too long"),
    "nul": ({"image": "a\0.png", **ASKED}, f"is not valid: {NUL}"),
    "number": ({"image": 5, **ASKED}, "column 'image' holds 5, expected a path"),
    "object": ({"image": {"path": "good.png"}, **ASKED}, "column 'image' holds {'path': 'good.png'}"),
    "no_image": ({"caption": "noise"}, "a caption without an image"),
    "no_question": ({**SHOWN, "answer": "noise"}, "expected one of the columns 'conversations', 'question'"),
    "no_answer": ({**SHOWN, "question": "what?"}, "no column 'answer'; it has: image, question"),
    "null_answer": ({**SHOWN, "question": "what?", "answer": None}, "column 'answer' holds None"),
    "question_number": ({**SHOWN, "question": 5, "answer": "a"}, "column 'question' holds 5, expected text"),
    "answer_object": ({**SHOWN, "question": "a?", "answer": {"a": 1}}, "column 'answer' holds {'a': 1}"),
    "answers_none": ({**SHOWN, "question": "a?", "answer": []}, "column 'answer' holds []"),
    "caption_number": ({**SHOWN, "caption": 5}, "column 'caption' holds 5, expected text"),
    "turns_text": ({**SHOWN, "conversations": "hello"}, "holds 'hello', expected a list of turns"),
    "turns_texts": ({**SHOWN, "conversations": ["a", "b"]}, "a turn is 'a', expected an object"),
    "turns_value": (
        {**SHOWN, "conversations": [{"from": "human", "value": 5}]},
        "a turn is {'from': 'human', 'value': 5}",
    ),
    "turns_keys": ({**SHOWN, "conversations": [{"a": 1}, {"b": 2}]}, "a turn is {'a': 1}, expected"),
    "turns_role": ({**SHOWN, "conversations": [{"from": ["a"], "value": "b"}]}, "a turn is {'from': ['a']"),
    "empty_row": ({}, "expected one of the columns 'conversations'"),
    "list_row": ([1, 2], "expected a json object with named columns, found a list"),
    "text_row": ("a", "expected a json object with named columns, found a str"),
}
FILES |= {
    f"i/{name}.jsonl": "".join(json.dumps(line) + "\n" for line in (WHOLE, row))
    for name, (row, _) in ROWS.items()
}
SAID = {name: [f"i/{name}.jsonl, line 2", cause] for name, (_, cause) in ROWS.items()}
