package doctor

import (
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
)

func zoneChecks() []Check {
	crossZone := modify + "Key=" + attributeCrossZone + ",Value=true"
	return []Check{
		{
			Name: "zones",
			Looks: "Every enabled zone of the load balancer has a target, unless cross-zone balancing is on; and every target is in an " +
				"enabled zone.",
			Why: "An empty zone leaves the load balancer's DNS name, for all of its target groups, and a NAS that knows that zone's address " +
				"alone is cut off. A target in a zone that is not enabled gets nothing.",
			Mend:     "Register a server in every zone, or: " + crossZone,
			Source:   pageBalancers,
			subjects: ofTargetGroups(checkZones),
		},
		{
			Name:     "cross-zone",
			Looks:    "Cross-zone balancing is on, or every zone has two servers or more.",
			Why:      "Without it the only server of a zone takes the zone along when it goes out.",
			Mend:     crossZone,
			Source:   pageBalancers,
			subjects: ofTargetGroups(checkCrossZone),
		},
	}
}

// crossZone is whether a target group's traffic crosses zones, of its own or by
// the load balancer; false if nobody tells.
func (t *TargetGroup) crossZone(lb *LoadBalancer) (on, known bool) {
	value := t.Attributes[attributeCrossZone]
	if value == "" || value == "use_load_balancer_configuration" {
		value = lb.Attributes[attributeCrossZone]
	}
	return value == "true", value != ""
}

// perZone counts the registered targets in each enabled zone of a load balancer,
// and lists those elsewhere. False if a target's zone is not known.
func (t *TargetGroup) perZone(lb *LoadBalancer) (counts map[string]int, elsewhere []string, known bool) {
	counts = map[string]int{}
	for _, z := range lb.AvailabilityZones {
		counts[aws.ToString(z.ZoneName)] = 0
	}
	if t.Plan == nil || len(counts) == 0 {
		return counts, nil, false
	}
	known = true
	for _, l := range t.Plan.Observed {
		if !l.Registered() || l.Zone == "all" {
			continue
		}
		_, enabled := counts[l.Zone]
		switch {
		case l.Zone == "":
			known = false
		case enabled:
			counts[l.Zone]++
		default:
			elsewhere = append(elsewhere, l.Target.String()+" in "+l.Zone)
		}
	}
	return counts, elsewhere, known
}

func checkZones(t *TargetGroup) []verdict {
	if t.Plan == nil {
		return nil
	}
	if registered, _ := t.healthy(); registered == 0 {
		return nil // registered says so
	}
	var list []verdict
	for _, lb := range t.LoadBalancers {
		counts, elsewhere, known := t.perZone(lb)
		if len(elsewhere) > 0 {
			list = append(list, fail("not enabled at the load balancer: %s", strings.Join(elsewhere, ", ")).
				by("Enable the zone: aws elbv2 set-subnets --load-balancer-arn "+aws.ToString(lb.LoadBalancerArn)+" --subnets with a subnet of each zone"))
		}
		if !known {
			if on, told := t.crossZone(lb); (!told || !on) && len(counts) > 1 {
				list = append(list, warn("not checked: the zone of a target is not known").
					by("Look at the targets' zones: aws elbv2 describe-target-health --target-group-arn {ARN}"))
			}
			continue
		}
		var empty []string
		for _, zone := range slices.Sorted(maps.Keys(counts)) {
			if counts[zone] == 0 {
				empty = append(empty, zone)
			}
		}
		on, told := t.crossZone(lb)
		switch {
		case len(empty) == 0:
			list = append(list, ok("every zone has a target"))
		case on:
			list = append(list, ok("without a target: %s; cross-zone balancing is on", strings.Join(empty, ", ")))
		case !told:
			list = append(list, warn("without a target: %s; not checked whether cross-zone balancing is on", strings.Join(empty, ", ")))
		default:
			list = append(list, fail("without a target: %s; cross-zone balancing is off", strings.Join(empty, ", ")))
		}
	}
	return list
}

func checkCrossZone(t *TargetGroup) []verdict {
	var list []verdict
	for _, lb := range t.LoadBalancers {
		on, told := t.crossZone(lb)
		counts, _, known := t.perZone(lb)
		var lonely []string
		for _, zone := range slices.Sorted(maps.Keys(counts)) {
			if counts[zone] == 1 {
				lonely = append(lonely, zone)
			}
		}
		switch {
		case on:
			list = append(list, ok("on"))
		case !told || !known || len(counts) < 2: // unknown, or nothing to cross
		case len(lonely) > 0:
			list = append(list, warn("off, with one server in %s", strings.Join(lonely, ", ")))
		default:
			list = append(list, ok("off; no zone hangs on one server"))
		}
	}
	return list
}
