"""Files of models, configs, runs and pages of others: they run nothing, fill no memory and lead nowhere."""

import io
import json
import pickle
import sys
import types
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from transformers import AutoConfig, AutoModelForMaskedLM

from tests.report.pages import make_run, read
from tests.security.attacks import CONTROLS, FIELDS, GROWING, KERNELS, LINKS, MARKUP, NAMES, YAML
from tests.support.foreign_code import RECIPES, TARGETS
from tests.support.malformed.models import Evil
from tiryns.runner.checkpoints.files import AtomicCheckpointIO
from tiryns.runner.cli.compose import compose, initialize
from tiryns.runner.config.checks import check_config
from tiryns.runner.config.loading import MOST_GROWTH, CustomCodeRefused, from_pretrained, growth_of
from tiryns.runner.config.permissions import check_permissions, on_command_line, trusted_words
from tiryns.runner.data.text.tokenizer import load_tokenizer, train_tokenizer
from tiryns.runner.report.single import write_report
from tiryns.runner.run.environment import as_word
from tiryns.runner.run.folder import Run
from tiryns.runner.run.model_folder import check_links, own_words


def changed(folder: Path, name: str, values: dict[str, Any], to: Path) -> Path:
    """A copy of a folder, in whose file of JSON some values are others."""
    to.mkdir(exist_ok=True)
    for file in folder.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    content = json.loads((folder / name).read_text())
    (to / name).write_text(json.dumps({**content, **values}))
    return to


def test_model_folder_reaches_no_kernel_of_the_hub(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    kernels = types.ModuleType("kernels")
    kernels.get_kernel = lambda *given, **named: asked.append(given)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kernels", kernels)
    for row in KERNELS:
        folder = changed(model, "config.json", row, tmp_path / "theirs")
        for loader in (AutoConfig, AutoModelForMaskedLM):
            with pytest.raises(CustomCodeRefused, match="it would run code from the hub") as caught:
                from_pretrained(loader, folder)
            assert "\n" not in str(caught.value)
    assert not asked
    plain = {
        "attn_implementation": "sdpa",
        "text_config": {"_attn_implementation": None},
        "use_kernels": False,
    }
    folder = changed(model, "config.json", plain, tmp_path / "theirs")
    assert from_pretrained(AutoConfig, folder).model_type == "bert"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    texts = ["a river runs under the old bridge"] * 20
    train_tokenizer(texts, "wordpiece", 60, lowercase=True).save_pretrained(folder)
    return folder


def test_tokenizer_that_grows_is_stopped_before_it_is_loaded(tokenizer: Path, tmp_path: Path) -> None:
    for name, row in GROWING.items():
        folder = changed(tokenizer, "tokenizer.json", row, tmp_path / "theirs")
        assert growth_of(row) > MOST_GROWTH, name
        with pytest.raises((CustomCodeRefused, FileNotFoundError), match="times longer") as caught:
            load_tokenizer(str(folder))
        assert "\n" not in str(caught.value)
    (tmp_path / "theirs" / "tokenizer.json").unlink()
    (tmp_path / "theirs" / "part").mkdir()
    (tmp_path / "theirs" / "part" / "tokenizer.json").write_text(json.dumps(GROWING["doubled"]))
    with pytest.raises(CustomCodeRefused, match="times longer"):
        from_pretrained(AutoConfig, tmp_path / "theirs")
    assert load_tokenizer(str(tokenizer)).is_fast


@pytest.mark.parametrize("name", YAML)
def test_file_of_yaml_is_refused_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "experiment").mkdir()
    content = f"# @package _global_\n{YAML[name]}\n".encode("utf-8", "surrogateescape")
    (tmp_path / "experiment" / "theirs.yaml").write_bytes(content)
    monkeypatch.chdir(tmp_path)
    with initialize([tmp_path]), on_command_line(["seed=1"]), pytest.raises(Exception, match=r".") as caught:
        check_config(compose(["experiment=theirs", "data=files", "data.source=x"]))
    assert isinstance(caught.value, ValueError | ImportError) or "yaml" in str(caught.value).lower()
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("name", NAMES)
def test_name_leads_to_no_recipe_outside_of_its_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (tmp_path / "evil.yaml", tmp_path / "a" / "evil.yaml", tmp_path / "a" / "b" / "evil.yaml"):
        place.parent.mkdir(exist_ok=True, parents=True)
        place.write_text("# @package _global_\noutputs: /tmp/evil\n")
    (tmp_path / "a" / "b" / "experiment").mkdir()
    monkeypatch.chdir(tmp_path)
    words = [f"experiment={name}", "data=files", "data.source=x"]
    with initialize([tmp_path / "a" / "b"]), on_command_line(words), pytest.raises(Exception, match=r"."):
        check_config(compose(words))


def test_no_control_character_and_no_flag_is_one_word() -> None:
    for field in FIELDS:
        for value in CONTROLS:
            with pytest.raises(ValueError, match="expected one line of printable characters") as caught:
                as_word(f"hydra.launcher.{field}", value)
            assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", LINKS)
def test_strangers_run_is_not_written_through_its_links(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "file").write_text("mine")
    run = tmp_path / "theirs"
    (run / name).parent.mkdir(parents=True)
    (run / "plain.txt").touch()
    (run / "inside").symlink_to("plain.txt")
    check_links(run)
    (run / name).symlink_to(mine / "file" if "." in name else mine)
    with pytest.raises(ValueError, match="is a link to"):
        check_links(run)
    assert (mine / "file").read_text() == "mine"


