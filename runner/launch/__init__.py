"""Where processes come from: ranks of a job, the run that a command continues, requeueing."""
