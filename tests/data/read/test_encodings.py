"""Sentences in other bytes than UTF-8 are an error with the encodings that fit, the likeliest first."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tiryns.runner.data.read.delimited import dialect_of
from tiryns.runner.data.read.documents import open_source
from tiryns.runner.data.read.opened import AS_FOUND, File
from tiryns.runner.inference.predictor import Predictor

OTHERS = [
    ("cp1252", "Viele Grüße aus Köln, meine Füße sind zu groß für diese Größe"),
    ("cp1250", "Dzień dobry, gdzie jest moja paczka? Chcę wiedzieć, jaką ma wartość"),
    ("cp1250", "Az idő jó, a nő szép, működik a fűtés"),
    ("cp1251", "Привет, где мой заказ? Я хочу вернуть деньги"),
    ("koi8_r", "Привет, где мой заказ? Я хочу вернуть деньги"),
    ("cp1253", "Καλημέρα, πού είναι η παραγγελία μου"),
    ("gb18030", "你好,我的订单在哪里?"),
    ("euc_kr", "안녕하세요, 제 주문은 어디에 있나요?"),
    ("big5", "你好,我的訂單在哪裡?"),
    ("shift_jis", "カジカ カタカナ テスト"),
]


def asked(folder: Path, encoding: str, text: str) -> list[str]:
    lines = "".join(f'"{line}",order\n' for line in [text, *["where is my order"] * 20])
    (folder / "a.csv").write_bytes(f"text,label\n{lines}".encode(encoding))
    with pytest.raises(ValueError, match=r"a\.csv is not UTF-8 \(byte 0x.. at offset \d+\): set ") as error:
        dialect_of(File(folder / "a.csv", "csv", AS_FOUND))
    return re.findall(r"data\.encoding=(\S+)", str(error.value))


@pytest.mark.parametrize(("encoding", "text"), OTHERS)
def test_sentences_in_other_bytes_are_asked_about(tmp_path: Path, encoding: str, text: str) -> None:
    choices = asked(tmp_path, encoding, text)
    assert encoding in choices[:3]
    assert len(choices) == len({*choices})


def test_bytes_that_fit_nothing_are_asked_about_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"text,label\n\x81\x8d\xff,order\n")
    with pytest.raises(ValueError, match=r"is not UTF-8 .*set data\.encoding"):
        dialect_of(File(tmp_path / "a.csv", "csv", AS_FOUND))


def test_each_file_of_a_folder_is_read_in_the_first_encoding_of_a_list_that_fits(tmp_path: Path) -> None:
    texts = {"a.txt": ("utf-8", "Größe"), "b.txt": ("cp1252", "für"), "c.csv": ("utf-16", "text\nüber")}
    for name, (encoding, text) in texts.items():
        (tmp_path / name).write_bytes(text.encode(encoding))
    with pytest.raises(ValueError, match=r"b\.txt is not UTF-8: byte 0xfc at offset 1, line 1\.") as error:
        list(open_source(str(tmp_path), "text", "train", "line").documents())
    (typed,) = re.findall(r"'data\.encoding=\[(.*)\]'", str(error.value))
    reading = AS_FOUND._replace(encoding=typed.split(","))
    source = open_source(str(tmp_path), "text", "train", "line", reading=reading)
    assert list(source.documents()) == ["Größe", "für", "über"]
    predictor: Any = object.__new__(Predictor)  # without a model, which reading does without
    lines = reading._replace(format="txt")
    predictor.kind = SimpleNamespace(reading=lambda path: lines, values=lambda text, options: text)
    assert [row.values for row in predictor.rows_of_file(tmp_path / "b.txt").rows] == ["für"]
    alone = open_source(str(tmp_path), "text", "train", "line", reading=AS_FOUND._replace(encoding="cp1252"))
    assert next(iter(alone.documents())) != "Größe"
