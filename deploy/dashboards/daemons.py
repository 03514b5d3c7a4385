"""The dashboards about the programs themselves: the controller, the proxies, the meters."""

from deploy.dashboards.panels import Board, graph, meters, number, process, quantiles, unzoned, variable
from grafana_foundation_sdk.models import units


def controller() -> Board:
    leads = "and on (cluster, job, instance) zoneward_controller_leader{JOB} == 1"
    failed = "sum by (kind, resource) (rate(zoneward_controller_api_errors_total{JOB}[STEP]))"
    # These counters have no series before the first time.
    no_failure = 'label_replace(0 * sum(zoneward_controller_info{JOB}), "kind", "none", "", "")'
    changed = "sum by (cause) (rate(zoneward_controller_demand_changes_total{JOB}[STEP]))"
    no_change = 'label_replace(0 * sum(zoneward_controller_demand_waiting_services{JOB}), "cause", "none", "", "")'
    return Board(
        "controller",
        "Controller",
        "Whether the controller writes what it should, and in time.",
        (variable("job", "Job", "job", "zoneward_controller_info{CLUSTER}"),),
        {
            "Health": (
                number(
                    "Leaders",
                    "Replicas that write: one in each cluster.",
                    "sum(zoneward_controller_leader{JOB})",
                    red=None,
                ),
                number(
                    "Ready replicas",
                    "Replicas that have listed the cluster.",
                    "sum(zoneward_controller_cache_synced{JOB})",
                    red=None,
                ),
                number(
                    "Silence",
                    "For how long a replica has not received changes of some kind.",
                    "max(zoneward_controller_watch_trouble_seconds{JOB})",
                    red=60,
                    unit=units.Seconds,
                ),
                number(
                    "Oldest change",
                    "How long the oldest change of a Service has waited for the leader to write it.",
                    f"max(zoneward_controller_queue_oldest_seconds{{JOB}} {leads})",
                    red=30,
                    unit=units.Seconds,
                ),
                number(
                    "Contested Services",
                    "Services whose slices the built-in controller writes too.",
                    "max(zoneward_controller_contested_services{JOB})",
                ),
                number(
                    "Unreadable objects",
                    "Objects that are set aside; the log names them.",
                    "max(sum by (cluster, instance) (zoneward_controller_unreadable_objects{JOB}))",
                ),
            ),
            "Writes": (
                graph(
                    "Time to write a change",
                    "From the first change of a Service until all that follows is written. No line while nothing is.",
                    units.Seconds,
                    *quantiles("zoneward_controller_change_to_write_seconds", "JOB"),
                ),
                graph(
                    "Queue",
                    "Services that wait on the leader: for CPU (due), more changes (gathering), or its cache (stale).",
                    units.Short,
                    (f"sum by (state) (zoneward_controller_queue_services{{JOB}} {leads})", "{{state}}"),
                ),
                graph(
                    "Slices written",
                    "EndpointSlices that are created, updated and deleted.",
                    units.CountsPerSecond,
                    ("sum by (operation) (rate(endpoint_slice_controller_changes{JOB}[STEP]))", "{{operation}}"),
                ),
                graph(
                    "Syncs",
                    "By result, with the cause of failures. A cache that is stale does no harm.",
                    units.CountsPerSecond,
                    (
                        "sum by (result, cause) (rate(endpoint_slice_controller_syncs{JOB}[STEP]))",
                        "{{result}} {{cause}}",
                    ),
                ),
                graph(
                    "Failed requests",
                    "Requests to the API server that were refused or not answered, by kind.",
                    units.CountsPerSecond,
                    (f"{failed} or {no_failure}", "{{kind}} {{resource}}"),
                ),
                graph(
                    "Endpoints",
                    "Endpoints in slices, and those with hints by what the hints are made from.",
                    units.Short,
                    (f"sum(endpoint_slice_controller_endpoints_desired{{JOB}} {leads})", "all"),
                    (
                        f"sum by (result) (endpoint_slice_controller_endpoints_with_hints{{JOB}} {leads})",
                        "with hints, {{result}}",
                    ),
                ),
            ),
            "Measured demand": (
                graph(
                    "Services",
                    "By whether measured demand decides, with the reason if not, and those that wait for their change.",
                    units.Short,
                    (f"sum by (reason) (zoneward_controller_demand_services{{JOB}} {leads})", "{{reason}}"),
                    (f"sum(zoneward_controller_demand_waiting_services{{JOB}} {leads})", "wait"),
                ),
                graph(
                    "Changes that moved something",
                    "Demand of Services that changed, because of overload, locality, or old figures (fallback).",
                    units.CountsPerSecond,
                    (f"{changed} or {no_change}", "{{cause}}"),
                ),
                graph(
                    "Age of the figures",
                    "Time since Prometheus answered the controller last. Empty where demand is not measured.",
                    units.Seconds,
                    (f"max(zoneward_controller_demand_figures_age_seconds{{JOB}} {leads})", "age"),
                ),
            ),
            "Processes": process("replicas"),
        },
    )


