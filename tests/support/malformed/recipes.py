"""Recipes in files of YAML that are damaged, would fill the memory, or could run code."""

from pathlib import Path

HEAD = "# @package _global_\n"

RECIPES: dict[str, bytes] = {
    "tab": b"# @package _global_\nseed:\t1\n\toptimizer: 1\n",
    "double": b"# @package _global_\nseed: 1\nseed: 2\n",
    "merge": b"# @package _global_\nx: &a 5\noptimizer:\n  <<: *a\n",
    "cut": b"# @package _global_\nseed: [1\n",
    "latin": b"# @package _global_\nname: caf\xe9\n",
    "nul": b"# @package _global_\nseed: \x00\n",
    "list": b"- 1\n- 2\n",
    "scalar": b"just text\n",
    "nullkey": b"# @package _global_\nnull: 1\n",
    "python": b"# @package _global_\nseed: !!python/object/apply:os.system ['touch pwned']\n",
    "tag": b"# @package _global_\nseed: !mine 5\n",
    "cycle": b"# @package _global_\na: &a\n  b: *a\n",
    "utf16": "# @package _global_\nseed: 1\n".encode("utf-16"),
    "alias": b"# @package _global_\nseed: *nope\n",
    "docs": b"# @package _global_\nseed: 1\n---\nseed: 2\n",
    "bomb": f"{HEAD}a: &a [x,x,x,x,x,x,x,x,x]\n".encode()
    + "".join(
        f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    ).encode(),
    "deep": f"{HEAD}a: {'[' * 100_000}{']' * 100_000}\n".encode(),
    "deepmap": (HEAD + "".join(f"{' ' * level}a:\n" for level in range(2000))).encode(),
    "big": f"{HEAD}seed: {'9' * 5000}\n".encode(),
    "binary": bytes(range(256)),
}

SAID: dict[str, list[str]] = {
    "tab": ["tab.yaml", "line 3, column 1: no valid"],
    "double": ["double.yaml", "line 3, column 1: no valid"],
    "merge": ["merge.yaml", "line 2, column 4: no valid"],
    "cut": ["cut.yaml", "line 3, column 1: no valid"],
    "latin": ["latin.yaml", "is not UTF-8"],
    "nul": ["nul.yaml", "no valid YAML: unacceptable character #x0000"],
    "list": ["list.yaml", "expected settings with names, as in"],
    "scalar": ["scalar.yaml", "expected settings with names, as in"],
    "nullkey": ["nullkey.yaml", "line 2: a setting without a"],
    "bomb": ["bomb.yaml", "its anchors repeat more"],
    "deep": ["deep.yaml", "line 2: nested more than 64"],
    "deepmap": ["deepmap.yaml", "line 1001: nested more than 64"],
    "python": ["python.yaml", "line 2, column 7: no valid"],
    "tag": ["tag.yaml", "line 2, column 7: no valid"],
    "cycle": ["cycle.yaml", "line 2: an anchor is repeated"],
    "big": ["big.yaml", "line 2: a number of 5,000"],
    "utf16": ["utf16.yaml", "is not UTF-8"],
    "binary": ["binary.yaml", "is not UTF-8"],
    "alias": ["alias.yaml", "line 2, column 7: no valid"],
    "docs": ["docs.yaml", "line 3, column 1: no valid"],
}


def write(folder: Path) -> None:
    """The recipes in a folder for `--config-dir`."""
    (folder / "experiment").mkdir(parents=True)
    for name, content in RECIPES.items():
        (folder / "experiment" / f"{name}.yaml").write_bytes(content)
