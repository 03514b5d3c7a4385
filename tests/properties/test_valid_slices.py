"""What a plan wants written, an API server accepts."""

import msgspec
from hypothesis import given
from tests.clusters import Cluster
from tests.properties.random_clusters import clusters, examples

from zoneward.kube.objects import EndpointSlice
from zoneward.kube.validation import validate_endpoint_slice
from zoneward.report.slice_manifests import slice_document


@examples(100)
@given(clusters())
def test_every_slice_that_is_written_passes_the_api_s_validation(cluster: Cluster) -> None:
    for family in cluster.plan().families:
        for each in (*family.changes.create, *family.changes.update):
            as_printed = msgspec.convert(slice_document(each), EndpointSlice)
            assert validate_endpoint_slice(as_printed) == (), each
