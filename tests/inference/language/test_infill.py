import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM, BertForSequenceClassification

from tests.conftest import ROOT, WORDS
from tests.support.processes import warm_process
from tiryns.runner.cli.commands import main
from tiryns.runner.data.text.tokenizer import train_tokenizer
from tiryns.runner.inference.kinds import PredictOptions
from tiryns.runner.inference.language.infill import Masks, open_model
from tiryns.runner.inference.predictor import Predictor
from tiryns.runner.opened_run import open_run

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 16}


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with an untrained model of a few words."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])}
    plain = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    plain.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, mask_token="[MASK]", **names)
    folder = tmp_path_factory.mktemp("run")
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(vocabulary), max_position_embeddings=24, **SIZES)  # type: ignore[arg-type]
    BertForMaskedLM(config).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    return folder


def lines_of(capsys: pytest.CaptureFixture[str], *words: object) -> list[list[str]]:
    """What the command prints, as words."""
    main(["predict", *map(str, words)])
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_rows_of_standard_input_are_repeated_as_those_of_a_file(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = "text\nthe [MASK] runs\n"
    (tmp_path / "a.csv").write_text(table)
    asked = ("--samples=2", "--steps=2")
    of_file = lines_of(capsys, run_folder, tmp_path / "a.csv", *asked)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(table.encode())))
    assert lines_of(capsys, run_folder, "-", "--input-format=csv", *asked) == of_file
    assert len(of_file) == 2


def test_the_command_puts_words_for_masks_and_keeps_the_rest(run_folder: Path) -> None:
    words = ["predict", str(run_folder), "the [MASK] runs [MASK] [MASK] bridge", "--samples=3", "--steps=5"]
    done = warm_process("-m", "tiryns", *words, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) == 3
    for line in lines:
        assert [line[i] for i in (0, 2, 5)] == ["the", "runs", "bridge"]
        assert set(line) <= set(WORDS)
        assert len(line) == 6


