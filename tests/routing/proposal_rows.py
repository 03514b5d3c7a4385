"""The rows of the proposals' test tables, as identifiers of our own, in the order in which each table has them.

A module that tests a table compares the names of its tests with these: no row is without a test.
"""

from typing import Final

KEP_2433_CONTROLLER: Final = (
    "feature_on_two_zones",
    "feature_off_two_zones",
    "feature_on_one_zone",
    "feature_on_external_policy_local",
    "two_endpoints_three_zones",
    "three_endpoints_three_zones",
    "four_endpoints_three_zones",
    "four_endpoints_two_zones",
    "four_endpoints_all_from_one_zone",
    "four_endpoints_one_zone_with_twice_the_cores",
    "four_hundred_endpoints_slightly_different_cores",
    "node_removal_within_the_threshold",
    "node_removal_across_the_threshold",
    "node_without_cores",
    "endpoint_additions",
    "endpoint_removals",
)
KEP_2433_PROXY: Final = (
    "proxy_feature_on",
    "proxy_external_policy_local",
    "proxy_feature_off",
    "proxy_no_hints_matching",
)
KEP_2433_EVENTS: Final = (
    ("Normal", "TopologyAwareRoutingEnabled", "enabled"),
    ("Normal", "TopologyAwareRoutingDisabled", "configuration_removed"),
    ("Warning", "TopologyAwareRoutingDisabled", "too_few_endpoints"),
    ("Warning", "TopologyAwareRoutingDisabled", "endpoint_without_zone"),
    ("Warning", "TopologyAwareRoutingDisabled", "node_without_cpu"),
    ("Warning", "TopologyAwareRoutingDisabled", "nodes_ready_in_one_zone"),
)
"""Type, reason, and an identifier in place of the message."""

KEP_2004_FIRST: Final = (
    "small_or_large_number_of_nodes",
    "random_or_imbalanced_endpoints",
    "zero_endpoints_in_some_zones",
    "invalid_annotation",
    "invalid_starting_threshold",
    "auto_endpoints_below_starting_threshold_plus_padding",
    "auto_endpoints_above_starting_threshold_plus_padding",
    "increase_to_between_starting_threshold_and_padding",
    "increase_to_above_starting_threshold_plus_padding",
    "decrease_to_between_starting_threshold_and_padding",
    "decrease_to_below_starting_threshold_minus_padding",
    "manually_change_the_annotation_to_another_approach",
    "disabled_to_another_approach_and_back",
)
"""The unit tests of the first version."""
KEP_2004_ONLY_FIRST: Final = ("random_or_imbalanced_endpoints", "disabled_to_another_approach_and_back")
"""Those that the second version no longer has; it has no others."""
