"""What is patched in torch's rendezvous is still needed, and does what it says."""

import inspect

import pytest
from torch.distributed.elastic.rendezvous import dynamic_rendezvous

from tiryns.runner.patches.torch import meetings


def test_torch_still_names_events_by_the_whole_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    def record() -> str:
        return str(dynamic_rendezvous.get_method_name())

    def meet() -> str:
        return record()

    library = inspect.getsource(dynamic_rendezvous)
    assert "inspect.stack()[depth].function" in library, "meetings.py is not needed any more"
    monkeypatch.setattr(
        dynamic_rendezvous, "get_method_name", lambda depth=2: inspect.stack()[depth].function
    )
    assert meet() == "meet"
    meetings.name_events_by_frames()
    assert meet() == "meet"
