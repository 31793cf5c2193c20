# ruff: noqa: RUF001
"""Sentences in the bytes of cp1252 are read so, and those of other encodings never are."""

from pathlib import Path

import pytest

from tiryns.runner.data.read.dialects import dialect_of
from tiryns.runner.data.read.opened import AS_FOUND, File

WESTERN = (
    "Viele Grüße aus Köln", "Meine Füße sind zu groß für diese Größe", "Süßes, Blöße, Überweisung, Straße",
    "créée à Noël, où l’été dernier était très agréable", "Ma sœur a cuit des œufs ; « même » la forêt a du goût",
    "¿Dónde está mi pedido? ¡Qué mañana más fría!", "El niño pequeñín enseñó la montaña en la 2ª planta",
    "Jag får inte på mig skorna, de är för små", "Jeg har købt æblegrød med fløde på høyden, og det er gøy",
    "Hyvää päivää, tämä pää on täällä", "Það er gott að sjá þig, hvað heitir þú?",
    "A atenção não é só à informação; três ações, você, amanhã", "Perché non è più così? Però può andare lunedì",
    "Això és molt important, però què és l’única qüestió", "geïnteresseerd in financiën, één keer",
    "«À», „Grüße“ und Windows® für 5°, geht´s?", "“Quoted” text — it’s fine, costs £5 or €6, §5",
)  # fmt: skip

OTHERS = [
    ("cp1250", "Dzień dobry, gdzie jest moja paczka? Chcę wiedzieć, jaką ma wartość"),
    ("cp1250", "Kiedy będzie świeży chleb?"),
    ("cp1250", "Zajęty"),
    ("cp1250", "Děkuji, kde je moje objednávka? Můžete mi říct něco"),
    ("cp1250", "Kolik stojí doprava? Nevím, proč mě to zdrželo"),
    ("cp1250", "Az idő jó, a nő szép, működik a fűtés"),
    ("cp1250", "Gdje je moja narudžba? Još čekam, već tjedan dana, reći ću znači"),
    ("cp1250", "Mulţumesc, aş vrea să ştiu când ajunge coletul fără plată"),
    ("cp1251", "Привет, где мой заказ? Я хочу вернуть деньги"),
    ("cp1251", "Да и нет"),
    ("koi8-r", "Привет, где мой заказ? Я хочу вернуть деньги"),
    ("cp1253", "Καλημέρα, πού είναι η παραγγελία μου"),
    ("cp1254", "Teşekkür ederim, siparişim nerede, hayır değil mi"),
    ("gb18030", "你好,我的订单在哪里?"),
    ("gb18030", "我要退款,请尽快处理"),
    ("euc_kr", "안녕하세요, 제 주문은 어디에 있나요?"),
    ("euc_kr", "환불해 주세요"),
    ("big5", "你好,我的訂單在哪裡?"),
    ("shift_jis", "カジカ カタカナ テスト"),
    ("mac_roman", "Viele Grüße für die Straße, schöne Sätze"),
]


def encoding_of(folder: Path, *texts: str, encoding: str) -> str:
    lines = "".join(f'"{text}",order\n' for text in texts)
    (folder / "a.csv").write_bytes(f"text,label\n{lines}".encode(encoding))
    return dialect_of(File(folder / "a.csv", "csv", AS_FOUND)).encoding


@pytest.mark.parametrize("text", WESTERN)
def test_sentences_of_western_europe_are_cp1252(tmp_path: Path, text: str) -> None:
    assert encoding_of(tmp_path, text, encoding="cp1252") == "cp1252"


def test_languages_may_stand_side_by_side(tmp_path: Path) -> None:
    assert encoding_of(tmp_path, *WESTERN, encoding="cp1252") == "cp1252"


@pytest.mark.parametrize(("encoding", "text"), OTHERS)
def test_sentences_in_other_bytes_are_not_guessed(tmp_path: Path, encoding: str, text: str) -> None:
    with pytest.raises(ValueError, match="what it is cannot be told: set one of"):
        encoding_of(tmp_path, text, *["where is my order"] * 20, encoding=encoding)
