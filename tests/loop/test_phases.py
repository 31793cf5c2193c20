"""The lengths of phases, what is refused before data is read, and what data cannot change."""

import re
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from tests.conftest import TINY
from tests.data.mixture.test_runs import words
from tiryns import assemble as checked
from tiryns import compose
from tiryns.conf.phases import lengths_of, phases_of
from tiryns.runner.config.checks import check_config
from tiryns.runner.loop.assembly import assemble
from tiryns.runner.loop.phases import steps_of, take_over

BY_PHASES = "trainer.max_steps=-1"


@pytest.fixture(scope="module")
def arguments(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return words(tmp_path_factory.mktemp("texts"))


def phases(*entries: str) -> str:
    return f"phases=[{', '.join(f'{{{entry}}}' for entry in entries)}]"


def shares_of(config: Any) -> tuple[Any, list[dict[str, Any]]]:
    parts = assemble(config)
    batches = parts.data.train_batches(0, 1)
    return parts, [batches[step] for step in range(parts.max_steps)]


def steps(config: Any) -> list[int]:
    return [phase.steps for phase in config.phases]


@pytest.mark.rows(1)
@pytest.mark.parametrize("mixture", [True, False], ids=["mixture", "one source"])
@pytest.mark.parametrize("sampler", ["shuffled", "growing"])
def test_tokens_are_counted_to_the_batch_in_the_order_of_their_phase(
    arguments: list[str], text_file: Path, mixture: bool, sampler: str
) -> None:
    given = arguments if mixture else [*TINY, f"data.source={text_file}"]
    grows = [f"sampler={sampler}", "sampler.global_batch_size=12"]
    grows += ["sampler.warmup_steps=20", "sampler.warmup_from=4"] if sampler == "growing" else []
    entries = [
        "name: first, tokens: 5000",
        "name: same, tokens: 14000",
        "name: short, tokens: 7000, data: {max_length: 24}, sampler: {global_batch_size: 9}",
        "name: last, steps: 2",
        "name: again, tokens: 900, data: {max_length: 24}",
    ]
    config = compose(*given, *grows, BY_PHASES, phases(*entries))
    check_config(config)
    config = config.copy()
    _, shares = shares_of(config)
    tokens = [int(share["tokens"]) for share in shares]
    assert len(tokens) == config.trainer.max_steps == sum(steps(config))
    ends = list(accumulate(steps(config), initial=0))
    for place, budget in ((0, 5000), (1, 14000), (2, 7000), (4, 900)):
        assert sum(tokens[ends[place] : ends[place + 1]]) <= budget
    assert sum(tokens[: ends[1] + 1]) > 5000
    for place, budget in ((1, 14000), (2, 7000)):
        longer = entries[place].replace(f"tokens: {budget}", f"steps: {steps(config)[place] + 1}")
        _, shares = shares_of(compose(*given, *grows, BY_PHASES, phases(*entries[:place], longer)))
        assert sum(int(share["tokens"]) for share in shares[ends[place] :]) > budget


@pytest.mark.slow
def test_shares_are_of_steps_or_of_tokens(arguments: list[str]) -> None:
    entries = phases("name: a, share: 0.55", "name: b, share: 0.35", "name: c, share: 0.1")
    config = compose(*arguments, "trainer.max_steps=13", entries)
    assemble(config)
    assert steps(config) == [7, 5, 1]
    by_tokens = compose(*arguments, BY_PHASES, "trainer.max_tokens=8000", entries)
    given = compose(
        *arguments,
        BY_PHASES,
        phases("name: a, tokens: 4400", "name: b, tokens: 2800", "name: c, tokens: 800"),
    )
    for each in (by_tokens, given):
        check_config(each)
        assemble(each)
    assert steps(by_tokens) == steps(given)
    assert by_tokens.trainer.max_tokens is None


def test_shares_end_at_the_nearest_step_and_are_the_whole_run() -> None:
    given = phases_of([{"name": str(share), "share": share} for share in (0.1, 0.2, 0.3, 0.4)])
    for total in (9, 17, 99, 1000, 123_457):
        found = lengths_of(given, {"max_steps": total})
        ends = list(accumulate(length or 0 for length in found))
        assert ends == [round(share * total) for share in (0.1, 0.3, 0.6)] + [total]


SETTLED = OmegaConf.create({"phases": [{"name": "a", "steps": 7}, {"name": "b", "steps": 9}]})


@pytest.mark.slow
def test_counted_lengths_stay_where_the_run_goes_on(arguments: list[str]) -> None:
    def config(*entries: str, more: tuple[str, ...] = ()) -> Any:
        return compose(*arguments, BY_PHASES, phases(*entries), *more)

    first = ("name: a, tokens: 2000", "name: b, tokens: 3000, data: {max_length: 24}")
    resolved = {"phases": steps_of(config(*first), SETTLED)}
    same = config(*first)
    take_over(same, resolved)
    assert steps(same) == [7, 9]
    assert [phase.tokens for phase in same.phases] == [None, None]
    other = config(first[0], first[1].replace("3000", "4000"), "name: c, steps: 3")
    take_over(other, resolved)
    assert OmegaConf.to_container(other.phases[0])["steps"] == 7  # type: ignore[call-overload, index]
    assert [phase.get("tokens") for phase in other.phases] == [None, 4000, None]
    untouched = config(first[1])
    take_over(untouched, resolved)
    assert untouched == config(first[1])
    shares = ("name: a, share: 0.4", "name: b, share: 0.6")
    by_tokens = config(*shares, more=("trainer.max_tokens=5000",))
    known = {"phases": steps_of(by_tokens.copy(), SETTLED)}
    take_over(by_tokens, known | {"budget": "max_tokens 5,000", "max_steps": 16})
    assert (steps(by_tokens), by_tokens.trainer.max_tokens) == ([7, 9], None)


OWN = "name: a, steps: 5"
MIXED = "name: b, steps: 5, data: {mixture: "


@pytest.mark.rows(5)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([phases(MIXED + "{cod: 1}}")], "mixture.cod: data.mixture has the sources verses, code. Did you mean 'code'"),
        ([phases(MIXED + "{code: 0}}")], "phases[0] (b).data.mixture.code=0: it must be a number above 0; leave"),
        ([phases(MIXED + "{}}")], "phases[0] (b).data.mixture={}: expected weights by name of source"),
        ([phases(MIXED + "{code: 1}, mixture_tau: 1}")], "phases[0] (b).data has mixture and mixture_tau"),
        ([phases("name: a, steps: 5, data: {mixture_by: letters}")], "phases[0] (a).data.mixture_by=letters: "),
        (
            [phases("name: a, steps: 5, data: {max_length: 1024}"), "model.max_position_embeddings=512"],
            "phases[0] (a).data.max_length=1024 is more than the model can take: model.max_position_embeddings=512",
        ),
        ([phases("name: a, steps: 5, sampler: {warmup_steps: 3}")], "(a).sampler.warmup_steps needs warmup_from too"),
        ([phases("name: a, steps: 5, sampler: {global_batch_size: 0}")], "phases[0] (a).sampler.global_batch_size=0: "),
        ([phases("name: a, steps: 5, objective: {mlm: 0.3}")], "phases[0] (a).objective.mlm: the objective of a run has"),
        (
            [phases("name: a, steps: 5, objective: {validation_mlm_probability: 0.3}")],
            "phases[0] (a).objective.validation_mlm_probability: validation is as the run's own settings say",
        ),
        ([phases("name: a, share: 0.5", "name: b, share: 0.4")], "phases: give every phase a share of the run, with"),
        ([phases("name: a, share: 0.99", "name: b, share: 0.01")], "phases[1] (b) has no step: its share is 0.01 of 12"),
        ([phases("name: a, share: 1"), BY_PHASES, "trainer.max_epochs=2"], "and the run has trainer.max_epochs=2"),
        ([phases(OWN)], "trainer.max_steps=12, and the phases have lengths of their own, 5 steps in all: set"),
        (
            [phases("name: a, tokens: 5e5")],
            "trainer.max_steps=12, and the phases have lengths of their own, some of them in tokens: set "
            "trainer.max_steps=-1; for another length change theirs, such as phases.0.tokens=500000, or give each phase",
        ),
        ([phases(OWN), BY_PHASES, "trainer.max_tokens=9"], "trainer.max_tokens=9, and the phases have lengths"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_told_before_data_is_read(
    arguments: list[str], given: list[str], message: str
) -> None:
    lengths = [] if any(word.startswith("trainer") for word in given) or "share" in given[0] else [BY_PHASES]
    if message.startswith("trainer.max_steps=12"):
        lengths = []
    config = compose(*arguments, *lengths, *given)
    with pytest.raises(ValueError, match=re.escape(message)):
        check_config(config)


@pytest.mark.slow
def test_the_default_length_gives_way_to_that_of_phases() -> None:
    config = compose("phases=[{name: a, steps: 5}, {name: b, steps: 6}]", "scheduler.cooldown_steps=4")
    assert config.trainer.max_steps == 1500
    check_config(config)
    too_short = compose("phases=[{name: a, steps: 5}, {name: b, steps: 6}]", "scheduler.cooldown_steps=40")
    with pytest.raises(ValueError, match="scheduler: "):
        check_config(too_short)


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            [phases("name: a, share: 0.5", "name: b, share: 0.5, data: {mixture: {code: 1}}")],
            "phases[1] (b).data.mixture: the run's data is no mixture",
        ),
        (
            [phases("name: a, share: 0.5", "name: b, share: 0.5, data: {max_length: 24}"), "sampler=length_grouped"],
            "phases[1] (b).data: LengthGrouped makes batches of all samples together",
        ),
        (
            [phases("name: a, share: 1, sampler: {global_batch_size: 6}"), "sampler=length_grouped"],
            "phases[0] (a).sampler: LengthGrouped makes batches",
        ),
        (
            [phases("name: a, share: 1, objective: {pooling: mean}"), "objective=enhanced_mlm"],
            "phases[0] (a).objective.pooling: the model is built with it",
        ),
        (
            [
                phases("name: a, share: 0.5", "name: b, share: 0.5, data: {max_length: 24}"),
                "data.length_warmup_from=8",
                "data.length_warmup_steps=7",
            ],
            "data.length_warmup_steps: the warm-up to data.max_length=48 ends at step 7, and the phase b has sequences",
        ),
        (
            [phases("name: a, tokens: 3000"), BY_PHASES, "sampler=growing", "sampler.warmup_steps=0.5"],
            "sampler.warmup_steps=0.5 is a share of steps, and the tokens of phases tell these by their batches",
        ),
        ([phases("name: a, tokens: 10"), BY_PHASES], "phases[0] (a).tokens=10 is less than the first global batch takes"),
    ],
)  # fmt: skip
def test_what_data_cannot_change_is_refused(text_file: Path, given: list[str], message: str) -> None:
    config = compose(*TINY, f"data.source={text_file}", *given)
    with pytest.raises(ValueError, match=re.escape(message)):
        checked(config)


