"""How a rendezvous (torch 2.10 to 2.15) names the events that it records.

It asks `inspect.stack()` for the method that records one, even where nobody reads events. That looks at the sources of
every module: a CPU second until two ranks start, and a tenth of one at each heartbeat of an agent.
"""

import sys

from torch.distributed.elastic.rendezvous import dynamic_rendezvous


def name_events_by_frames() -> None:
    """Names events by the frame of the method, which takes a microsecond."""
    dynamic_rendezvous.get_method_name = lambda depth=2: sys._getframe(depth).f_code.co_name
