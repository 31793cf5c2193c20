"""Samples that a run leaves out: they count for nothing, and nothing else moves."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import TINY, train_here
from tests.data.mixture.sources import texts
from tests.data.pairs import rows as pairs
from tests.runs.test_train import continued, losses
from tests.support.composed import composed
from tests.support.in_process import tiryns_here
from tiryns.runner.config.checks import check_config
from tiryns.runner.data.replicas import Replica
from tiryns.runner.loop.assembly import assemble
from tiryns.runner.manifest.inputs import read_manifest
from tiryns.runner.models.packed.dropout_keys import dropout_keys
from tiryns.runner.modules.two_passes import in_two_passes
from tiryns.runner.optim.hooks import LoopNeeds
from tiryns.runner.run.folder import Run

LEFT_OUT = [3, 4, 20, 21, 22, 57, 100]

FP32 = "trainer.precision=32-true"


def parts_of(text_file: Path, *words: str) -> Any:
    return assemble(composed([*TINY, f"data.source={text_file}", FP32, *words]))


def without(numbers: list[int]) -> str:
    return f"data.without={numbers}".replace(" ", "")


def rows_in(parts: Any, ranks: int = 1) -> list[list[list[tuple[Any, ...]]]]:
    """Of each step, rank and micro-batch the samples: number, key of masks, inputs and targets."""
    steps: list[list[list[tuple[Any, ...]]]] = []
    for step in range(parts.max_steps):
        steps.append([])
        for share in (parts.data.train_batches(rank, ranks)[step] for rank in range(ranks)):
            numbers = iter(share["sample_ids"].tolist())
            for batch in share["micro_batches"]:
                rows = zip(batch["sample_keys"].tolist(), batch["input_ids"], batch["labels"], strict=True)
                found = [
                    (
                        *next(numbers),
                        key,
                        tuple(ids[ids != 0].tolist()),
                        tuple(targets[targets >= 0].tolist()),
                    )
                    for key, ids, targets in rows
                    if batch["weight"]
                ]
                steps[-1].append(found)
    return steps


@pytest.mark.rows(1)
@pytest.mark.parametrize("objective", ["mlm", "hybrid", "diffusion"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_all_other_samples_keep_place_masks_and_micro_batch(
    objective: str, ranks: int, text_file: Path
) -> None:
    words = f"objective={objective}", "data.layout=padded"
    whole = rows_in(parts_of(text_file, *words), ranks)
    rest = rows_in(parts_of(text_file, *words, without(LEFT_OUT)), ranks)
    gone = [row for step in whole for batch in step for row in batch if row[1] in LEFT_OUT]
    assert len(gone) > 3
    assert rest == [[[row for row in batch if row[1] not in LEFT_OUT] for batch in step] for step in whole]


@pytest.mark.rows(1)
@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_loss_is_that_of_the_others_with_the_same_dropout(layout: str, text_file: Path) -> None:
    """So the difference of two runs comes from the samples alone."""
    words = (
        f"data.layout={layout}", "data.micro_batch_tokens=null", "sampler.global_batch_size=120",
        "model.dropout=0.1",
    )  # fmt: skip
    sums = []
    for more in ([], [without(LEFT_OUT)]):
        parts = parts_of(text_file, *words, *more)
        parts.model.train().by_row = True
        share = parts.data.train_batches(0, 1)[0]
        (batch,) = share["micro_batches"]
        with dropout_keys(batch, 5), torch.no_grad():
            by_row = parts.model(batch)["row_sums"]["loss"]
        sums.append(dict(zip(share["sample_ids"][:, 1].tolist(), by_row.tolist(), strict=True)))
    whole, rest = sums
    gone = whole.keys() - rest.keys()
    assert gone
    assert gone <= set(LEFT_OUT)
    assert [whole[n] for n in rest] == pytest.approx(list(rest.values()), rel=1e-5)


@pytest.mark.slow
def test_batch_of_none_but_these_moves_no_weight_by_its_loss(
    run_here: Callable[..., Run], text_file: Path
) -> None:
    """The step is still one of the run, with its rate and its place."""
    every = parts_of(text_file)
    first = every.data.train_batches(0, 1)[0]["sample_ids"][:, 1].tolist()
    run = run_here(without(sorted(first)), FP32, "optimizer=sgd", "trainer.max_steps=2", "scheduler=constant")
    assert losses(run)[1] == 0
    assert losses(run)[2] > 1


def test_substitute_is_the_next_sample_that_stays(text_file: Path) -> None:
    whole, other = (
        parts_of(text_file, without([3, 4, 20]), f"data.substitute={on}").data.sampler
        for on in ("false", "true")
    )
    last = len(whole.dataset) - 1
    expected = {3: 5, 4: 5, 20: 21}
    for step in range(len(whole)):
        before, after = (sampler.global_batch(step).tolist() for sampler in (whole, other))
        assert after == [[epoch, expected.get(index, index)] for epoch, index in before]
        assert other.is_trained(other.global_batch(step)).all()
    wrapped = parts_of(text_file, without([last]), "data.substitute=true").data.sampler
    assert wrapped.substitutes.tolist() == [0]


def words_of_pairs(folder: Path) -> list[str]:
    """The words of a run on rows in their order."""
    file = pairs.write(folder / "train.jsonl", pairs.pairs(negatives=2))
    words = [*pairs.TINY, FP32, f"data.train={file}", "data.validation_documents=0", "sampler=sequential"]
    return [*words, "trainer.validate_every=0", "checkpoint.monitor=null", "data.negative_columns=[negative]"]


@pytest.mark.slow
def test_batch_of_pairs_is_one_of_the_other_rows(tmp_path: Path) -> None:
    """Left-out rows are neither queries nor negatives."""
    words = words_of_pairs(tmp_path)
    whole = assemble(composed([*words, "data.micro_batch_tokens=null"]))
    rest = assemble(composed([*words, without([1, 4])]))
    (batch,) = whole.data.train_batches(0, 1)[0]["micro_batches"]
    kept = torch.tensor([place not in (1, 4) for place in range(12)])
    rows = whole.model.rows_of(whole.model.vectors_of(batch), [batch], whole_batch=True)
    expected = whole.model.loss(type(rows)(*(part[kept] for part in rows)), whole.model.temperature)
    share = rest.data.train_batches(0, 1)[0]
    assert share["weight"] == 10
    trained = in_two_passes(rest.model, share["micro_batches"], LoopNeeds(None), (1, 1), Replica(0, 1, None))
    found = sum(float(trained(micro)["loss"]) for micro in share["micro_batches"])
    assert found == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.rows(1)
@pytest.mark.parametrize("objective", ["contrastive", "sparse", "late_interaction"])
def test_batch_of_no_pair_that_stays_has_no_loss(objective: str, tmp_path: Path) -> None:
    words = [*words_of_pairs(tmp_path), f"objective={objective}"]
    words += ["data.task=" + objective] if objective != "contrastive" else []
    rest = assemble(composed([*words, without([*range(12)])]))
    share = rest.data.train_batches(0, 1)[0]
    assert share["weight"] == 0
    rest.model.zero_grad()
    loss = rest.model.train()(share["micro_batches"][0])["loss"]
    loss.backward()
    assert float(loss) == 0
    assert all(p.grad is None or not p.grad.any() for p in rest.model.parameters())


def test_labelled_rows_are_left_out_with_their_loss(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("text,label\nalone\n" + "".join(f"w{i} river,{'ab'[i % 2]}\n" for i in range(30)))
    words = [
        "experiment=classification", "data=classification", f"data.train={file}", "model=bert_tiny", FP32,
    ]  # fmt: skip
    words += ["sampler=sequential", "sampler.global_batch_size=10", "trainer=cpu", "trainer.max_steps=3"]
    words += ["data.validation_documents=0", "trainer.validate_every=0", "data.vocab_size=200"]
    words += ["data.on_bad_row=skip", "data.without=w2 river"]
    share = assemble(composed(words)).data.train_batches(0, 1)[0]
    assert share["sample_ids"][:, 1].sort().values.tolist() == [0, 1, 3, 4, 5, 6, 7, 8, 9]
    assert share["weight"] == 9


@pytest.fixture(scope="module", name="trained")
def trained_fixture(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Run:
    """A run without some samples."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    run: Run = train_here(
        folder, text_file, without(LEFT_OUT), "checkpoint.every_steps=5", "checkpoint.keep_last=9"
    )
    return run


