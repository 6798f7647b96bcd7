package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"radwitness/pkg/balancer"
	"radwitness/pkg/fleet"
)

func targetChecks() []Check {
	return []Check{
		{
			Name: "server-target",
			Looks: "Every server has a target: an address that fits the target group, or one instance that runs and has it as its primary " +
				"address.",
			Why: "A server without one is probed, and never gets a user. An instance is served on its primary address, so one that has the " +
				"server's as a secondary address would be served elsewhere.",
			Mend:     "Correct the server's address in fleet.yaml, start its instance (aws ec2 start-instances), or use a target group of type ip",
			Source:   pageRegister,
			subjects: ofTargetGroups(checkServerTargets),
		},
		{
			Name:     "registered",
			Looks:    "A target is registered.",
			Why:      "With an empty target group the load balancer has nowhere to send a request.",
			Mend:     "See in radwitness status why none is; by hand: aws elbv2 register-targets --target-group-arn {ARN} --targets Id=ID",
			Source:   pageChecks,
			subjects: ofTargetGroups(checkRegistered),
		},
		{
			Name:     "unmanaged",
			Looks:    "Every registered target is a server of the fleet.",
			Why:      "Others get their share of the users, and nobody probes them.",
			Mend:     "Add the server to fleet.yaml, set prune: true, or: aws elbv2 deregister-targets --target-group-arn {ARN} --targets Id=ID,Port=PORT",
			Source:   pageRegister,
			subjects: ofTargetGroups(checkUnmanaged),
		},
		{
			Name:     "other-port",
			Looks:    "No server is registered on another port as well.",
			Why:      "A server that is taken out stays in on the other port.",
			Mend:     "aws elbv2 deregister-targets --target-group-arn {ARN} --targets Id=ID,Port=PORT",
			Source:   pageRegister,
			subjects: ofTargetGroups(checkOtherPort),
		},
		{
			Name:     "other-listeners",
			Looks:    "The other RADIUS listeners of the load balancer lead to target groups of the fleet.",
			Why:      "A server that is out of one stays in the other: accounting goes on to a server that is out, or the other way round.",
			Mend:     "Add the target group to target_groups of the group in fleet.yaml",
			Source:   pageListeners,
			subjects: otherListeners,
		},
	}
}

func checkServerTargets(t *TargetGroup) []verdict {
	if t.Plan == nil {
		return nil
	}
	var list []verdict
	for _, r := range t.Plan.Refused {
		v := fail("%s: %s", r.Server, r.Reason)
		if s, ok := t.Group.Server(r.Server); ok && s.Admin == fleet.AdminOut {
			v.level = Warn // it is out on purpose
		}
		list = append(list, v)
	}
	dead := []elbv2types.TargetHealthReasonEnum{elbv2types.TargetHealthReasonEnumInvalidState, elbv2types.TargetHealthReasonEnumIpUnusable}
	for _, l := range t.Plan.Observed {
		if l.Server != "" && l.State == elbv2types.TargetHealthStateEnumUnused && slices.Contains(dead, l.Reason) {
			list = append(list, fail("%s: %v is registered and cannot serve: %s", l.Server, l.Target, l.Reason))
		}
	}
	if list == nil {
		list = append(list, ok("every server has one"))
	}
	return list
}

func checkRegistered(t *TargetGroup) []verdict {
	if t.Plan == nil {
		return nil
	}
	if registered, _ := t.healthy(); registered == 0 {
		return []verdict{fail("the target group is empty")}
	}
	return []verdict{ok("%d of the group's %d servers", len(t.Plan.Registered), len(t.Group.Servers))}
}

// owned are the ids of the targets that servers own.
func (t *TargetGroup) owned() map[string]string {
	owners := map[string]string{}
	for _, l := range t.Plan.Observed {
		if l.Server != "" {
			owners[l.Target.ID] = l.Server
		}
	}
	for _, c := range t.Plan.Register {
		owners[c.Target.ID] = c.Server
	}
	return owners
}

func checkUnmanaged(t *TargetGroup) []verdict {
	if t.Plan == nil {
		return nil
	}
	owners := t.owned()
	var list []verdict
	for _, target := range t.Plan.Unmanaged {
		if owners[target.ID] != "" {
			continue // other-port says so
		}
		if t.Group.Prune {
			list = append(list, ok("%v is no server's, and will be pruned", target))
			continue
		}
		list = append(list, warn("%v is no server's", target).by(deregister(target)))
	}
	if list == nil {
		list = append(list, ok("all targets are servers of the fleet"))
	}
	return list
}

func checkOtherPort(t *TargetGroup) []verdict {
	if t.Plan == nil {
		return nil
	}
	owners := t.owned()
	var list []verdict
	for _, target := range t.Plan.Unmanaged {
		if server := owners[target.ID]; server != "" {
			list = append(list, fail("%s is registered on port %d as well", server, target.Port).by(deregister(target)))
		}
	}
	if list == nil {
		list = append(list, ok("no server is registered twice"))
	}
	return list
}

func deregister(t balancer.Target) string {
	return fmt.Sprintf("aws elbv2 deregister-targets --target-group-arn {ARN} --targets Id=%s,Port=%d", t.ID, t.Port)
}

// otherListeners looks at the listeners of each load balancer once.
func otherListeners(f *Facts) []judged {
	managed := map[string]bool{}
	for _, g := range f.Fleet.Groups {
		for _, tg := range g.TargetGroups {
			managed[tg.ARN] = true
		}
	}
	var list []judged
	seen := map[*LoadBalancer]bool{}
	for _, g := range f.Groups {
		for _, t := range g.TargetGroups {
			for _, lb := range t.LoadBalancers {
				if seen[lb] || !lb.Listened {
					continue
				}
				seen[lb] = true
				name := "load balancer " + nameIn(aws.ToString(lb.LoadBalancerArn))
				list = append(list, judged{subject{group: g.Name, name: name}, []verdict{checkListenersOf(lb, managed)}})
			}
		}
	}
	return list
}

func checkListenersOf(lb *LoadBalancer, managed map[string]bool) verdict {
	var others []string
	for _, l := range lb.Listeners {
		if !udp(l.Protocol) || !slices.Contains(radiusPorts(), aws.ToInt32(l.Port)) {
			continue
		}
		for _, a := range l.DefaultActions {
			for _, arn := range targetsOf(a) {
				if !managed[arn] {
					others = append(others, fmt.Sprintf("port %d leads to %s", aws.ToInt32(l.Port), nameIn(arn)))
				}
			}
		}
	}
	if others != nil {
		return warn("%s, which no group has", strings.Join(others, ", "))
	}
	return ok("all RADIUS listeners lead to target groups of the fleet")
}

// targetsOf lists the target groups that an action leads to.
func targetsOf(a elbv2types.Action) []string {
	var arns []string
	if a.ForwardConfig != nil {
		for _, tuple := range a.ForwardConfig.TargetGroups {
			arns = append(arns, aws.ToString(tuple.TargetGroupArn))
		}
	}
	if arn := aws.ToString(a.TargetGroupArn); arn != "" && !slices.Contains(arns, arn) {
		arns = append(arns, arn)
	}
	return arns
}
