from __future__ import annotations

import numpy as np
import pytest

from phasegraph.errors import InvalidInputError
from phasegraph.priors import superposition


def test_relevance_and_energy_golden() -> None:
    found = superposition([0.8], [3600.0], [0.5], frequency=1.5)
    assert found.relevance[0] == pytest.approx(0.7497001958, abs=5e-11)
    assert found.energy[0] == pytest.approx(1.5221199217, abs=5e-11)


def test_the_collapse_probability_is_the_weighted_mean_whatever_the_energy() -> None:
    for hbar, frequency in ((1.0, 0.0), (0.1, 7.0), (3.0, -2.0)):
        found = superposition([0.8, 0.1], [0.0, 86400.0], [0.5, 1.0], frequency=frequency, hbar=hbar)
        np.testing.assert_allclose(found.probability, found.relevance)


def test_recency_at_the_documents_rate_is_gone_after_a_day_and_the_future_counts_as_now() -> None:
    only = (0.0, 1.0, 0.0)
    found = superposition([0.0] * 3, [86400.0, -86400.0, 0.0], [0.0] * 3, weights=only)
    np.testing.assert_allclose(found.relevance, [np.exp(-6.0), 1.0, 1.0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cosine": [-0.1]}, "cosine"),
        ({"authority": [1.1]}, "authority"),
        ({"age_seconds": [np.nan]}, "age_seconds"),
        ({"age_seconds": [1.0, 2.0]}, "one value per passage"),
        ({"weights": (0.9, 0.9, 0.1)}, "weights"),
        ({"weights": (-0.1, 0.9, 0.1)}, "weights"),
        ({"hbar": 0.0}, "hbar"),
        ({"decay_per_hour": -1.0}, "decay_per_hour"),
    ],
)
def test_values_outside_their_range_are_refused(change: dict, message: str) -> None:
    values = {"cosine": [0.5], "age_seconds": [1.0], "authority": [0.5], **change}
    options = {name: value for name, value in values.items() if name in ("weights", "hbar", "decay_per_hour")}
    with pytest.raises(InvalidInputError, match=message):
        superposition(values["cosine"], values["age_seconds"], values["authority"], **options)
