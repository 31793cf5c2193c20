"""The files in `docs/templates/`: of the form that each engine takes, with commands that this program understands."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.conftest import ROOT
from tests.house.test_docs import assert_understood
from tests.launch.test_agent import RUN, SLOWLY, STEPS
from tests.launch.test_kill import only_run
from tests.runs.test_train import assert_bitwise, weights
from tests.support.commands import words_of
from tests.support.installed import SOURCES
from tests.support.processes import SECONDS, output, start, wait_for_steps
from tiryns.runner.run import audit

TEMPLATES = ROOT / "docs" / "templates"

ORDER = ["FROM", "COPY", "RUN", "WORKDIR", "USER", "ENTRYPOINT"]
"""Instructions of a Dockerfile that ours uses."""


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((TEMPLATES / name).read_text()))


def assert_valid(document: Any, schema: str) -> None:
    rules = yaml.safe_load((ROOT / "tests" / "support" / "schemas" / schema).read_text())
    jsonschema.Draft202012Validator(rules).validate(document)


def commands_in(script: str) -> list[list[str]]:
    """The words of the torchrun commands of a shell script, with numbers in the place of variables."""
    joined = re.sub(r"\\\n\s*", "", script)
    lines = [line.strip().partition(" || ")[0] for line in joined.splitlines()]
    return [shlex.split(re.sub(r"\$\w+", "2", line)) for line in lines if line.strip().startswith("torchrun")]


def train_job() -> Any:
    return documents("trainjob.yaml")[1]


def all_commands() -> list[list[str]]:
    trainer = train_job()["spec"]["trainer"]
    scripts = [documents(name)[0]["run"] for name in ("sky.yaml", "sky-spot.yaml")]
    return [trainer["command"] + trainer["args"], *(words for run in scripts for words in commands_in(run))]


def test_train_job_is_one_that_kubeflow_takes() -> None:
    claim, job = documents("trainjob.yaml")
    assert_valid(job, "trainjob.yaml")
    (patch,) = job["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    pod = patch["template"]["spec"]["template"]["spec"]
    (volume,), (container,) = pod["volumes"], pod["containers"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert container["volumeMounts"] == [{"name": volume["name"], "mountPath": "/work/outputs"}]
    assert pod["terminationGracePeriodSeconds"] > 30, "torchrun gives its ranks 30 seconds to save"


@pytest.mark.parametrize("name", ["sky.yaml", "sky-spot.yaml"])
def test_sky_task_is_one_that_skypilot_takes(name: str) -> None:
    (task,) = documents(name)
    assert_valid(task, "skypilot.yaml")
    for script in (task["setup"], task["run"]):
        assert subprocess.run(["bash", "-n", "-c", script], check=False).returncode == 0


@pytest.mark.parametrize("words", all_commands(), ids=["trainjob", "sky", "sky-spot"])
def test_command_of_a_template_composes(words: list[str]) -> None:
    from torch.distributed.run import parse_args

    started = parse_args(words[1:])
    assert started.no_python
    assert started.training_script == "tiryns"
    ours = words_of(shlex.join(words))
    assert ours[0] == "tiryns"
    assert "resume=auto" in ours
    assert_understood(ours[1:])


def test_number_of_nodes_and_devices_are_those_that_are_started() -> None:
    trainer = train_job()["spec"]["trainer"]
    gpus = trainer["resourcesPerNode"]["limits"]["nvidia.com/gpu"]
    assert f"trainer.devices={trainer['numProcPerNode']}" in trainer["args"]
    assert trainer["numProcPerNode"] == gpus
    assert all("trainer.num_nodes=auto" in words or "--standalone" in words for words in all_commands())


@pytest.mark.slow
def test_run_that_is_copied_while_it_trains_goes_on_from_the_copy(text_file: Path, tmp_path: Path) -> None:
    """What `sky-spot.yaml` does with a bucket, which holds no links."""
    (task,) = documents("sky-spot.yaml")
    script = task["run"].replace("/bucket", str(tmp_path / "bucket"))
    save, restore = (
        re.findall(r"save\(\) \{ (.*?); \}", script)[0],
        re.findall(r"^if \[ .*fi$", script, re.MULTILINE)[0],
    )
    words = [*RUN, f"data.source={text_file}", *SLOWLY, "trainer.devices=1", "resume=auto"]
    first, second = tmp_path / "first", tmp_path / "second"
    (tmp_path / "bucket").mkdir()
    second.mkdir()
    machine = start(words, first)
    wait_for_steps(machine, first, 14)
    subprocess.run(["bash", "-c", save], cwd=first, check=True)
    wait_for_steps(machine, first, 20)
    subprocess.run(["bash", "-c", save], cwd=first, check=True)
    assert not [path for path in (tmp_path / "bucket").rglob("*") if path.is_symlink()]
    assert machine.wait(timeout=SECONDS) == 0, output(first)
    subprocess.run(["bash", "-c", restore], cwd=second, check=True)
    assert only_run(second / "outputs").status["state"] == "running"
    assert start(words, second).wait(timeout=SECONDS) == 0, output(second)
    whole, again = only_run(first / "outputs"), only_run(second / "outputs")
    assert "continuing at step" in output(second)
    assert audit.compare(whole.path, again.path) is None
    assert_bitwise(weights(whole, STEPS), weights(again, STEPS))


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile and their words."""
    joined = re.sub(r"\\\n\s*", "", text)
    lines = [line for line in joined.splitlines() if line and not line.startswith("#")]
    return [(line.split()[0], line.partition(" ")[2]) for line in lines]