def proxy() -> Board:
    no_zone = "Nodes without the label topology.kubernetes.io/zone: hints have no effect there."
    return Board(
        "proxy",
        "Proxies",
        "Whether the node proxies keep up with the cluster.",
        (variable("job", "Job", "job", "zoneward_proxy_info{CLUSTER}"),),
        {
            "Health": (
                number("Nodes", "Nodes with a proxy.", "count(zoneward_proxy_info{JOB})", red=None),
                number(
                    "Not begun",
                    "Proxies that have not listed the cluster.",
                    "sum(zoneward_proxy_cache_synced{JOB} == bool 0)",
                ),
                number(
                    "Silent",
                    "Proxies that have not received changes of some kind for a minute.",
                    "sum(zoneward_proxy_watch_trouble_seconds{JOB} > bool 60)",
                ),
                number(
                    "Behind",
                    "Proxies with a change that has waited for the kernel for more than 30 s.",
                    "sum(zoneward_proxy_waiting_seconds{JOB} > bool 30)",
                ),
                number("Without a zone", no_zone, unzoned("zoneward_proxy_info", "JOB")),
                number(
                    "Refused Services",
                    "The most Services that the kernel of one node refuses.",
                    "max(sum by (cluster, instance) (zoneward_proxy_refused_services{JOB}))",
                ),
            ),
            "Programming": (
                graph(
                    "Time to program a change",
                    "From a change in a proxy's cache until the kernel has it, over all nodes.",
                    units.Seconds,
                    *quantiles("zoneward_proxy_sync_seconds", "JOB"),
                ),
                graph(
                    "Time from the change of an endpoint",
                    "Until the kernel has it. The controller, the API server and the clocks are part of it.",
                    units.Seconds,
                    *quantiles("kubeproxy_network_programming_duration_seconds", "JOB"),
                ),
                graph(
                    "Time in the kernel",
                    "How long the kernel takes for a transaction.",
                    units.Seconds,
                    *quantiles("zoneward_proxy_apply_seconds", "JOB"),
                ),
                graph(
                    "Oldest change that waits",
                    "The ten nodes where a change has waited longest for the kernel.",
                    units.Seconds,
                    ("topk(10, zoneward_proxy_waiting_seconds{JOB})", "{{instance}}"),
                ),
                graph(
                    "Repairs and restarts",
                    "Rules that other programs changed, and restarts of the process that programs the kernel.",
                    units.CountsPerSecond,
                    ("sum by (what) (rate(zoneward_proxy_repairs_total{JOB}[STEP]))", "{{what}}"),
                    ("sum(rate(zoneward_proxy_kernel_process_restarts_total{JOB}[STEP]))", "restarts"),
                ),
                graph(
                    "Versions",
                    "Nodes by the version that runs.",
                    units.Short,
                    ("count by (version) (zoneward_proxy_info{JOB})", "{{version}}"),
                ),
            ),
            "Processes": process("proxies"),
        },
    )


def meter() -> Board:
    table_use = "zoneward_meter_conntrack_entries{JOB} / zoneward_meter_conntrack_limit{JOB}"
    return Board(
        "meter",
        "Meters",
        "Whether the meters count all there is.",
        (variable("job", "Job", "job", "zoneward_meter_info{CLUSTER}"),),
        {
            "Health": meters("JOB"),
            "Counting": (
                graph(
                    "Lost messages",
                    "The ten nodes that lose most: connections end faster than their meters can read.",
                    units.CountsPerSecond,
                    ("topk(10, rate(zoneward_meter_lost_messages_total{JOB}[STEP]))", "{{instance}}"),
                ),
                graph(
                    "Series",
                    "Series of the ten meters that have most, as a share of their limit (--max-series).",
                    units.PercentUnit,
                    ("topk(10, zoneward_meter_series{JOB} / zoneward_meter_series_limit{JOB})", "{{instance}}"),
                ),
                graph(
                    "Tables of connections",
                    "The ten fullest. New connections of a node fail when its table is full.",
                    units.PercentUnit,
                    (f"topk(10, {table_use})", "{{instance}}"),
                ),
                graph(
                    "Time to read all connections",
                    "The ten meters that take longest.",
                    units.Seconds,
                    ("topk(10, zoneward_meter_dump_seconds{JOB})", "{{instance}}"),
                ),
                graph(
                    "Silence",
                    "The ten meters that have not received changes of Services for the longest time.",
                    units.Seconds,
                    ("topk(10, zoneward_meter_watch_trouble_seconds{JOB})", "{{instance}}"),
                ),
                graph(
                    "Versions",
                    "Nodes by the version that runs.",
                    units.Short,
                    ("count by (version) (zoneward_meter_info{JOB})", "{{version}}"),
                ),
            ),
            "Processes": process("meters"),
        },
    )
