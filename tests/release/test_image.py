"""What the image's build takes over from the machine, and what it says where it cannot run."""

from pathlib import Path

import pytest
from release.image import ImageError, build_image, pip_settings


def test_pips_way_to_its_index_is_taken_over_and_nothing_else() -> None:
    lines = [
        "global.index-url='https://file.example/simple'",
        "global.cert='/etc/ssl/one.pem'",
        "global.find-links='/srv/wheels'",
        "install.trusted-host='a.example\\nb.example'",
        "list.format='columns'",
        ":env:.index-url='https://environment.example/simple'",
        ":env:.default-timeout='180'",
        ":env:.constraint='/tmp/constraints.txt'",
    ]
    assert pip_settings(lines) == {
        "index-url": "https://environment.example/simple",
        "cert": "/etc/ssl/one.pem",
        # As pip reads a list: one item a line, each of them indented.
        "trusted-host": "a.example\n    b.example",
        "timeout": "180",
    }
    assert pip_settings([]) == {}


def test_without_its_tools_one_line_says_what_is_missing_and_nothing_is_written(tmp_path: Path) -> None:
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path / "home")}
    with pytest.raises(ImageError, match=r"^the image needs buildah and mmdebstrap \(Debian: apt-get install [^\n]*$"):
        build_image(tmp_path / "image.tar", environment=environment)
    assert list(tmp_path.iterdir()) == []
