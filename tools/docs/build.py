"""Build the documentation site: pages, search, Markdown copies and llms.txt.

Run: python tools/docs/build.py [--generator zensical]

The site is written to artifacts/site. `make site` first creates the environment that this command needs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from for_agents import write_markdown
from site_pages import CONFIG, ROOT, assemble, page_paths

ASSEMBLED, SITE = ROOT / "artifacts" / "pages", ROOT / "artifacts" / "site"
SKILL = ROOT / "skills" / "phasegraph" / "SKILL.md"
GENERATORS = {
    # Never with --quiet: MkDocs then counts no warnings, and --strict fails for none.
    "mkdocs": ("-m", "mkdocs", "build", "--strict", "--clean"),
    "zensical": ("-m", "zensical", "build", "--strict", "--clean"),
}
"""Arguments of Python by site generator; docs/contributing/site.md says why the first is the default."""


def main() -> None:
    """Build the site below artifacts/site; exit with an error for a warning of the generator or a missing page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--generator", choices=GENERATORS, default="mkdocs")
    generator = parser.parse_args().generator
    assemble(ASSEMBLED)
    shutil.rmtree(SITE, ignore_errors=True)
    done = subprocess.run(
        [sys.executable, *GENERATORS[generator], "--config-file", str(CONFIG)],
        check=False, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        sys.exit("\n".join(line for line in (done.stdout + done.stderr).splitlines() if "INFO" not in line))
    write_markdown(SITE, SKILL)
    missing = [path for path in page_paths() if not (SITE / path).is_file() or not _shown(path).is_file()]
    if missing:
        sys.exit(f"pages without HTML or without a copy in Markdown: {', '.join(missing)}")
    print(f"{SITE.relative_to(ROOT)}: {len(page_paths())} pages by {generator}")


def _shown(path: str) -> Path:
    """Return the HTML file that the generator writes for a page."""
    page = (SITE / path).with_suffix("")
    return (page.parent if page.name in ("index", "README") else page) / "index.html"


if __name__ == "__main__":
    main()