def test_run_goes_on_without_the_same_samples_alone(trained: Run) -> None:
    copy = continued(trained, 5, "again")
    changed = tiryns_here(trained.path.parent, "train", f"resume={copy.path}", without(LEFT_OUT[1:]))
    assert changed.returncode == 1
    assert "without was '7 samples weight 0," in changed.stderr
    assert "and is '6 samples weight 0," in changed.stderr
    assert tiryns_here(trained.path.parent, "train", f"resume={copy.path}").returncode == 0
    assert losses(copy) == losses(trained)
    assert read_manifest(trained.path)["inputs"]["order"]["without"].startswith("7 samples weight 0, ")


def test_order_has_no_step_of_a_sample_that_is_left_out(trained: Run) -> None:
    shown = tiryns_here(trained.path.parent, "order", str(trained.path), "--steps", "1:12", "--json")
    assert shown.returncode == 0, shown.stderr
    rows = json.loads(shown.stdout)
    assert not {row["index"] for row in rows} & set(LEFT_OUT)
    places = [row["place"] for row in rows if row["step"] == 1]
    assert len(rows) < 12 * 12
    assert places == [place + 1 for place in range(12) if place + 1 in places]


def test_what_a_text_finds_is_what_is_left_out(trained: Run, text_file: Path, tmp_path: Path) -> None:
    text = "herons watch"
    asked = ["--find", text, "--json", "--out", str(tmp_path / "found.json")]
    found = tiryns_here(trained.path.parent, "order", str(trained.path), *asked)
    assert found.returncode == 0, found.stderr
    holders = json.loads((tmp_path / "found.json").read_text())["texts"][0]["found"]
    numbers = sorted({number for holder in holders for number in holder["sequences"]})
    assert numbers
    (tmp_path / "numbers.txt").write_text("\n".join(map(str, numbers)))
    for given in (
        f"'{text}'",
        tmp_path / "found.json",
        tmp_path / "numbers.txt",
        str(numbers).replace(" ", ""),
    ):
        data = parts_of(text_file, f"data.without={given}").data
        assert data.sampler.left_out.tolist() == numbers, given


