"""One cluster for all tests that need one; it is ended, and what it left is looked for, when they are done."""

import os
from collections.abc import Iterator

import pytest
from cluster.leftovers import find_leftovers
from cluster.lifecycle import Cluster, own_cluster
from release.image import current_image


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """With the built-in parts, and the project's image on every node."""
    with own_cluster(more_images=[current_image(environment=os.environ)]) as running:
        yield running
    assert find_leftovers() == []