@pytest.mark.slow
def test_streams_may_have_phases_of_schedules_alone(text_file: Path) -> None:
    given = [*TINY, f"data.source={text_file}"]
    tokenizer = assemble(compose(*given)).data.prepared.tokenizer
    given += ["data.streaming=true", f"data.tokenizer={tokenizer}", "data.validation_documents=0"]
    streamed = compose(*given, phases("name: a, share: 0.5", "name: b, share: 0.5, optimizer: {lr: 0.001}"))
    assert assemble(streamed).max_steps == 12
    assert steps(streamed) == [6, 6]
    for own in (
        "data: {max_length: 24}",
        "sampler: {global_batch_size: 6}",
        "objective: {mlm_probability: 0.1}",
    ):
        message = f"phases[0] (a).{own.split(':')[0]}: in batches of StreamedPretrainingData a phase can"
        with pytest.raises(ValueError, match=re.escape(message)):
            assemble(compose(*given, phases(f"name: a, share: 1, {own}")))


@pytest.mark.slow
def test_sorted_batches_may_have_phases_of_schedules(text_file: Path) -> None:
    entries = phases("name: a, share: 0.5", "name: b, share: 0.5, optimizer: {lr: 0.001}")
    config = compose(*TINY, f"data.source={text_file}", "sampler=length_grouped", entries)
    undivided = compose(*TINY, f"data.source={text_file}", "sampler=length_grouped")
    found, whole = (assemble(each).data.sampler for each in (config, undivided))
    assert [found.global_batch(step).tolist() for step in range(12)] == [
        whole.global_batch(step).tolist() for step in range(12)
    ]
    assert found.fingerprint() == whole.fingerprint()
    assert steps(config) == [6, 6]


