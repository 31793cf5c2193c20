"""The processes of a run.

- `job`: one job of the command line, from its folder to its failure.
- `processes`: where ranks come from; `agent`: starts and supervises those of this node; `rank`: one of them.
- `round`: how a set of ranks has ended.
- `nodes`: one run on several nodes; `rendezvous`: where their agents meet; `agreement`: the run folder they agree on.
- `leftovers`: files of killed processes.
- `resume`: the run that a command resumes; `requeue`: a preempted job back into the queue.
- `torchrun`: what ranks of torchrun agree on; `hub`: the Hugging Face hub without a network.
"""
