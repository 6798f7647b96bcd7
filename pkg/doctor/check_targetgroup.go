package doctor

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"radwitness/pkg/fleet"
)

// Pages of the Network Load Balancer guide.
const (
	guide            = "https://docs.aws.amazon.com/elasticloadbalancing/latest/network/"
	pageTargetGroups = guide + "load-balancer-target-groups.html"
	pageAttributes   = guide + "edit-target-group-attributes.html"
	pageChecks       = guide + "target-group-health-checks.html"
	pageListeners    = guide + "load-balancer-listeners.html"
	pageBalancers    = guide + "network-load-balancers.html"
	pageRegister     = guide + "target-group-register-targets.html"
	pageHealth       = guide + "modify-target-group-health-settings.html"
)

// modify is how an attribute of a target group is set.
const modify = "aws elbv2 modify-target-group-attributes --target-group-arn {ARN} --attributes "

// The attributes of a target group that matter (ELBv2 API, TargetGroupAttribute).
const (
	attributeDelay       = "deregistration_delay.timeout_seconds"
	attributeTermination = "deregistration_delay.connection_termination.enabled"
	attributeSticky      = "stickiness.enabled"
	attributeClientIP    = "preserve_client_ip.enabled"
	attributeProxy       = "proxy_protocol_v2.enabled"
	attributeCrossZone   = "load_balancing.cross_zone.enabled"
	attributeFailover    = "target_group_health.dns_failover.minimum_healthy_targets.count"
)

// The bounds of a deregistration delay with connection termination, in seconds:
// what AWS advises at least, and its default.
const (
	minDelay = 120
	maxDelay = 300
)

// accountingPorts are those of RFC 2866 section 3 and of the time before it.
func accountingPorts() []int32 { return []int32{1813, 1646} }

// radiusPorts are the ports of listeners that serve RADIUS.
func radiusPorts() []int32 { return append([]int32{1812, 1645}, accountingPorts()...) }

func udp(p elbv2types.ProtocolEnum) bool {
	return p == elbv2types.ProtocolEnumUdp || p == elbv2types.ProtocolEnumTcpUdp
}

func targetGroupChecks() []Check {
	return []Check{
		{
			Name:   "target-group",
			Looks:  "The target group is there.",
			Why:    "A pass over it fails; nobody keeps it equal to the servers that authenticate.",
			Mend:   "Correct target_groups in fleet.yaml, or choose the account and Region that it is in: aws elbv2 describe-target-groups",
			Source: pageTargetGroups,
			subjects: func(f *Facts) []judged {
				var list []judged
				for _, g := range f.Groups {
					for _, t := range g.TargetGroups {
						switch {
						case t.Missing:
							list = append(list, judged{subjectOfTargetGroup(t), []verdict{fail("is not there: %s", t.Config.ARN)}})
						case t.Described != nil:
							list = append(list, judged{subjectOfTargetGroup(t), []verdict{ok("is there")}})
						}
					}
				}
				return list
			},
		},
		{
			Name:     "protocol",
			Looks:    "The target group's protocol is UDP or TCP_UDP.",
			Why:      "RADIUS runs over UDP (RFC 2865 section 2.4): not one datagram arrives.",
			Mend:     "The protocol of a target group is fixed. Make a new one with protocol UDP and name it in fleet.yaml",
			Source:   pageTargetGroups,
			subjects: ofTargetGroups(checkProtocol),
		},
		{
			Name:     "target-type",
			Looks:    "The target group takes instances or addresses.",
			Why:      "Targets of type alb or lambda are no RADIUS servers.",
			Mend:     "The type of a target group is fixed. Make a new one of type ip or instance and name it in fleet.yaml",
			Source:   pageTargetGroups,
			subjects: ofTargetGroups(checkTargetType),
		},
		{
			Name:     "port",
			Looks:    "The port that the load balancer sends to is one that the group's servers are probed on.",
			Why:      "A server would be judged by one daemon, and users sent to another. An accounting port beside a probed one is fine.",
			Mend:     "Give the target group in fleet.yaml its port (port: N), or probe the port that it serves (probe.port, or a check of its own)",
			Source:   "https://datatracker.ietf.org/doc/html/rfc2865#section-3",
			subjects: ofTargetGroups(checkPort),
		},
		{
			Name:  "listener",
			Looks: "A listener of a Network Load Balancer that is active forwards UDP to the target group.",
			Why:   "Without one the target group gets no traffic, and its targets no health checks.",
			Mend: "aws elbv2 create-listener --load-balancer-arn {LOAD_BALANCER} --protocol UDP --port 1812 --default-actions " +
				"Type=forward,TargetGroupArn={ARN}",
			Source:   pageListeners,
			subjects: ofTargetGroups(checkListener),
		},
		{
			Name:  "connection-termination",
			Looks: "Flows to a target end when its deregistration delay is over.",
			Why: "A flow stays with its target while it is not idle for 120 s. A NAS that sends from one port never is, and stays on a " +
				"server that is out for ever.",
			Mend:     modify + "Key=" + attributeTermination + ",Value=true",
			Source:   pageAttributes,
			subjects: ofTargetGroups(checkTermination),
		},
		{
			Name:     "deregistration-delay",
			Looks:    "With connection termination, the delay is 120 to 300 s.",
			Why:      "It is the longest that a busy NAS stays on a server that is out; AWS advises at least 120 s.",
			Mend:     modify + "Key=" + attributeDelay + ",Value=120",
			Source:   pageAttributes,
			subjects: ofTargetGroups(checkDelay),
		},
		{
			Name:  "stickiness",
			Looks: "A group that is probed with EAP has stickiness by source address.",
			Why: "An EAP conversation is many requests to one server (RFC 3579 section 2). A NAS may send them from several ports, and each " +
				"port is a flow of its own.",
			Mend:     modify + "Key=stickiness.enabled,Value=true Key=stickiness.type,Value=source_ip",
			Source:   pageAttributes,
			subjects: ofTargetGroups(checkStickiness),
		},
		{
			Name:  "client-address",
			Looks: "The servers see the addresses of the NAS: client IP preservation on, proxy protocol off.",
			Why: "A RADIUS server knows its clients, and their secrets, by source address (RFC 2865 section 3). A proxy protocol header " +
				"makes datagrams that are not RADIUS.",
			Mend:     modify + "Key=" + attributeClientIP + ",Value=true Key=" + attributeProxy + ",Value=false",
			Source:   pageAttributes,
			subjects: ofTargetGroups(checkClientAddress),
		},
		{
			Name:  "vpc",
			Looks: "The target group is in the prober's VPC.",
			Why:   "A prober elsewhere needs peering or a transit gateway to the servers, and probes another way than users come.",
			Mend: "Set deploy.vpc_id and deploy.subnet_ids in fleet.yaml to the VPC of the target group, or make sure that the prober's " +
				"subnets have a route to every server",
			Source:   pageTargetGroups,
			subjects: vpcSubjects,
		},
	}
}