@pytest.mark.slow
def test_a_source_without_weight_is_drawn_in_phases_alone(arguments: list[str]) -> None:
    own = [word for word in arguments if not word.startswith("data.mixture=")]
    mixture = next(word for word in arguments if word.startswith("data.mixture=")).replace(
        ", weight: 0.3", ""
    )
    drawn = phases("name: a, share: 0.5", "name: b, share: 0.5, data: {mixture: {code: 1, verses: 1}}")
    config = compose(*own, mixture, drawn)
    check_config(config)
    parts, shares = shares_of(config)
    sources = [{int(s) for micro in share["micro_batches"] for s in micro["sources"]} for share in shares]
    assert (sources[0], sources[6]) == ({0}, {0, 1})
    assert list(parts.data.validation) == ["verses", "code"]
    assert parts.data.validation_shares == {"verses": 1.0}
    assert "drawn in phases alone" in parts.data.describe()["mixture.code"]
    refused = compose(*own, mixture, phases("name: a, share: 1"))
    with pytest.raises(ValueError, match="code has no weight"):
        check_config(refused)


@pytest.mark.slow
def test_a_source_is_passed_over_as_often_as_it_may_be_in_all_phases(arguments: list[str]) -> None:
    drawn = phases("name: a, share: 0.5", "name: b, share: 0.5, data: {max_length: 24, mixture: {code: 1}}")
    bounded = [*arguments, "trainer.max_steps=40", drawn, "+data.mixture.code.max_epochs=2"]
    with pytest.raises(
        ValueError, match=r"code would be passed over 2\.\d+ times in 40 steps, and max_epochs is 2"
    ) as told:
        assemble(compose(*bounded))
    fits = int(re.search(r"train for (\d+) steps", str(told.value))[1])  # type: ignore[index]
    order = assemble(compose(*bounded[:-1])).data
    assert order._epochs_at(fits)["code"] <= 2 < order._epochs_at(fits + 1)["code"]


@pytest.mark.slow
def test_finetuning_may_have_phases_of_batch_sizes(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("text,label\n" + "".join(f"a river {row},{row % 2}\n" for row in range(90)))
    entries = phases("name: a, share: 0.5", "name: b, share: 0.5, sampler: {global_batch_size: 5}")
    words = ["data=classification", f"data.train={rows}", f"data.validation={rows}"]
    config = compose("experiment=classification", *words, "model=bert_tiny", "trainer.max_steps=4", entries)
    _, shares = shares_of(config)
    assert [len(share["sample_ids"]) for share in shares] == [32, 32, 5, 5]
