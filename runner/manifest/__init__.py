"""Records by digest what made a run, so that it can be verified and made again; imports no torch.

- `digests`: digests of files and folders; `code`: digests of the program, and its git state.
- `record`: `manifest.json` of a run, from its first session to its results; `inputs`: files that it began with.
- `steps`: digests of what a run has computed, step by step; `differences`: how the manifests of two runs differ.
- `verification`: compares a folder with its manifest, and signs an exported model.
"""