def test_likeliest_tokens_of_each_mask_are_those_of_transformers(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = BertForMaskedLM.from_pretrained(run_folder / "model").eval()
    tokenizer = AutoTokenizer.from_pretrained(run_folder / "model")
    text = "the [MASK] runs [MASK] bridge"
    batch = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        logits = model(input_ids=batch["input_ids"]).logits[batch["input_ids"] == tokenizer.mask_token_id]
    logits[:, tokenizer.all_special_ids] = -math.inf
    shares, tokens = logits.softmax(-1).topk(3)
    (tmp_path / "a.jsonl").write_text(
        json.dumps({"text": "a [MASK]"}) + "\n" + json.dumps({"text": text}) + "\n"
    )
    main(["predict", str(run_folder), str(tmp_path / "a.jsonl"), "--top-k", "3"])
    one, two = map(json.loads, capsys.readouterr().out.splitlines())
    assert [len(one["predicted"]), *map(len, one["predicted"])] == [1, 3]
    assert two["predicted"] == [tokenizer.convert_ids_to_tokens(mask) for mask in tokens.tolist()]
    torch.testing.assert_close(torch.tensor(two["probability"]), shares)
    main(["predict", str(run_folder), text, "--top-k", "2"])
    first, second = capsys.readouterr().out.strip().split("; ")
    assert [first.split()[0], second.split()[2]] == [two["predicted"][0][0], two["predicted"][1][1]]
    assert f"{two['probability'][0][1]:.3f}" in first


def test_the_command_writes_a_text_from_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of letters, among which the space is one."""
    tokenizer = train_tokenizer([" ".join(WORDS)], "characters", 300, False)
    config = BertConfig(vocab_size=300, max_position_embeddings=24, **SIZES)  # type: ignore[arg-type]
    BertForMaskedLM(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    texts = []
    for seed in ("1", "1", "2"):
        main(["predict", str(tmp_path), "--length", "22", "--steps", "5", "--seed", seed])
        texts.append(capsys.readouterr().out)
    assert len(texts[0]) == 22 + len("\n")
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["the river"], "nothing to fill in: write [MASK]"),
        ([], "give a text or a file, or --length N"),
        (["a [MASK]", "--length", "3"], "give a text with [MASK] in it, or --length N"),
        (["--length", "30"], "32 tokens, more than the 24 that the model can take"),
        (["a [MASK]", "--top-k", "0"], "--top-k must be at least 1"),
        (["a [MASK]", "--order", "left"], "order='left'; there are: random, confidence"),
    ],
)
def test_a_wrong_argument_ends_with_one_message(run_folder: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["predict", str(run_folder), *arguments])
    assert str(stopped.value.code).startswith("error: ")
    assert message in str(stopped.value.code)


def test_a_model_with_another_head_is_refused(run_folder: Path, tmp_path: Path) -> None:
    BertForSequenceClassification(BertConfig(vocab_size=22, **SIZES)).save_pretrained(tmp_path)  # type: ignore[arg-type]
    AutoTokenizer.from_pretrained(run_folder / "model").save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="is a BertForSequenceClassification, not a language model"):
        Masks(str(tmp_path), open_model(str(tmp_path)), {})
    (tmp_path / "discriminator_head").mkdir()
    with pytest.raises(ValueError, match=r"is a discriminator, .* its generator does, in model/generator"):
        Masks(str(tmp_path), open_model(str(tmp_path)), {})


class Own(BertForMaskedLM):
    """A class of the user's own."""


class OwnClassifier(BertForSequenceClassification):
    """Another one, without the head of a language model."""


def test_a_class_of_ones_own_is_read_by_what_its_weights_can_do(
    run_folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own, other = tmp_path / "own" / "model", tmp_path / "other"
    Own.from_pretrained(run_folder / "model").save_pretrained(own)
    OwnClassifier(BertConfig(vocab_size=22, **SIZES)).save_pretrained(other)  # type: ignore[arg-type]
    for folder in (own, other):
        AutoTokenizer.from_pretrained(run_folder / "model").save_pretrained(folder)
    text = ["the [MASK] runs [MASK]"]
    options = PredictOptions(steps=4, seed=3)
    plain, found = (Predictor(run).predict(text, options) for run in (run_folder, own.parent))
    assert found == plain
    assert "is a Own, which transformers does not have: it is read as a BertForMaskedLM" in caplog.text
    message = r"is a OwnClassifier, not a language model: the weights .* are missing"
    with pytest.raises(ValueError, match=message):
        Masks(str(other), open_model(str(other)), {})
    (own.parent / "status.json").write_text('{"state": "done"}')
    with pytest.raises(ValueError, match=r"load the model with the class itself, Own\.from_pretrained"):
        open_run(own.parent).model()


def test_texts_of_different_length_are_filled_together(run_folder: Path) -> None:
    predictor = Predictor(run_folder)
    options = PredictOptions(steps=4, temperature=0.0, order="confidence")
    texts = ["the [MASK]", "seven [MASK] watch the old [MASK] again"]
    together = predictor.predict(texts, options)
    assert together == [predictor.predict([text], options)[0] for text in texts]


@pytest.mark.slow
def test_a_trained_run_fills_in_what_it_has_learnt(run_here: Any, tmp_path: Path) -> None:
    """In the text of this run `herons` always follow `seven`, and `winter` stands before `of`."""
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(["seven herons watch the winter of old rivers"] * 60 + ["an old bridge"] * 2))
    settings = [
        "objective=diffusion", "trainer.max_steps=60", "optimizer.lr=0.01", "data.validation_documents=1",
    ]  # fmt: skip
    folder = run_here(f"data.source={text}", *settings)
    options = PredictOptions(steps=10, temperature=0.0, order="confidence")
    (found,) = Predictor(folder.path).predict(["seven [MASK] watch the [MASK] of old rivers"], options)
    assert found["predicted"] == "seven herons watch the winter of old rivers"
    figures = json.loads((folder.path / "status.json").read_text())["results"]
    nats = figures["val/held_out/loss"]
    assert figures["val/held_out/bits_per_token"] == pytest.approx(nats / math.log(2))
