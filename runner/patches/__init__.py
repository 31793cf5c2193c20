"""Every use of a private name of a library and every change to a library, a small file for each subject.

Each file says why it is there, which versions of the library it is for, and the issue or line of the library. Its test
in `tests/patches/` fails as soon as the library makes it needless, so that it is removed. The rest of the program uses
what a library documents: `make check` refuses private names of libraries outside this folder.

- `hydra`, `omegaconf`: configs; `parsers`, `exits`: of Python itself.
- `torch`, `lightning`, `transformers`: training and models.
- `datasets`, `datatrove`, `energon`, `optuna`, `pytorch_optimizer`: one name each.
"""
