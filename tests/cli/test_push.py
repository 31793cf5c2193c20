"""`tiryns push`: an exported model goes to a folder whole, or to the hub; what is wrong is said."""

from pathlib import Path

import pytest
from transformers import BertConfig, BertForMaskedLM

from tiryns.runner.cli.commands import main
from tiryns.runner.cli.models import push

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 16}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    model = tmp_path / "run" / "model"
    BertForMaskedLM(BertConfig(vocab_size=20, **SIZES)).save_pretrained(model)  # type: ignore[arg-type]
    (model / "README.md").write_text("# a model\n")
    return tmp_path / "run"


def message(*words: object) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(["push", *map(str, words)])
    return str(stopped.value.code)


def test_folder_gets_the_model_with_its_card(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "models" / "mine"
    main(["push", str(run), str(target)])
    assert capsys.readouterr().out == f"{target}\n"
    assert (target / "README.md").read_text() == "# a model\n"
    BertForMaskedLM.from_pretrained(target)
    assert [path.name for path in target.parent.iterdir()] == ["mine"]


def test_folder_that_is_there_stays_unless_it_is_to_be_replaced(run: Path, tmp_path: Path) -> None:
    target = tmp_path / "mine"
    target.mkdir()
    (target / "letter.txt").write_text("dear")
    assert "holds no model, so --replace does not replace it" in message(run, target, "--replace")
    assert [path.name for path in target.iterdir()] == ["letter.txt"]
    main(["push", str(run), str(tmp_path / "models")])
    (tmp_path / "models" / "README.md").write_text("of before")
    main(["push", str(run), str(tmp_path / "models"), "--replace"])
    assert (tmp_path / "models" / "README.md").read_text() == "# a model\n"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_copy_that_fails_leaves_the_old_folder(run: Path, tmp_path: Path) -> None:
    target = tmp_path / "mine"
    main(["push", str(run), str(target)])
    (run / "model" / "broken").symlink_to(run / "nowhere")
    assert "cannot write" in message(run, target, "--replace")
    assert (target / "config.json").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("target", "is_hub"),
    [
        ("someone/model", True),
        ("./someone/model", False),
        ("model", False),
        ("/a/b", False),
        ("~/b", False),
        ("a/b/c", False),
    ],
)
def test_name_with_an_owner_is_one_of_the_hub(
    target: str, is_hub: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert push.is_hub_name(target) is is_hub
    (tmp_path / "someone").mkdir()
    assert not push.is_hub_name("someone/model"), "a folder of this name is here"


def test_hub_that_cannot_be_reached_is_one_message(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants as hub

    monkeypatch.setattr(hub, "HF_HUB_OFFLINE", True)
    assert "cannot push to 'someone/model': OfflineModeIsEnabled: " in message(run, "someone/model")
    monkeypatch.setattr(hub, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_TOKEN", "hf_none")
    assert "push to a folder, such as ./model" in message(run, "someone/model")
