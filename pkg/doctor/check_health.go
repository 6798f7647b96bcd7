package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
)

// trafficPort is the health check port that is the target's own.
const trafficPort = "traffic-port"

// maxInitial is how long a target may take to pass the load balancer's own check.
// AWS's defaults make it 150 s.
const maxInitial = 180 * time.Second

func healthChecks() []Check {
	return []Check{
		{
			Name:  "dns-failover",
			Looks: "A zone leaves the load balancer's DNS name no sooner than the group fails open (fail_open.below).",
			Why: "Fewer healthy targets than this count take the zone out, for all target groups of the load balancer, while the group can " +
				"well be served.",
			Mend:     modify + "Key=" + attributeFailover + ",Value=1",
			Source:   pageHealth,
			subjects: ofTargetGroups(checkFailover),
		},
		{
			Name:  "health-check-port",
			Looks: "The load balancer's own check asks a port that is open on the servers.",
			Why: "It cannot be over UDP. On the traffic port it opens a TCP connection to the RADIUS port, where most daemons do not " +
				"listen: no target ever gets healthy.",
			Mend: "Take a TCP port that is open while the host is up, such as 22: " +
				"aws elbv2 modify-target-group --target-group-arn {ARN} --health-check-protocol TCP --health-check-port 22",
			Source:   pageChecks,
			subjects: ofTargetGroups(checkHealthCheckPort),
		},
		{
			Name:     "health-check-pace",
			Looks:    "A new target can pass the load balancer's own check within 3 minutes.",
			Why:      "That long a server that comes back gets no traffic, after its hold-down.",
			Mend:     "aws elbv2 modify-target-group --target-group-arn {ARN} --health-check-interval-seconds 10 --healthy-threshold-count 2",
			Source:   pageChecks,
			subjects: ofTargetGroups(checkHealthCheckPace),
		},
		{
			Name:  "health-check",
			Looks: "The load balancer's own check passes for every server that authenticates.",
			Why:   "A target that fails it gets no traffic, whatever its RADIUS answers.",
			Mend: "Let the load balancer's health checks through to the server (security group, host firewall), or choose another port: aws " +
				"elbv2 modify-target-group --target-group-arn {ARN} --health-check-port PORT",
			Source:   pageChecks,
			subjects: ofTargetGroups(checkHealth),
		},
	}
}

func checkFailover(t *TargetGroup) []verdict {
	count, err := strconv.Atoi(t.Attributes[attributeFailover])
	if err != nil {
		return nil // off, or not told: then it is the default, 1
	}
	if floor := max(1, t.Group.Below); count > floor {
		return []verdict{warn("a zone leaves DNS with fewer than %d healthy targets, and the group fails open at fewer than %d", count, floor)}
	}
	return []verdict{ok("a zone leaves DNS with fewer than %d healthy targets", count)}
}

// healthy counts the registered targets, and those of them that pass the load
// balancer's own check or have not been checked for long enough.
func (t *TargetGroup) healthy() (registered, well int) {
	for _, l := range t.Plan.Observed {
		if !l.Registered() {
			continue
		}
		registered++
		if l.State != elbv2types.TargetHealthStateEnumUnhealthy && l.State != elbv2types.TargetHealthStateEnumUnhealthyDraining {
			well++
		}
	}
	return registered, well
}

// failsAll reports whether no target passes the load balancer's own check.
func (t *TargetGroup) failsAll() bool {
	if t.Plan == nil {
		return false
	}
	registered, well := t.healthy()
	return registered > 0 && well == 0
}

func checkHealthCheckPort(t *TargetGroup) []verdict {
	if t.Plan == nil {
		return nil
	}
	port := aws.ToString(t.Described.HealthCheckPort)
	what := fmt.Sprintf("%s to port %s", t.Described.HealthCheckProtocol, port)
	if port == trafficPort {
		what = fmt.Sprintf("%s to the port that RADIUS is sent to", t.Described.HealthCheckProtocol)
	}
	registered, _ := t.healthy()
	switch {
	case t.failsAll():
		return []verdict{fail("no target passes it: %s", what)}
	case registered == 0 && port == trafficPort:
		return []verdict{warn("%s, and no target is registered to tell whether one listens there for TCP", what)}
	}
	return []verdict{ok("%s", what)}
}

func checkHealthCheckPace(t *TargetGroup) []verdict {
	interval, threshold := aws.ToInt32(t.Described.HealthCheckIntervalSeconds), aws.ToInt32(t.Described.HealthyThresholdCount)
	takes := time.Duration(interval*threshold) * time.Second
	if takes > maxInitial {
		return []verdict{warn("%d checks, one every %d s: a server that comes back waits %v", threshold, interval, takes)}
	}
	return []verdict{ok("%d checks, one every %d s", threshold, interval)}
}

// up reports whether all checks of a server say that it authenticates.
func (g *Group) up(server string) bool {
	s, known := g.Server(server)
	return known && g.Remembered != nil && !slices.ContainsFunc(s.Checks, func(c fleet.Probe) bool {
		return g.Remembered.States[c.Row].Status != health.Up
	})
}

func checkHealth(t *TargetGroup) []verdict {
	if t.Plan == nil || t.failsAll() {
		return nil // health-check-port says so
	}
	var list []verdict
	for _, l := range t.Plan.Observed {
		bad := l.State == elbv2types.TargetHealthStateEnumUnhealthy || l.State == elbv2types.TargetHealthStateEnumUnhealthyDraining
		if l.Registered() && l.Server != "" && bad && t.Group.up(l.Server) {
			list = append(list, fail("%s authenticates, and the load balancer sends it nothing: %s", l.Server, l.Reason))
		}
	}
	if list == nil {
		list = append(list, ok("no server that authenticates fails it"))
	}
	return list
}
