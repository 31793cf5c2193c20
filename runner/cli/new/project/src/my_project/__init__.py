"""Experiments with Tiryns: what is added here can be named on the command line as soon as it is installed.

- `options`: what can be chosen, with types, defaults and documentation; `components`: what the options build.
- `conf`: options and recipes as YAML.
"""
