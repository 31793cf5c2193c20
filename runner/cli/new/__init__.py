"""`tiryns new`: a project of one's own, with configs, code and tests.

- `command`: the subcommand; `project/`: the files of a project called `my-project`, whose package is `my_project`.
"""
