"""`tiryns ladder`: which runs it trains, what it says of them, and that a prediction stands before its run begins."""

import json
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.cli.judge.folders import KEY, make_run
from tests.conftest import TINY
from tests.report.pages import read
from tests.support.in_process import Done, tiryns_here
from tests.support.json_keys import document
from tiryns.runner.cli import commands
from tiryns.runner.run.files import LADDER

ARGUMENTS = ["--widths", "64,128,256,384", "--rates", "2.5e-4,5e-4,1e-3,2e-3,4e-3,8e-3", "--seeds", "2"]
SWEPT = ("model.hidden_size", "optimizer.lr", "seed")


class Training:
    """Stands for `tiryns train -m`: makes finished runs at once whose best rate is 0.256 / width."""

    def __init__(self, left: int) -> None:
        self.asked: list[str] = []
        self.left = left

    def __call__(self, words: list[str]) -> None:
        given = dict(word.partition("=")[::2] for word in words[2:])
        folder = Path(given["hydra.sweep.dir"].strip("'"))
        swept = [given[name].split(",") for name in SWEPT]
        own = [word for word in words[3:] if not word.startswith(SWEPT)]
        for width, rate, seed in product(*swept):
            name = f"{width}-{rate}-{seed}"
            if (folder / name).exists():
                continue
            if not self.left:
                sys.exit(130)
            self.left -= 1
            self.asked.append(name)
            size, off = 24 * int(width) ** 2, np.log2(float(rate) * int(width) / 0.256)
            loss = 2 + 8 * size**-0.3 + 0.1 * off**2 + int(seed) / 1000
            plain = [word for word in own if "{" not in word]
            run = make_run(
                folder / name, int(seed), loss, [f"model.hidden_size={width}", f"optimizer.lr={rate}", *plain]
            )
            manifest = json.loads((run / "manifest.json").read_text())
            manifest["totals"] |= {"parameters": size, "flops": 6.0 * size}
            manifest["given"] = own
            (run / "manifest.json").write_text(json.dumps(manifest))


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Training]:
    """Puts a pretended training in the place of the real one."""

    def start(left: int = 10**6) -> Training:
        monkeypatch.setattr(commands, "main", found := Training(left))
        return found

    return start


def ladder(cwd: Path, *words: str) -> Done:
    return tiryns_here(cwd, "ladder", *words)


def refused(cwd: Path, *words: str) -> str:
    done = ladder(cwd, *words)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    return done.stderr


def test_best_rates_and_the_law_are_told(tmp_path: Path, training: Callable[..., Training]) -> None:
    asked = training().asked
    found = document("ladder", ladder(tmp_path, *ARGUMENTS, "--json").stdout)
    assert len(asked) == 4 * 6 * 2
    best = [0.256 / width for width in (64, 128, 256, 384)]
    assert [each["rate"] for each in found["widths"]] == pytest.approx(best)
    assert found["transfer"]["power"] == pytest.approx(-1)
    assert found["law"]["exponent"] == pytest.approx(0.3, abs=0.01)
    printed = ladder(tmp_path, found["folder"]).stdout
    assert "width 128 (393,216 parameters): best rate 0.002 (0.002 to 0.002)" in printed
    charts = read(tmp_path / found["page"]).charts
    assert [*charts] == ["Loss over rate", "Best rate", "Law"]
    assert [curve["label"] for curve in charts["Law"]["curves"]] == ["law", "measured"]


def test_prediction_stands_before_the_run_and_is_kept(
    tmp_path: Path, training: Callable[..., Training]
) -> None:
    training(left=4 * 6 * 2)  # which ends before the width that is predicted
    done = ladder(tmp_path, *ARGUMENTS, "--next", "512")
    assert done.returncode == 130
    (noted,) = tmp_path.glob(f"outputs/*/*/{LADDER}")
    before = json.loads(noted.read_text())["predictions"]["512"]
    assert before["rate"] == pytest.approx(0.256 / 512)
    assert before["size"] == pytest.approx(24 * 512**2)
    asked = training().asked
    again = ladder(tmp_path, *ARGUMENTS, "--next", "512", "--json")
    (found,) = document("ladder", again.stdout)["predictions"]
    assert len(asked) == 2, "what is there is not trained again"
    assert {name: found[name] for name in before} == before
    assert found["inside"]
    assert found["low"] <= found["measured"] <= found["high"]
    manifest = json.loads((noted.parent / asked[0] / "manifest.json").read_text())
    (word,) = (word for word in manifest["given"] if "callback.prediction" in word)
    told = yaml.safe_load(word.partition("=")[2].replace(":", ": ").replace(",", ", "))
    assert (told["figure"], told["value"]) == (KEY, before["value"])
    assert ladder(tmp_path, str(noted.parent)).stdout.count("inside") == 1
    for other in (["--metric", "objective"], ["--of", "flops"]):
        assert "predicted" not in ladder(tmp_path, str(noted.parent), *other).stdout
        assert "was predicted by" in refused(tmp_path, *ARGUMENTS, "--next", "512", *other)
    content = json.loads(noted.read_text())
    content["predictions"]["512"] |= {"value": 1.0, "low": 0.9, "high": 1.1}
    noted.write_text(json.dumps(content))
    assert "outside" in ladder(tmp_path, str(noted.parent)).stdout


