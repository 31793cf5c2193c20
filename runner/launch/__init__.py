"""The processes of a run.

- `job`: one job of the command line, from its folder to its failure.
- `processes`: where ranks come from, and what one sets for libraries; `agent`: starts and supervises those of this node;
  `rank`: one of them, and how a set of them has ended.
- `nodes`: one run on several nodes; `rendezvous`: where the agents of nodes meet.
- `agreement`: the run folder that ranks and nodes agree on, and what ranks of torchrun do.
- `resume`: the run that a command resumes; `requeue`: a preempted job back into the queue.
"""
