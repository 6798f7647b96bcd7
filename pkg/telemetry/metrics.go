package telemetry

// Names of the metrics. Alarms and dashboard are
// made of the same names, so a metric that is renamed here is renamed there.
// The comments say who emits a metric, and its unit. CloudWatch bills each metric
// of each group for the hours in which it has values, so there are few, and those
// that are mostly zero are absent then.
const (
	MetricUp           = "up"               // reconciler, Count: servers in state up
	MetricDown         = "down"             // reconciler, Count: servers in state down
	MetricHeld         = "held"             // reconciler, Count: servers in hold-down
	MetricRegistered   = "registered"       // reconciler, Count: servers that are in their target groups
	MetricFailOpen     = "fail_open"        // reconciler, Count: 1 while the group fails open, else 0
	MetricReconcileLag = "reconcile_lag_ms" // reconciler, Milliseconds: from the newest probe's round to the end of the pass
	MetricChanges      = "changes"          // reconciler, Count: targets registered or deregistered; absent if none was
	MetricErrors       = "errors"           // reconciler, Count: target groups that a pass could not put right; absent if there are none
	MetricSkipped      = "skipped"          // prober, Count: probes not made because the last one still ran; absent if there are none
	MetricSuccessRate  = "success_rate"     // prober, Percent: of the conclusive probes; absent if none was
	MetricLatency      = "latency_ms"       // prober, Milliseconds: mean of the answered probes; absent if none was
	MetricDaysToExpiry = "days_to_expiry"   // prober, None: days until the first of the servers' certificates expires; absent without TLS
)

// The dimensions. Every metric has the group; the server is there only for the
// metrics of single servers, which a fleet has to ask for.
const (
	DimensionGroup  = "Group"
	DimensionServer = "Server"
)