def test_width_that_was_predicted_is_known_once_its_rates_are_trained(
    tmp_path: Path, training: Callable[..., Training]
) -> None:
    training()
    ladder(tmp_path, *ARGUMENTS, "--next", "512")
    more = ["--widths", "64,128,256,512", *ARGUMENTS[2:], "--next", "768", "--json"]
    found = document("ladder", ladder(tmp_path, *more).stdout)
    assert [each["width"] for each in found["widths"]] == [64, 128, 256, 384, 512]
    assert [(each["width"], each["inside"]) for each in found["predictions"]] == [(512, True), (768, True)]
    (outcome,) = (each for each in found["predictions"] if each["width"] == 512)
    assert outcome["measured"] == pytest.approx(2 + 8 * (24 * 512**2) ** -0.3 + 0.0015)


def test_runs_that_differ_in_more_than_the_rate_are_refused(tmp_path: Path) -> None:
    for number, (rate, decay) in enumerate(product((1e-3, 2e-3, 4e-3), (0, 1))):
        words = ["model.hidden_size=64", f"optimizer.lr={rate}", f"optimizer.weight_decay={decay}"]
        make_run(tmp_path / "s" / f"{number}", 1, 3.0, words)
    assert "width 64 differ in optimizer.weight_decay, not" in refused(tmp_path, "s", "--of", "flops")


def test_width_whose_best_rate_is_at_an_end_is_named(
    tmp_path: Path, training: Callable[..., Training]
) -> None:
    training()
    words = [
        "model.num_attention_heads=4", "--widths", "32,64,128", "--rates", "1e-3,2e-3,4e-3", "--seeds", "1",
    ]  # fmt: skip
    done = ladder(tmp_path, *words)
    assert done.returncode == 3
    size = "width 32 (24,576 parameters)"
    assert f"{size}: the best rate of seed 1, 0.004, is the largest that was tried" in done.stdout
    assert "width 512 cannot be predicted, as width 32" in refused(tmp_path, *words, "--next", "512")


@pytest.mark.rows(5)
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--widths", "64,128"], "--widths: expected 3 widths or more"),
        (["--rates", "1e-3,2e-3"], "--rates: expected three rates or more"),
        (["--next", "64"], "--next 64 is one of --widths"),
        (["--coordinates", "5", "--next", "512"], "compares widths at one rate: leave out --next"),
        (["--coordinates", "5", "--rates", "1e-3,2e-3"], "at one rate"),
        (["--seeds", "0"], "--seeds and --coordinates must be 1 or more"),
        (["model=pretrained", "model.name_or_path=x"], "a ladder builds its models"),
        (["seed=3"], "seed=3: the command gives seed itself"),
        (["--widths", "64,100,128"], "width 100 would have 25/16 for model.num_attention_heads"),
        (["--of", "flops", "--metric", "val/held_out/nothing"], "nothing"),
    ],
)
def test_what_makes_no_ladder_is_refused(
    words: list[str], why: str, tmp_path: Path, training: Callable[..., Training]
) -> None:
    if "--metric" in words:
        training()
    assert why in refused(tmp_path, *words)


@pytest.mark.slow
def test_real_ladder_predicts_and_measures(tmp_path: Path, text_file: Path) -> None:
    sizes = ["model.hidden_size=32", "model.num_attention_heads=2", "model.intermediate_size=64"]
    words = [*TINY, f"data.source={text_file}", *sizes, "trainer.max_steps=40", "trainer.validate_every=40"]
    rates = ["--rates", "1e-3,4e-3,1.6e-2,6.4e-2,0.256", "--seeds", "1"]
    done = ladder(tmp_path, *words, "--widths", "16,32,64", *rates, "--next", "96", "--json")
    found = document("ladder", done.stdout)
    (outcome,) = found["predictions"]
    folder = tmp_path / found["folder"]
    manifests = [json.loads(file.read_text()) for file in folder.glob("*/manifest.json")]
    (noted,) = (m for m in manifests if "prediction" in (m["config"]["resolved"]["callback"] or {}))
    assert noted["config"]["resolved"]["callback"]["prediction"]["low"] == outcome["low"]
    assert noted["totals"]["parameters"] == outcome["size"], "parameters are of second degree in the width"
    assert noted["config"]["resolved"]["model"]["intermediate_size"] == 192
    logs = [file.read_text() for file in folder.glob("*/train.log")]
    (log,) = (text for text in logs if "was predicted to be" in text)
    assert f"and is {outcome['measured']:.4g}" in log


@pytest.mark.slow
def test_activations_move_alike_at_all_widths_with_mup_alone(tmp_path: Path, text_file: Path) -> None:
    sizes = ["model.hidden_size=64", "model.num_attention_heads=2", "model.intermediate_size=128"]
    words = [*TINY, f"data.source={text_file}", *sizes]
    powers = {}
    for kind in ("standard", "mup"):
        given = [f"optimizer.parametrization={kind}", "optimizer.base_width=32", "--rates", "0.01"]
        done = ladder(tmp_path, *words, *given, "--widths", "32,128,512", "--coordinates", "8", "--json")
        found = document("ladder", done.stdout)
        powers[kind] = {name: each["power"] for name, each in found["coordinates"].items()}
        assert found["predictions"] == []
    assert max(map(abs, powers["mup"].values())) < 0.3
    assert powers["standard"]["logits"] > 0.4
