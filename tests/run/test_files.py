import os
import threading
from multiprocessing.pool import ThreadPool
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lightning.pytorch import LightningModule

from tests.support.processes import process
from tiryns.runner.callbacks import OrderAudit
from tiryns.runner.run.command.words import seal_of
from tiryns.runner.run.files import json_object, replacing, staging, write_atomically
from tiryns.runner.run.folder import Run


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_interrupted_write_leaves_the_old_file_alone(tmp_path: Path, error: type[BaseException]) -> None:
    target = tmp_path / "page.html"
    target.write_text("old")

    def stop_halfway() -> None:
        with replacing(target) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(error):
        stop_halfway()
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("page.html", "old")]


def test_file_takes_the_place_of_no_folder(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a").write_text("x")
    with pytest.raises(OSError, match="Is a directory"), replacing(tmp_path / "mine") as temporary:
        temporary.write_text("y")
    assert (tmp_path / "mine" / "a").read_text() == "x"
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("over", [True, False])
def test_folder_that_cannot_be_put_in_place_leaves_the_old_one(
    tmp_path: Path, over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "mine"
    target.mkdir()
    (target / "a").write_text("x")
    replace = Path.replace

    def refuse(path: Path, place: Path) -> Path:
        if place == target:
            raise OSError("no room")
        return replace(path, place)

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="no room"), staging(target, over=over) as temporary:
        temporary.mkdir()
    assert (target / "a").read_text() == "x"
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    monkeypatch.undo()
    if over:
        with staging(target, over=True) as temporary:
            temporary.mkdir()
        assert not list(target.iterdir())


def test_text_is_written_as_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    code = "from pathlib import Path; from tiryns.runner.run.files import write_atomically as write"
    latin = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    done = process("-c", f"{code}; write(Path('a'), 'gr\\xf6\\xdfe \\u65e5')", cwd=tmp_path, **latin)
    assert not done.stderr
    assert (tmp_path / "a").read_text(encoding="utf-8") == "größe 日"


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\x00", b"[" * 100_000])
def test_file_that_holds_no_object_is_said_to_be_damaged(tmp_path: Path, content: bytes) -> None:
    (file := tmp_path / "state.json").write_bytes(b'{"a": 1}')
    assert json_object(file) == {"a": 1}
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"state\.json' is damaged: "):
        json_object(file)


def test_failed_write_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(OSError, match=r"cannot write the report '.*file/page\.html': Not a directory"),
        replacing(tmp_path / "file" / "page.html", "the report ") as temporary,
    ):
        temporary.write_text("page")


def test_order_log_keeps_the_steps_before_the_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "order.txt").write_text("1 aa\n2 bb\n3 cc\n4 d")
    trainer: Any = SimpleNamespace(is_global_zero=True, default_root_dir=str(tmp_path), global_step=2)
    audit, module = OrderAudit(), LightningModule()
    audit.on_train_start(trainer, module)
    trainer.global_step = 3
    audit.on_train_batch_end(trainer, module, {"order": "ee"})
    audit.on_train_end(trainer, module)
    assert (tmp_path / "order.txt").read_text() == "1 aa\n2 bb\n3 ee\n"
    assert len(list(tmp_path.iterdir())) == 1


def test_name_of_a_run_folder_does_not_depend_on_how_it_is_spelt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "2026-11-03" / "12-30-11-ab12").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "2026-11-03")
    assert Run(Path("12-30-11-ab12")).name == "2026-11-03/12-30-11-ab12"


def test_threads_that_write_one_file_do_not_meet(tmp_path: Path) -> None:
    errors: list[BaseException] = []

    def write(text: str) -> None:
        try:
            for _ in range(200):
                write_atomically(tmp_path / "file", text)
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(text * 2000,)) for text in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert set((tmp_path / "file").read_text()) in ({"a"}, {"b"})
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_damaged_key_of_seals_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIRYNS_CACHE", str(tmp_path))
    key = tmp_path / f"seal-{os.getuid()}.key"
    key.write_bytes(b"")
    with ThreadPool(8) as pool:
        seals = set(pool.map(seal_of, [["seed=1"]] * 32))
    assert len(seals) == 1
    assert None not in seals
    assert key.stat().st_mode & 0o777 == 0o600


def test_key_that_somebody_has_linked_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIRYNS_CACHE", str(tmp_path))
    (tmp_path / "known").write_bytes(b"x" * 32)
    (key := tmp_path / f"seal-{os.getuid()}.key").symlink_to("known")
    assert seal_of(["seed=1"])
    assert not key.is_symlink()


def test_user_without_a_home_has_no_seal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIRYNS_CACHE", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert seal_of(["seed=1"]) is None
