"""The mutants themselves, on a project of one function."""

import contextlib
from pathlib import Path

import pytest

from tests.mutants.__main__ import PROJECT, entry, judge, read_reasons
from tests.mutants.candidates import Key, Mutant, candidates, choose
from tests.mutants.places import NEAREST
from tests.mutants.running import changed, copied, run_tests, seconds_of

TOY = '''"""A toy."""


def fee(age: int, member: bool = False) -> int:
    """What it costs."""
    if age < 0:
        raise ValueError(f"an age of {age + 1}")
    return max(0, age * 2) if age > 6 and not member else 0  # € 0
'''
TEST = "from toy import fee\n\n\ndef test_fee():\n    assert [fee(age) for age in (0, 8)] == [0, 16]\n"


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    (tmp_path / "toy.py").write_text(TOY)
    (tmp_path / "test_toy.py").write_text(TEST)
    (tmp_path / ".git").mkdir()
    return tmp_path


def mutant(project: Path, change: str) -> Mutant:
    (found,) = [m for m in candidates(project, "toy.py") if m.change == change]
    return found


def test_every_small_mistake_is_found_but_none_in_words(toy: Path) -> None:
    changes = {m.change: m for m in candidates(toy, "toy.py")}
    assert {"age < 0 -> age <= 0", "age > 6 -> age >= 6", "age * 2 -> age + 2", "not member -> member"} <= {
        *changes
    }
    assert {"False -> True", "max -> min", "2 -> 3"} <= {*changes}
    assert not [
        change for change in changes if "ValueError" in change or "age + 1" in change or "int" in change
    ]
    for found in changes.values():
        compile(found.text, "toy.py", "exec")
        assert found.text != TOY
        assert found.text.endswith("# € 0\n")
    assert "if (age <= 0):" in changes["age < 0 -> age <= 0"].text


@pytest.mark.slow
def test_survivors_and_equivalent_mutants_are_told_from_killed_ones(
    toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killed, survivor = mutant(toy, "age * 2 -> age + 2"), mutant(toy, "6 -> 7")
    same = mutant(toy, "age > 6 -> age >= 6")
    places = {"toy.py": ("test_toy.py",)}
    assert judge(toy, places, [killed], {}) == 0
    assert "killed by test_toy.py::test_fee" in capsys.readouterr().out
    assert judge(toy, places, [killed, same], {same.key: "in this test"}) == 0
    assert "2 mutants, 0 survived" in capsys.readouterr().out
    assert judge(toy, places, [survivor], {}) == 1
    assert entry(survivor.key) in capsys.readouterr().out
    assert judge(toy, places, [killed], {killed.key: "wrong"}) == 1
    assert "names a mutant that a test kills: toy.py:8 fee" in capsys.readouterr().out
    assert (toy / "toy.py").read_text() == TOY, "the project itself is left alone"


def test_tests_that_fail_without_mutant_judge_nothing(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (toy / "test_toy.py").write_text(TEST.replace("16", "15"))
    assert judge(toy, {"toy.py": ("test_toy.py",)}, [mutant(toy, "2 -> 3")], {}) == 2
    assert "the tests fail without a mutant: test_toy.py::test_fee" in capsys.readouterr().out


@pytest.mark.slow
def test_an_endless_loop_is_ended(toy: Path) -> None:
    with copied(toy) as copy:
        run_tests(copy, ["test_toy.py"], limit=60)
        assert 0 < seconds_of(copy, ["test_toy.py"]) < 60
        assert seconds_of(copy, ["test_other.py"]) == 0
        with changed(copy / "toy.py", "while True:\n    pass\n"):
            outcome = run_tests(copy, ["test_toy.py"], limit=2)
    assert (outcome.passed, outcome.failure) == (False, "no end after 2 s")


@pytest.mark.slow
def test_tests_run_in_the_order_they_are_named_in(toy: Path) -> None:
    (toy / "test_first.py").write_text("def test_a():\n    assert 0\n\n\ndef test_b():\n    assert 0\n")
    (toy / "test_toy.py").write_text("def test_fee():\n    assert 0\n")
    with copied(toy) as copy:
        for tests in (["test_toy.py", "test_first.py"], ["test_first.py::test_b", "test_first.py::test_a"]):
            assert run_tests(copy, tests, limit=60).failure.startswith(tests[0])


def test_choice_and_names_stay_as_code_moves(toy: Path) -> None:
    before = candidates(toy, "toy.py")
    (toy / "toy.py").write_text(TOY.replace("def fee", "LIMIT = 5\n\n\ndef fee"))
    after = [m for m in candidates(toy, "toy.py") if m.function]
    assert [m.key for m in before] == [m.key for m in after]
    assert [m.key for m in choose(before, 5, 0)] == [m.key for m in choose(after, 5, 0)]
    assert {m.key for m in choose(before, 4, 0)} < {m.key for m in choose(before, 5, 0)}
    assert choose(before, 5, 0) != choose(before, 5, 1)


def test_every_file_has_one_before_any_has_two(toy: Path) -> None:
    (toy / "small.py").write_text("a = 1\n")
    found = [*candidates(toy, "toy.py"), *candidates(toy, "small.py")]
    for seed in range(9):
        assert {m.file for m in choose(found, 2, seed)} == {"toy.py", "small.py"}


def test_equal_mutants_of_a_line_are_counted_and_named(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("pair = (1, 1)\n")
    first, second = candidates(tmp_path, "a.py")
    assert (first.number, second.number) == (1, 2)
    reasons = tmp_path / "equivalent.toml"
    reasons.write_text(f'{entry(second.key)}\nreason = "none"\n{entry(first.key)}\nreason = "why \\"so\\""\n')
    assert read_reasons(reasons) == {second.key: "none", first.key: 'why "so"'}
    reasons.write_text(entry(Key("a.py", "", "x", "1 -> 2")))
    with pytest.raises(ValueError, match="no reason is given"):
        read_reasons(reasons)


def test_a_copy_has_the_sources_alone_and_goes(toy: Path) -> None:
    (toy / "venv").mkdir()
    (toy / "venv" / "pyvenv.cfg").write_text("")
    with contextlib.suppress(KeyboardInterrupt), copied(toy) as copy:
        assert sorted(path.name for path in copy.iterdir()) == ["test_toy.py", "toy.py"]
        with changed(copy / "toy.py", "broken"):
            assert (copy / "toy.py").read_text() == "broken"
        assert (copy / "toy.py").stat().st_mtime_ns == (toy / "toy.py").stat().st_mtime_ns
        raise KeyboardInterrupt
    assert not copy.exists()


def test_a_link_leads_to_what_is_changed(toy: Path) -> None:
    (toy / "folder").mkdir()
    (toy / "toy.py").rename(toy / "folder" / "toy.py")
    (toy / "package").symlink_to("folder")
    with copied(toy) as copy, changed(copy / "folder" / "toy.py", "fee = 1\n"):
        assert (copy / "package" / "toy.py").read_text() == "fee = 1\n"
    assert (toy / "folder" / "toy.py").read_text() == TOY


def test_files_and_tests_that_are_named_are_there_and_quick() -> None:
    for file, tests in NEAREST.items():
        for path in (file, *tests):
            name, _, function = path.partition("[")[0].partition("::")
            assert (PROJECT / name).is_file(), path
            before, found, _ = (PROJECT / name).read_text().partition(f"def {function}")
            assert found, path
            assert not function or "mark.slow" not in before.rpartition("\n\n\n")[2], path
