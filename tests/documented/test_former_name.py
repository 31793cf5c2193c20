"""What version 0.2 wrote works: a killed run, a recipe, a store, a model. Variables of the former name are told."""

import tarfile
from importlib import import_module
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from tests.conftest import TINY
from tests.golden import made_by
from tests.support.in_process import succeeded, tiryns_here
from tiryns.conf.registry import OPTIONS, component_of, option_of
from tiryns.former import FORMER
from tiryns.runner.config.targets import check_target, locate

GOLDEN = Path(__file__).parents[1] / "golden" / "former"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with the files that version 0.2 wrote."""
    with tarfile.open(GOLDEN / "files.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


@pytest.mark.slow
def test_killed_run_goes_on(files: Path) -> None:
    """To the bit on the processor that made it, with the same order and to rounding on others."""
    succeeded(files, "resume=outputs/killed")
    assert [path.name for path in (files / "outputs").iterdir()] == ["killed"], (
        "in its folder, not as a branch"
    )
    run = files / "outputs" / "killed"
    assert (run / "order.txt").read_text() == (files / "order.txt").read_text()
    maker, *expected = (GOLDEN / "digests.tsv").read_text().splitlines()
    digests = (run / "digests.txt").read_text().splitlines()
    if maker == made_by():
        assert digests == expected
    else:
        steps, orders, losses = zip(*(line.split()[:3] for line in digests), strict=True)
        wanted = [*zip(*(line.split()[:3] for line in expected), strict=True)]
        assert [steps, orders] == wanted[:2]
        assert [*map(float, losses)] == pytest.approx([*map(float, wanted[2])], rel=1e-4)


@pytest.mark.slow
def test_recipe_and_store_train(files: Path) -> None:
    words = [*TINY, "data.source=store:store", "trainer.max_steps=2", "trainer.validate_every=0"]
    left_out = ("data.vocab_size", "data.max_length")
    words = [word for word in words if not word.startswith(left_out)]
    succeeded(files, "--config-dir", "conf", "experiment=former", *words, "hydra.run.dir=new")
    assert OmegaConf.load(files / "new" / "config.yaml").optimizer._target_ == f"{FORMER}.runner.optim.lion"


def test_causal_model_continues_a_text(files: Path) -> None:
    done = succeeded(files, "predict", "causal/model", "the old bridge")
    assert len(done.stdout.split()) > 8, "words that follow, not a mask that is filled"


@pytest.mark.parametrize("package", ["", "tiryns.", f"{FORMER}."])
@pytest.mark.parametrize("group", [group for group in OPTIONS if "/" not in group])
def test_full_name_of_a_target_is_that_option(group: str, package: str) -> None:
    path = f"{group}.one" if group in ("callback", "logger") else group
    for name, option in OPTIONS[group].items():
        target = getattr(option, "_target_", None)
        if not isinstance(target, str) or not target.startswith("runner."):
            continue
        check_target(package + target, path)
        found = locate(package + target, path)
        module, _, last = target.rpartition(".")
        assert found is getattr(import_module(f"tiryns.{module}"), last)
        assert last in import_module(f"tiryns.{module}").__all__
        same = option_of(group, {"_target_": package + target})
        assert same is not None
        assert OPTIONS[group][same]._target_ == target  # type: ignore[attr-defined]
        assert component_of(package + target) is not None, name


def test_other_functions_of_our_modules_are_refused() -> None:
    for target in (
        "tiryns.runner.loop.quiet_libraries",
        f"{FORMER}.runner.loop.quiet_libraries",
        f"{FORMER}.os.system",
    ):
        with pytest.raises((ValueError, ImportError), match=r"is not allowed|cannot find"):
            check_target(target, "trainer")


def test_former_variable_is_named_with_its_present_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{FORMER.upper()}_CACHE", str(tmp_path))
    done = tiryns_here(tmp_path, "version")
    name = f"{FORMER.upper()}_CACHE"
    assert done.stderr == f"these environment variables are not read: {name} is now TIRYNS_CACHE\n"
    monkeypatch.delenv(name)
    assert tiryns_here(tmp_path, "version").stderr == ""
