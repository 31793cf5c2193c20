"""How a rendezvous (torch 2.10 to 2.15) names the events that it records.

It finds the method that records an event by `inspect.stack()`, even if nobody reads events. This searches the sources
of every module: 1 CPU second until two ranks start, and 0.1 CPU seconds at each heartbeat of an agent.
"""

import sys

from torch.distributed.elastic.rendezvous import dynamic_rendezvous


def name_events_by_frames() -> None:
    """Names events by the frame of the method, which takes a microsecond."""
    dynamic_rendezvous.get_method_name = lambda depth=2: sys._getframe(depth).f_code.co_name