def sections(text: str) -> dict[str, list[str]]:
    """The lines of each section of an Apptainer definition, those of its header under the empty name."""
    found: dict[str, list[str]] = {"": []}
    for line in text.splitlines():
        if line.startswith("%"):
            found[line[1:]] = []
        elif line.strip() and not line.strip().startswith("#"):
            found[list(found)[-1]].append(line.strip())
    return found


def shell_lines(name: str) -> list[str]:
    """The commands that run when an image is built."""
    text = (TEMPLATES / name).read_text()
    if name == "tiryns.def":
        return sections(text)["post"]
    return [line for kind, words in instructions(text) if kind == "RUN" for line in words.split(" && ")]


def test_dockerfile_is_in_order_and_runs_as_nobody_special() -> None:
    found = instructions((TEMPLATES / "Dockerfile").read_text())
    kinds = [kind for kind, _ in found]
    assert set(kinds) == set(ORDER)
    last = kinds[len(kinds) - kinds[::-1].index("FROM") - 1 :]
    assert last.index("USER") > max(at for at, kind in enumerate(last) if kind in ("RUN", "COPY"))
    assert (kinds[0], kinds[-1]) == ("FROM", "ENTRYPOINT")
    assert dict(found)["USER"] not in ("root", "0")
    assert dict(found)["ENTRYPOINT"] == '["tiryns"]'
    assert dict(found)["WORKDIR"] == "/work", "the outputs of the TrainJob are below"


def test_apptainer_definition_has_the_sections_of_one() -> None:
    found = sections((TEMPLATES / "tiryns.def").read_text())
    assert list(found) == ["", "files", "post", "runscript"]
    assert found[""][0] == "Bootstrap: docker"
    assert found["runscript"] == ['exec tiryns "$@"']
    docker = dict(instructions((TEMPLATES / "Dockerfile").read_text()))
    assert found[""][1].removeprefix("From: ") == docker["FROM"].split()[0]


def test_images_are_made_of_what_the_wheel_is_made_of() -> None:
    copied = [
        words.split()
        for kind, words in instructions((TEMPLATES / "Dockerfile").read_text())
        if kind == "COPY"
    ]
    sources = [name for words in copied if not words[0].startswith("--") for name in words[:-1]]
    files = [line.split() for line in sections((TEMPLATES / "tiryns.def").read_text())["files"]]
    assert sorted(sources) == sorted(name for name, _ in files) == sorted(SOURCES)
    assert all(target == f"/checkout/{name}" for name, target in files)
    folders = {words[0]: words[1] for words in copied if (ROOT / words[0]).is_dir()}
    assert folders == {name: f"/checkout/{name}" for name in SOURCES if (ROOT / name).is_dir()}


@pytest.mark.parametrize("name", ["Dockerfile", "tiryns.def"])
def test_base_is_pinned_and_nothing_is_left_over(name: str) -> None:
    text = (TEMPLATES / name).read_text()
    bases = re.findall(r"^(?:FROM|From:) (\S+)", text, re.MULTILINE)
    assert bases
    assert all(re.fullmatch(r"python:3\.\d+-slim-\w+", base) for base in bases)
    ran = "\n".join(shell_lines(name))
    assert "rm -rf /var/lib/apt/lists/*" in ran
    assert "apt-get install --yes --no-install-recommends" in ran
    lines = [shlex.split(line) for line in shell_lines(name)]
    pip = [words[3:] for words in lines if words[:3] == ["python", "-m", "pip"]]
    assert pip
    for words in pip:
        assert "--no-cache-dir" in words
        subprocess.run([sys.executable, "-m", "pip", *words, "--help"], capture_output=True, check=True)


def test_image_target_says_in_a_line_what_is_missing(tmp_path: Path) -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "image", "PATH=/nowhere", "SHELL=/bin/sh"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "docker or apptainer" in done.stdout.splitlines()[0]
    assert len(done.stdout.splitlines()) == 1
