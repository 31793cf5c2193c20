"""The processes of a run.

- `job`: one job of the command line, from its folder to its failure.
- `processes`: starts ranks, and sets up libraries for them; `agent`: starts and supervises the ranks of this node;
  `rank`: one rank, and how a set of ranks has ended.
- `nodes`: one run on several nodes; `rendezvous`: where the agents of nodes meet.
- `agreement`: the run folder and the launch that ranks and nodes agree on.
- `resume`: finds the run that a command resumes; `requeue`: puts a preempted or killed job back into the queue.
"""
