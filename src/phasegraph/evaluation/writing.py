"""Writing results: a reader sees the old file or the new one, never half of it."""

from __future__ import annotations

import os
from pathlib import Path
from stat import S_IMODE

from phasegraph.persistence.document import replace_file


def write_text(path: str | Path, text: str) -> None:
    """Write text in one step; a link is followed, and a device or a pipe simply takes it."""
    file = Path(path).resolve()
    if file.exists() and not file.is_file():
        with Path(path).open("w", encoding="utf-8") as handle:
            handle.write(text)
    else:
        mode = file.stat().st_mode if file.exists() else _new_mode()
        replace_file(file, text.encode("utf-8"))
        file.chmod(S_IMODE(mode))


def _new_mode() -> int:
    """Who may read a new file, as for any other program's."""
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask
