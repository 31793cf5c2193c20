"""Energon data sets, tar shards with `.nv-meta`, that are damaged or reach outside."""

import io
import json
import pickle
import shutil
import tarfile
from pathlib import Path

from tests.support.malformed.models import Damage, Evil, cut, gone, text

SHARD = "train-000000.tar"


def members(*names: str, link: str | None = None, pickled: bool = False) -> Damage:
    """A shard of other members, indexed anew; the second file of a sample is a link, or a pickle."""

    def harm(folder: Path) -> None:
        from megatron.energon.flavors.webdataset.prepare import WebdatasetPreparator

        from tiryns.runner.data.energon.prepare import DATASET_YAML

        row = json.dumps({"question": "<image> what?", "answer": "red", "image": ["0.png"]}).encode()
        with tarfile.open(folder / SHARD, "w") as archive:
            for name in names:
                for ending, content in (("json", row), ("0.png", pickle.dumps(Evil()))):
                    member = tarfile.TarInfo(f"{name}.{ending}")
                    if link and ending == "0.png":
                        member.type, member.linkname = tarfile.SYMTYPE, link
                        archive.addfile(member)
                        continue
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
        shutil.rmtree(folder / ".nv-meta")
        WebdatasetPreparator.prepare_dataset(
            folder, [SHARD], split_parts_patterns=[("train", "train-.*")], workers=1
        )
        (folder / ".nv-meta" / "dataset.yaml").write_text(DATASET_YAML)

    return harm


ARCHIVES: dict[str, Damage] = {
    "e_climbs": members("../../pwned", "../x"), "e_absolute": members("/tmp/pwned", "/etc/x"),
    "e_link": members("a", "b", link="/etc/hostname"), "e_pickle": members("a", "b"),
    "e_cut": cut(SHARD, 700), "e_empty": text(SHARD, ""), "e_text": text(SHARD, b"no archive" * 3000),
    "e_gone": gone(SHARD), "e_yaml": text(".nv-meta/dataset.yaml", "a: ["),
    "e_yaml_empty": text(".nv-meta/dataset.yaml", ""), "e_yaml_list": text(".nv-meta/dataset.yaml", "- 1\n"),
    "e_yaml_binary": text(".nv-meta/dataset.yaml", b"\xff\xfe\x00"),
    "e_yaml_gone": gone(".nv-meta/dataset.yaml"),
    "e_yaml_python": text(".nv-meta/dataset.yaml", "!!python/object/apply:os.system ['touch pwned']\n"),
    "e_split_gone": gone(".nv-meta/split.yaml"), "e_split_cut": text(".nv-meta/split.yaml", "a: ["),
    "e_split_list": text(".nv-meta/split.yaml", "- 1\n"),
    "e_split_climbs": text(".nv-meta/split.yaml", "exclude: []\nsplit_parts: {train: ['../outside.tar']}\n"),
    "e_info_cut": text(".nv-meta/.info.json", "{"), "e_info_list": text(".nv-meta/.info.json", "[]"),
    "e_index_text": text(".nv-meta/index.sqlite", "no database"),
    "e_index_gone": gone(".nv-meta/index.sqlite"),
}  # fmt: skip
SAID: dict[str, list[str]] = {
    "e_climbs": ["train-000000.tar/../", "the image '0.png' cannot be decoded: of no known format"],
    "e_absolute": ["train-000000.tar//", "the image '0.png' cannot be decoded: of no known format"],
    "e_link": ["train-000000.tar/", "there is no image '0.png' in the shard"],
    "e_pickle": ["train-000000.tar/", "the image '0.png' cannot be decoded: of no known format"],
    "e_cut": ["e_cut/train-000000.tar', sample", "cannot be read: Unexpected end of tar file"],
    "e_empty": ["e_empty/train-000000.tar', sample", "cannot be read: empty file"],
    "e_text": ["e_text/train-000000.tar', sample", "cannot be read: invalid header"],
    "e_gone": ["e_gone/train-000000.tar', sample", "cannot be read: [Errno 2] No such file"],
    "e_yaml": ["e_yaml/.nv-meta/dataset.yaml' is no readable yaml"],
    "e_yaml_empty": ["e_yaml_empty/.nv-meta/dataset.yaml' is no readable yaml"],
    "e_yaml_list": ["e_yaml_list/.nv-meta/dataset.yaml' describes no data set: it holds [1]"],
    "e_yaml_binary": ["e_yaml_binary/.nv-meta/dataset.yaml'"],
    "e_yaml_gone": ["No such file or directory", "e_yaml_gone/.nv-meta/dataset.yaml"],
    "e_yaml_python": ["e_yaml_python/.nv-meta/dataset.yaml' describes no data set"],
    "e_split_gone": ["e_split_gone' cannot be read", ".nv-meta is missing or damaged"],
    "e_split_cut": ["e_split_cut' cannot be read", ".nv-meta is missing or damaged"],
    "e_split_list": ["e_split_list' cannot be read (Expected WebdatasetSplits"],
    "e_split_climbs": ["e_split_climbs' has no samples in a split 'train'; see its .nv-meta/split.yaml"],
    "e_info_cut": ["e_info_cut' cannot be read (Expecting property name"],
    "e_info_list": ["e_info_list' cannot be read (Expected WebdatasetInfo"],
    "e_index_text": ["the index", "e_index_text/.nv-meta/index.sqlite' is damaged"],
    "e_index_gone": ["there is no index", "e_index_gone/.nv-meta/index.sqlite'"],
}


def write(folder: Path) -> None:
    """A data set of one shard, and a damaged copy for each case."""
    from tests.data.energon.sets import make_set

    good = make_set(folder / "good", count=4, validation=2)
    for name, damage in ARCHIVES.items():
        shutil.copytree(good, folder / name)
        damage(folder / name)
