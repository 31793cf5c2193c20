"""Small mistakes, seeded into the code of the promises one at a time, to see whether the tests nearest to it notice.

`make mutants` seeds 60. A mutant that no test kills is either a hole in the tests or equivalent, which means that no test
could tell it from the program; those are kept with the reason in `equivalent.toml`. What is seeded where:

- `places.py`: the files of the promises and the tests nearest to each, quickest first
- `candidates.py`: every small mistake that a file has room for, and the choice of some of them by a hash of each
- `running.py`: a copy of the project in which one file is changed, and its tests are run
"""