@pytest.mark.slow
def test_source_of_a_mixture_is_left_out_by_name(tmp_path: Path) -> None:
    (verses, first), (code, second) = texts(tmp_path / "texts").items()
    words: list[str] = ["data=mixture" if word == "data=files" else word for word in TINY]
    words += [
        f"data.mixture={{{verses}: {{source: {first}, weight: 2}}, {code}: {{source: {second}, weight: 1}}}}"
    ]
    data = assemble(composed([*words, f"data.without=source:{code}"])).data
    share = data.train_batches(0, 1)[0]
    of_code = data.train.sources_of(data.sampler.global_batch(0)[:, 1]).sum()
    assert 0 < of_code == 12 - len(share["sample_ids"]), "its places stay empty"
    assert {
        int(source) for batch in share["micro_batches"] if batch["weight"] for source in batch["sources"]
    } == {0}
    with pytest.raises(ValueError, match=r"without=source:cod: the mixture has .*Did you mean 'code'"):
        assemble(composed([*words, "data.without=source:cod"]))
    with pytest.raises(ValueError, match="names all samples of a source"):
        assemble(composed([*words, f"data.without=source:{code}", "data.substitute=true"]))


@pytest.mark.rows(4)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("[]", "names no training sample"),
        ("[-1]", "names sample -1: the training set has samples 0 to"),
        ("[1000000]", r"names sample 1000000: .*`index` of `tiryns order`"),
        ("'no such words'", "names no training sample"),
        (f"'{'keine Wörter ' * 19}'", "names no training sample"),
        ("[a,1]", "expected numbers of samples, a file, a text, or source:NAME"),
        ("source:a", "the data is no mixture"),
        ("1.5", "expected numbers of samples"),
        ("true", "expected numbers of samples"),
    ],
)
def test_what_names_no_sample_is_one_line(given: str, message: str, text_file: Path) -> None:
    with pytest.raises(ValueError, match=message):
        parts_of(text_file, f"data.without={given}")


def test_file_that_lists_nothing_is_one_line(text_file: Path, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"a": 1}')
    with pytest.raises(ValueError, match="expected numbers of samples, or what `tiryns order RUN --find"):
        parts_of(text_file, f"data.without={tmp_path / 'other.json'}")
    (tmp_path / "all.txt").write_text("\n".join(map(str, range(len(parts_of(text_file).data.train)))))
    with pytest.raises(ValueError, match=r"names all .* training samples"):
        parts_of(text_file, f"data.without={tmp_path / 'all.txt'}")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["data.substitute=true"], "name the samples that others take the place of"),
        (["data.without=[1]", "data.streaming=true"], "those of a stream have none"),
    ],
)
def test_settings_that_do_not_fit_are_refused_before_data_is_read(words: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_config(composed([*TINY, "data.source=nowhere.txt", *words]))
