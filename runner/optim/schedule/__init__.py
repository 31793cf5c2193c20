"""Learning rates.

- `phases`: warm-up, training and cool-down as a closed form of the step.
- `chain`: the schedules and weight decays of the phases of a run, one after the other.
- `schedulers`: both applied to the groups of an optimizer; `plot`: draws a schedule.
"""
