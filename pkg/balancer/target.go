package balancer

import (
	"cmp"
	"net"
	"net/netip"
	"strconv"

	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
)

// Target is the identity of a target within a target group. One id may be
// registered on several ports; each of them is a target of its own.
type Target struct {
	ID   string `json:"id"`   // an address or an instance id, by the type of the target group
	Port int32  `json:"port"` // always set
}

// String returns "id:port", with brackets around an IPv6 address.
func (t Target) String() string {
	return net.JoinHostPort(t.ID, strconv.Itoa(int(t.Port)))
}

// Compare orders targets by id, then port.
func (t Target) Compare(u Target) int {
	return cmp.Or(cmp.Compare(t.ID, u.ID), cmp.Compare(t.Port, u.Port))
}

// TargetGroup is the part of a target group that never changes
// (ELBv2 API, DescribeTargetGroups).
type TargetGroup struct {
	ARN           string
	Type          elbv2types.TargetTypeEnum // ip or instance
	IPAddressType elbv2types.TargetGroupIpAddressTypeEnum
	Port          int32 // of targets that name none
	Protocol      elbv2types.ProtocolEnum
	VPCID         string
}

// target names a target of the group the one way that makes two names of one
// target equal: with a port, and with an IPv6 address in its canonical form.
func (g TargetGroup) target(id string, port int32) Target {
	if address, err := netip.ParseAddr(id); err == nil {
		id = address.Unmap().String()
	}
	return Target{ID: id, Port: cmp.Or(port, g.Port)}
}

// TargetState is what the load balancer says about a listed target
// (ELBv2 API, TargetHealth).
type TargetState struct {
	State  elbv2types.TargetHealthStateEnum  `json:"state"`
	Reason elbv2types.TargetHealthReasonEnum `json:"reason,omitempty"`
	Zone   string                            `json:"zone,omitempty"` // Availability Zone, as far as it is known: of an instance it is EC2 that names it
}

// Registered reports whether a listed target is registered. One that drains
// has been deregistered already. All others are registered, whatever the load
// balancer's own health check thinks of them.
func (s TargetState) Registered() bool {
	switch s.State {
	case elbv2types.TargetHealthStateEnumDraining:
		return false
	case elbv2types.TargetHealthStateEnumUnused:
		return s.Reason != elbv2types.TargetHealthReasonEnumNotRegistered
	}
	return true
}

// dead reports whether a registered target cannot serve, whatever the probes
// of its server's address find: its instance does not run, or its address is
// not one that can be routed to.
func (s TargetState) dead() bool {
	return s.State == elbv2types.TargetHealthStateEnumUnused &&
		(s.Reason == elbv2types.TargetHealthReasonEnumInvalidState || s.Reason == elbv2types.TargetHealthReasonEnumIpUnusable)
}

// Observation is a target group as it was found.
type Observation struct {
	TargetGroup
	States map[Target]TargetState // of every target that the load balancer lists
}

// Registered reports whether the target is in the group.
func (o Observation) Registered(t Target) bool {
	state, listed := o.States[t]
	return listed && state.Registered()
}
