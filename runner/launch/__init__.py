"""The processes of a run.

- `job`: one job of the command line, from its folder to its failure.
- `processes`: the ranks of this node; `leftovers`: what killed ones have left.
- `resume`: the run that a command resumes; `requeue`: a preempted job back into the queue.
- `torchrun`: what ranks of torchrun agree on; `hub`: the Hugging Face hub without a network.
"""
