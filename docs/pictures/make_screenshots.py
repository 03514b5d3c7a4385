"""Screenshots of pages, of the sample cluster in a real Chromium: ``python docs/pictures/make_screenshots.py``."""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from PIL import Image

PICTURES: Final = Path(__file__).parent
CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PAGES: Final = {
    "plan-page": (("plan", "--sample"), 1400, 900),
    "compare-page": (("compare", "--sample", "--top", "5"), 1100, 900),
    "check-page": (("check", "--sample"), 1100, 900),
    "explain-page": (("explain", "--sample", "shop/search"), 1100, 1000),
    "report-page": (("report", "--sample", "--price-per-gb", "0.01USD"), 1100, 1000),
}
"""Command, and width and height of the window."""
COLOURS: Final = 32


def main() -> None:
    assert CHROMIUM is not None, "expected a Chromium"
    with TemporaryDirectory() as name:
        page, picture = Path(name) / "page.html", Path(name) / "page.png"
        for title, (command, width, height) in PAGES.items():
            page.write_bytes(subprocess.check_output([sys.executable, "-m", "zoneward", *command, "-q", "-o", "html"]))
            browser = (CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
            options = (f"--user-data-dir={name}/profile", f"--window-size={width},{height}", f"--screenshot={picture}")
            subprocess.run([*browser, *options, page.as_uri()], check=True, capture_output=True)
            Image.open(picture).convert("RGB").quantize(COLOURS).save(PICTURES / f"{title}.png", optimize=True)


if __name__ == "__main__":
    main()
