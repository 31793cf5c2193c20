"""What differs between two manifests: lengths of phases count as the steps they came to."""

from typing import Any

from tiryns.runner.manifest.differences import differences


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
        assert found.what.startswith("phases ")
