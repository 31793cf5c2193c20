"""Digests of steps, and what two runs were made from."""

import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tiryns.runner.manifest.differences import MADE, differences
from tiryns.runner.manifest.digests import file_digest
from tiryns.runner.manifest.inputs import data_files
from tiryns.runner.manifest.steps import MOST, Step, chain_digest, kept_lines, steps_of


def test_digest_of_the_order_tells_any_change_before() -> None:
    orders = [["a", "b", "c"], ["a", "c", "b"], ["a", "b", "d"]]
    ends = []
    for hashes in orders:
        digest = "-"
        for one in hashes:
            digest = chain_digest(digest, one)
        ends.append(digest)
    assert len(set(ends)) == 3


def test_a_manifest_keeps_a_thousand_lines_of_a_long_run(tmp_path: Path) -> None:
    lines = [Step(step, "0", "1.5", ("a", "b")).line() for step in range(1, 2502)]
    (tmp_path / "digests.txt").write_text(
        "".join(f"{line}\n" for line in lines) + "2502 0 1"
    )  # cut off by a kill
    kept = steps_of(kept_lines(tmp_path))
    assert len(kept) <= MOST
    assert kept[-1].step == 2501
    assert {b.step - a.step for a, b in pairwise(kept)} == {3}


def test_module_of_ones_own_is_found_where_it_is_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tiryns.runner.manifest.digests import file_digest

    (tmp_path / "mine").mkdir()
    module = tmp_path / "mine/model.py"
    module.write_text("size = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    own = {"/elsewhere/project/mine/model.py": file_digest(module)}
    then = {"code": {"files": {}, "own": own}, "packages": {}, "inputs": {}}
    assert differences(then, then, MADE) == []
    module.write_text("size = 2\n")
    assert [str(one) for one in differences(then, then, MADE)] == [f"code: {module} differs"]
    module.unlink()
    (line,) = differences(then, then, MADE)
    assert str(line) == "code: /elsewhere/project/mine/model.py is not here"


def test_many_files_of_the_program_are_counted() -> None:
    then, now = (
        {"code": {"files": {f"{n}.py": d for n in range(9)}}, "packages": {}, "inputs": {}} for d in "ab"
    )
    *named, rest = map(str, differences(then, now, MADE))
    assert named == [f"code: {n}.py differs" for n in range(5)]
    assert rest == "code: 4 more files of the program differ"


def test_program_is_known_by_its_digest_where_its_files_are_not_listed() -> None:
    then = {"code": {"digest": "1"}, "packages": {}, "inputs": {}}
    same, other = ({**then, "code": {"digest": digest, "files": {"a.py": "0"}}} for digest in "12")
    assert differences(then, same, MADE) == []
    (line,) = differences(then, other, MADE)
    assert str(line) == "code: the program differs, and the manifest does not list its files"


def test_files_of_data_are_named_by_setting_and_by_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "texts/.hidden").mkdir(parents=True)
    for name in ("a.txt", "b.txt", ".hidden/c.txt"):
        (tmp_path / "texts" / name).write_text(name)
    folder, several = tmp_path / "texts", [str(tmp_path / "texts/a.txt"), str(tmp_path / "texts/b.*")]
    named = {"source": str(folder), "validation": {"one": several}, "train": "user/set", "split": str(folder)}
    found = data_files(named)
    assert {setting: list(files) for setting, files in found.items()} == {
        "source": [".hidden/c.txt", "a.txt", "b.txt"],
        "validation": ["a.txt", "b.txt"],
    }
    assert found["source"]["a.txt"] == file_digest(folder / "a.txt")
    assert data_files({"train": f"{folder}@train"})["train"] == found["source"]
    (tmp_path / "b").mkdir()
    shutil.copy(folder / "b.txt", alike := tmp_path / "b" / "a.txt")
    both = data_files({"source": [str(folder / "a.txt"), str(alike)]})["source"]
    assert both == {"texts/a.txt": file_digest(folder / "a.txt"), "b/a.txt": file_digest(alike)}
    assert [*data_files({"source": [f"{folder}/../b/a.txt", str(alike)]})["source"]] == ["a.txt"]
    monkeypatch.setattr("tiryns.runner.manifest.inputs.WHOLE", 10)
    large = data_files(named)["source"]["a.txt"]
    assert large.startswith("ends:")
    (folder / "a.txt").write_text("A.txt")
    assert data_files(named)["source"]["a.txt"] != large


def manifest(given: dict[str, Any], steps: int) -> dict[str, Any]:
    phases = [{"given": {"name": "causal", **given}, "steps": steps}]
    settings = {"phases": [{"name": "causal", **given}], "seed": 1}
    return {"config": {"resolved": settings}, "resolved": {"phases": phases}, "machine": {}}


def test_share_of_a_run_is_the_steps_that_it_came_to() -> None:
    then, now = manifest({"share": 0.6}, 7), manifest({"share": None, "tokens": None, "steps": 7}, 7)
    assert differences(then, now, ("setting", "computed", "machine")) == []


def test_other_steps_and_settings_of_a_phase_are_other_settings() -> None:
    then = manifest({"share": 0.6}, 7)
    for other in (manifest({"share": 0.6}, 8), manifest({"share": 0.6, "batch": 2}, 7)):
        (found,) = differences(then, other, ("setting",))
        assert found.part == "setting"
        assert found.text.startswith("phases ")