@pytest.mark.parametrize("name", ["model", "checkpoints/last.ckpt", "0/metrics.csv"])
def test_link_in_a_circle_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    link = tmp_path / "theirs" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(link.with_name("other"))
    link.with_name("other").symlink_to(link)
    with pytest.raises(ValueError, match=r"is a link to itself: put a file or folder in its place") as caught:
        trusted_words([f"resume={tmp_path}/theirs"])
    assert "\n" not in str(caught.value)
    (tmp_path / "round").symlink_to("round")
    assert trusted_words([f"resume={tmp_path}/round"])
    config = OmegaConf.create({"outputs": str(tmp_path / "round" / "x"), "hydra": {}})
    with pytest.raises(ValueError, match="is outside of this folder"):
        check_permissions(config, [])


def test_links_of_ones_own_run_are_followed(tmp_path: Path) -> None:
    (tmp_path / "big").mkdir()
    run = Run(tmp_path / "mine")
    run.announce("abc", ["seed=1"])
    (run.path / "checkpoints").symlink_to(tmp_path / "big")
    check_links(run.path)
    assert trusted_words([f"resume={run.path}"])[0] == "seed=1"
    (run.path / "overrides.json").write_text('["seed=2"]')
    with pytest.raises(ValueError, match="is a link to"):
        check_links(run.path)
    (run.path / "checkpoints").unlink()
    assert trusted_words([f"resume={run.path}"])[-1] == f"resume={run.path}"
    run.update_status(seal="\u00e9")
    assert "seed=2" not in trusted_words([f"resume={run.path}"])


def test_run_without_a_seal_goes_on_beside_the_links_of_its_logger(tmp_path: Path) -> None:
    (tmp_path / "cache.log").touch()
    logs = tmp_path / "old" / "wandb" / "run-1" / "logs"
    logs.mkdir(parents=True)
    (logs / "debug-core.log").symlink_to(tmp_path / "cache.log")
    (tmp_path / "old" / "wandb" / "debug-core.log").symlink_to(tmp_path / "cache.log")
    check_links(tmp_path / "old")
    (tmp_path / "old" / "0").mkdir()
    (tmp_path / "old" / "0" / "metrics.csv").symlink_to(tmp_path / "cache.log")
    with pytest.raises(ValueError, match="is a link to"):
        check_links(tmp_path / "old")


def test_own_run_without_overrides_is_written_through_its_links(tmp_path: Path) -> None:
    run = Run(tmp_path / "mine")
    run.announce("abc", [])
    (run.path / "checkpoints").symlink_to(tmp_path)
    check_links(run.path)


def test_branch_of_a_checkpoint_looks_at_no_links(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "link").symlink_to(tmp_path)
    assert trusted_words([f"resume={tmp_path}/a/b/last.ckpt"])


def test_empty_seal_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path / "theirs")
    run.announce("abc", ["allowed_targets=[os.system]"])
    run.update_status(seal="")
    (tmp_path / "file").touch()
    monkeypatch.setenv("TIRYNS_CACHE", str(tmp_path / "file"))
    assert not own_words(run.path)


def test_page_shows_what_others_wrote_and_runs_none_of_it(tmp_path: Path) -> None:
    for number, evil in enumerate(MARKUP):
        run = make_run(
            tmp_path / f"{number}", error=evil, state=evil, results={evil: 1.0, f"val/{evil}/loss": 2.0}
        )
        (run / "overrides.json").write_text(json.dumps([f"seed={evil}", f"{evil}=2"]))
        (run / "command.txt").write_text(evil)
        (run / "config.yaml").write_text(f"seed: {json.dumps(evil)}\n")
        elements = read(write_report(run)).shell.elements
        assert [name for name, _, _ in elements].count("script") == 2, "the facts and the page's own"
        assert {name for name, _, _ in elements}.isdisjoint({"b", "img", "iframe"})
        marks = [pair for _, marks, _ in elements for pair in marks.items()]
        assert not any(name.startswith("on") for name, _ in marks)
        assert not any("javascript:" in value for name, value in marks if name in ("href", "src", "action"))


def pickled(kind: str) -> bytes:
    """A checkpoint that would run code where it is unpickled, in a form that torch or numpy reads."""
    content = io.BytesIO()
    if kind == "plain":
        pickle.dump(Evil(), content)
    elif kind == "old torch":
        torch.save({"state_dict": Evil()}, content, _use_new_zipfile_serialization=False)
    elif kind == "torch":
        torch.save({"state_dict": {"x": Evil()}}, content)
    elif kind == "numpy":
        np.save(content, np.array([Evil()]), allow_pickle=True)
    elif kind == "archive":
        with zipfile.ZipFile(content, "w") as archive:
            archive.writestr("x/data.pkl", pickle.dumps(Evil()))
            archive.writestr("../../pwned", "evil")
    return content.getvalue()


PICKLES = ["plain", "old torch", "torch", "numpy", "archive"]


@pytest.mark.parametrize("kind", PICKLES)
def test_checkpoint_unpickles_no_code(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "step-00000001.ckpt").write_bytes(pickled(kind))
    with pytest.raises(Exception, match=r".") as caught:
        AtomicCheckpointIO().load_checkpoint(tmp_path / "step-00000001.ckpt")
    assert "\n" not in str(caught.value).strip()
    assert not list(tmp_path.rglob("pwned"))


def test_attacks_are_counted() -> None:
    """Counts rows; `pytest --collect-only -qq tests/security tests/config/test_foreign_code.py` counts their tests."""
    from tests.security import attacks, test_bombs, test_data

    tables: list[Any] = [
        value for name, value in vars(attacks).items() if name.isupper() and name not in ("BYTES", "SPACES")
    ]
    tables += [
        PICKLES, TARGETS, RECIPES, test_data.FILES, test_data.HEADERS, test_data.TEMPLATES, test_bombs.BOMBS,
    ]  # fmt: skip
    assert sum(map(len, tables)) >= 400