func checkProtocol(t *TargetGroup) []verdict {
	if p := t.Described.Protocol; !udp(p) {
		return []verdict{fail("protocol is %s", p)}
	}
	return []verdict{ok("protocol is %s", t.Described.Protocol)}
}

func checkTargetType(t *TargetGroup) []verdict {
	switch kind := t.Described.TargetType; kind {
	case elbv2types.TargetTypeEnumIp, elbv2types.TargetTypeEnumInstance:
		return []verdict{ok("type is %s", kind)}
	default:
		return []verdict{fail("type is %s", kind)}
	}
}

func checkPort(t *TargetGroup) []verdict {
	served := cmp.Or(int32(t.Config.Port), aws.ToInt32(t.Described.Port))
	var other []string // servers that are not probed where they are served
	for _, s := range t.Group.Servers {
		if !slices.ContainsFunc(s.Checks, func(p fleet.Probe) bool { return int32(p.Port) == served }) {
			other = append(other, s.Name)
		}
	}
	switch {
	case len(other) == 0:
		return []verdict{ok("port %d is probed", served)}
	case slices.Contains(accountingPorts(), served) && len(t.Group.TargetGroups) > 1:
		return []verdict{ok("accounting port %d, which is not probed on %s", served, strings.Join(other, ", "))}
	}
	return []verdict{fail("users are sent to port %d, which is not probed on %s", served, strings.Join(other, ", "))}
}

func checkListener(t *TargetGroup) []verdict {
	if len(t.LoadBalancers) == 0 {
		return []verdict{fail("no listener forwards to it")}
	}
	var list []verdict
	for _, lb := range t.LoadBalancers {
		name := nameIn(aws.ToString(lb.LoadBalancerArn))
		if lb.Type != "" && lb.Type != elbv2types.LoadBalancerTypeEnumNetwork {
			list = append(list, fail("load balancer %s is of type %s, which does not forward UDP", name, lb.Type).
				by("Make a Network Load Balancer with a UDP listener for this target group"))
			continue
		}
		if lb.State != nil && lb.State.Code != elbv2types.LoadBalancerStateEnumActive {
			list = append(list, fail("load balancer %s is %s", name, because(string(lb.State.Code), aws.ToString(lb.State.Reason))).
				by("aws elbv2 describe-load-balancers --load-balancer-arns "+aws.ToString(lb.LoadBalancerArn)))
		}
		if lb.Listened {
			list = append(list, checkListeners(t, lb, name))
		}
	}
	return list
}

