"""Learning rates.

- `phases`: warm-up, training and cool-down as a closed form of the step.
- `chain`: the schedules and weight decays of the phases of a run, one after the other.
- `schedulers`: applies schedules and weight decays to an optimizer's groups; `plot`: draws a schedule.
"""
