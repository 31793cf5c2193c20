"""What made a run, by digest, so that it can be verified and made again; imports no torch.

- `digests`: of files and folders; `code`: of the program that runs, and its git state.
- `record`: `manifest.json` of a run, from its first session to its results; `inputs`: weights it began with.
- `steps`: digests of what a run has computed, step by step; `differences`: what two runs were made from.
- `verification`: compares a folder with its manifest, and signs an exported model.
"""