func checkListeners(t *TargetGroup, lb *LoadBalancer, name string) verdict {
	for _, l := range lb.Listeners {
		if slices.ContainsFunc(l.DefaultActions, func(a elbv2types.Action) bool { return slices.Contains(targetsOf(a), t.Config.ARN) }) {
			if !udp(l.Protocol) && udp(t.Described.Protocol) {
				return fail("%s listens on port %d for %s only", name, aws.ToInt32(l.Port), l.Protocol).
					by("aws elbv2 modify-listener --listener-arn " + aws.ToString(l.ListenerArn) + " --protocol UDP")
			}
			return ok("%s listens on port %d, %s", name, aws.ToInt32(l.Port), l.Protocol)
		}
	}
	return fail("no listener of %s forwards to it", name)
}

// told returns an attribute. Where AWS does not tell it, it is empty, and the
// verdict says so.
func (t *TargetGroup) told(key string) (string, []verdict) {
	if t.Attributes == nil {
		return "", nil // a gap says so
	}
	value, ok := t.Attributes[key]
	if !ok {
		return "", []verdict{warn("not checked: AWS does not tell the attribute %s", key).
			by("aws elbv2 describe-target-group-attributes --target-group-arn {ARN} shows what it tells")}
	}
	return value, nil
}

func checkTermination(t *TargetGroup) []verdict {
	value, unknown := t.told(attributeTermination)
	switch value {
	case "":
		return unknown
	case "true":
		return []verdict{ok("on")}
	}
	return []verdict{fail("off: a NAS that sends from one port stays on a server that is out for ever")}
}

func checkDelay(t *TargetGroup) []verdict {
	value, unknown := t.told(attributeDelay)
	if value == "" {
		return unknown
	}
	if t.Attributes[attributeTermination] != "true" {
		return nil // the delay ends nothing
	}
	switch seconds, err := strconv.Atoi(value); {
	case err != nil:
		return []verdict{warn("not checked: %q is no number of seconds", value)}
	case seconds < minDelay:
		return []verdict{warn("%d s: AWS advises at least %d s with connection termination", seconds, minDelay)}
	case seconds > maxDelay:
		return []verdict{warn("%d s: a busy NAS stays on a server that is out for that long", seconds)}
	default:
		return []verdict{ok("%d s", seconds)}
	}
}

// eap lists the EAP methods that a group is probed with.
func eap(g fleet.Group) []string {
	var methods []string
	for _, s := range g.Servers {
		for _, c := range s.Checks {
			if c.Method.UsesTLS() || c.Method == fleet.EAPMD5 {
				methods = append(methods, string(c.Method))
			}
		}
	}
	slices.Sort(methods)
	return slices.Compact(methods)
}

func checkStickiness(t *TargetGroup) []verdict {
	value, unknown := t.told(attributeSticky)
	if value == "" {
		return unknown
	}
	methods := eap(t.Group.Group)
	switch {
	case value == "true":
		return []verdict{ok("on")}
	case len(methods) == 0:
		return []verdict{ok("off, and the group is probed without EAP")}
	}
	return []verdict{warn("off, and the group speaks EAP (%s)", strings.Join(methods, ", "))}
}

func checkClientAddress(t *TargetGroup) []verdict {
	if t.Attributes == nil {
		return nil
	}
	switch {
	case t.Attributes[attributeClientIP] == "false":
		return []verdict{fail("client IP preservation is off: all requests come from the load balancer")}
	case t.Attributes[attributeProxy] == "true":
		return []verdict{fail("proxy protocol is on: what arrives is no RADIUS packet")}
	}
	return []verdict{ok("the servers see the addresses of the NAS")}
}

func vpcSubjects(f *Facts) []judged {
	if f.Fleet.Deploy == nil {
		return nil // nothing says where the prober is
	}
	return ofTargetGroups(func(t *TargetGroup) []verdict {
		if vpc := aws.ToString(t.Described.VpcId); vpc != f.Fleet.Deploy.VPCID {
			return []verdict{warn("the target group is in %s, the prober in %s", vpc, f.Fleet.Deploy.VPCID)}
		}
		return []verdict{ok("%s", f.Fleet.Deploy.VPCID)}
	})(f)
}
