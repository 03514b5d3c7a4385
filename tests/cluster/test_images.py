"""Archives of images, as containerd takes them."""

import hashlib
import json
import tarfile
from pathlib import Path

from cluster.images import Image, write_image


def test_an_archive_names_its_layers_by_their_content_and_is_the_same_each_time(tmp_path: Path) -> None:
    program, base = tmp_path / "program", tmp_path / "base.tar"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    with tarfile.open(base, "w") as archive:
        archive.add(program, "bin/sh")
    image = Image(
        ("example/program:1",),
        {"Entrypoint": ["/program"]},
        files={"program": program},
        links={"other": "program"},
        texts={"etc/passwd": "root:x:0:0\n"},
        base=base,
    )
    first, second = tmp_path / "first.tar", tmp_path / "second.tar"
    write_image(image, first)
    program.touch()
    write_image(image, second)
    assert first.read_bytes() == second.read_bytes()
    with tarfile.open(first) as archive:

        def content(name: str) -> bytes:
            file = archive.extractfile(name)
            assert file is not None
            return file.read()

        (manifest,) = json.loads(content("manifest.json"))
        assert manifest["RepoTags"] == ["example/program:1"]
        config = json.loads(content(manifest["Config"]))
        assert manifest["Config"] == hashlib.sha256(content(manifest["Config"])).hexdigest() + ".json"
        digests = ["sha256:" + hashlib.sha256(content(name)).hexdigest() for name in manifest["Layers"]]
        assert config["rootfs"]["diff_ids"] == digests
        assert config["config"]["Entrypoint"] == ["/program"]
    assert digests[0] == "sha256:" + hashlib.sha256(base.read_bytes()).hexdigest()
