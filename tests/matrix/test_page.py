"""The page of stores is what its script writes."""

from matrix_knowledge import KNOWLEDGE
from matrix_langchain import LANGCHAIN
from matrix_llamaindex import LLAMAINDEX
from matrix_table import PAGE, page


def test_what_stands_around_the_measured_lines_is_as_the_script_writes_it():
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    # The digests and the date of an older measurement are written by make figures, not by the script.
    stores = (*LANGCHAIN, *LLAMAINDEX)
    written = [line for line in lines if line and not line.startswith(("<!-- ", "*Measured on "))]
    names = {row.store for row in (*stores, *KNOWLEDGE)}
    kept = [one for one in written if one.split(" | ")[0].removeprefix("| ") not in names]
    first, second = [(row.framework, None) for row in stores], [(row.framework, None) for row in KNOWLEDGE]
    frame = page(first, second, first)
    assert kept == [line for line in frame.splitlines() if line]
    assert len(written) - len(kept) == 2 * (len(stores) + len(KNOWLEDGE))


def test_every_row_has_a_name_of_its_own():
    names = [row.name for row in (*LANGCHAIN, *LLAMAINDEX, *KNOWLEDGE)]
    assert len(names) == len(set(names))
