package balancer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"radwitness/pkg/fleet"
)

const (
	maxFilterValues = 200         // of one filter in DescribeInstances
	locationTTL     = time.Minute // long enough to spare EC2's API, short enough to follow a replaced instance
)

// place is where an instance is looked for. Addresses repeat between VPCs.
type place struct {
	vpc     string
	address netip.Addr
}

// location is what was found there, good until it expires.
type location struct {
	instance string // id, empty if refused
	zone     string
	refused  string
	notReady string
	expires  time.Time
}

// resolve finds the target of each server on the given port; 0 means the port
// of the target group. remembered says that some of it is up to locationTTL
// old; with fresh none is.
func (c *Client) resolve(ctx context.Context, g TargetGroup, port int32, servers []fleet.Server, fresh bool) (list []Resolution, remembered bool, err error) {
	if g.Type == elbv2types.TargetTypeEnumInstance {
		return c.resolveInstances(ctx, g, port, servers, fresh)
	}
	resolutions := make([]Resolution, 0, len(servers))
	for _, s := range servers {
		r := Resolution{Server: s.Name}
		address := s.Address.Unmap()
		switch {
		case g.IPAddressType == elbv2types.TargetGroupIpAddressTypeEnumIpv4 && !address.Is4(),
			g.IPAddressType == elbv2types.TargetGroupIpAddressTypeEnumIpv6 && !address.Is6():
			r.Refused = fmt.Sprintf("%v does not fit the target group, which takes %s addresses", address, g.IPAddressType)
		default:
			r.Target = g.target(address.String(), port)
		}
		resolutions = append(resolutions, r)
	}
	return resolutions, false, nil
}

// resolveInstances finds the instance behind each server's address.
func (c *Client) resolveInstances(ctx context.Context, g TargetGroup, port int32, servers []fleet.Server, fresh bool) (list []Resolution, remembered bool, err error) {
	var addresses []netip.Addr
	for _, s := range servers {
		if address := s.Address.Unmap(); address.Is4() {
			addresses = append(addresses, address)
		}
	}
	found, remembered, err := c.locate(ctx, g.VPCID, addresses, fresh)
	if err != nil {
		return nil, false, fmt.Errorf("resolving targets of %s: %w", g.ARN, err)
	}
	resolutions := make([]Resolution, 0, len(servers))
	for _, s := range servers {
		r := Resolution{Server: s.Name}
		at, looked := found[s.Address.Unmap()]
		switch {
		case !looked:
			r.Refused = fmt.Sprintf("%v is not an IPv4 address, and instance targets are served on those only: use an ip target group", s.Address)
		case at.refused != "":
			r.Refused = at.refused
		default:
			r.Target, r.Zone, r.NotReady = g.target(at.instance, port), at.zone, at.notReady
		}
		resolutions = append(resolutions, r)
	}
	return resolutions, remembered, nil
}

// locate finds the instances that own the addresses. It asks EC2 only for
// addresses that are not in memory, or too old there; with fresh for all.
func (c *Client) locate(ctx context.Context, vpc string, addresses []netip.Addr, fresh bool) (found map[netip.Addr]location, remembered bool, err error) {
	now := c.now()
	found = make(map[netip.Addr]location, len(addresses))
	var missing []netip.Addr
	c.mu.Lock()
	for _, address := range addresses {
		at, known := c.locations[place{vpc, address}]
		if known && !fresh && now.Before(at.expires) {
			found[address] = at
		} else {
			missing = append(missing, address)
		}
	}
	c.mu.Unlock()
	remembered = len(found) > 0
	if len(missing) == 0 {
		return found, remembered, nil
	}
	owners, err := c.owners(ctx, vpc, missing)
	if err != nil {
		return nil, false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.locations == nil {
		c.locations = make(map[place]location)
	}
	for _, address := range missing {
		at := judge(vpc, address, owners[address])
		at.expires = now.Add(locationTTL)
		c.locations[place{vpc, address}] = at
		found[address] = at
	}
	return found, remembered, nil
}

// forget drops what is known of an instance that the load balancer refused:
// another one may have its address by now.
func (c *Client) forget(instance string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p, at := range c.locations {
		if at.instance == instance {
			delete(c.locations, p)
		}
	}
}

// owners lists the instances that have one of the addresses on any of their
// interfaces. Stopped instances are listed too: they keep their addresses and
// stay registered, and must be found to be deregistered. Terminated ones linger
// for an hour while their address may have a new owner, so they are left out.
func (c *Client) owners(ctx context.Context, vpc string, addresses []netip.Addr) (map[netip.Addr][]ec2types.Instance, error) {
	if c.EC2 == nil {
		return nil, errors.New("looking up instances: no EC2 client")
	}
	owners := make(map[netip.Addr][]ec2types.Instance, len(addresses))
	for chunk := range slices.Chunk(addresses, maxFilterValues) {
		values := make([]string, len(chunk))
		for i, address := range chunk {
			values[i] = address.String()
		}
		pages := ec2.NewDescribeInstancesPaginator(c.EC2, &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{
			{Name: aws.String("network-interface.addresses.private-ip-address"), Values: values},
			{Name: aws.String("vpc-id"), Values: []string{vpc}},
			{Name: aws.String("instance-state-name"), Values: []string{
				string(ec2types.InstanceStateNamePending), string(ec2types.InstanceStateNameRunning),
				string(ec2types.InstanceStateNameStopping), string(ec2types.InstanceStateNameStopped),
			}},
		}})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, fmt.Errorf("looking up instances in %s: %w", vpc, err)
			}
			for _, r := range page.Reservations {
				for _, instance := range r.Instances {
					for _, address := range privateAddresses(instance) {
						owners[address] = append(owners[address], instance)
					}
				}
			}
		}
	}
	return owners, nil
}

// privateAddresses lists the IPv4 addresses of all interfaces of an instance.
func privateAddresses(instance ec2types.Instance) []netip.Addr {
	var addresses []netip.Addr
	for _, n := range instance.NetworkInterfaces {
		for _, a := range n.PrivateIpAddresses {
			if address, err := netip.ParseAddr(aws.ToString(a.PrivateIpAddress)); err == nil {
				addresses = append(addresses, address)
			}
		}
	}
	return addresses
}

// judge picks the instance that serves an address. An instance target gets its
// traffic on the primary address of its primary interface, so an instance that
// only has the address besides would be probed here and served there.
func judge(vpc string, address netip.Addr, owners []ec2types.Instance) location {
	if len(owners) > 1 {
		// EC2 answers a little late: the one that runs is the one that was probed.
		running := slices.DeleteFunc(slices.Clone(owners), func(i ec2types.Instance) bool {
			return stateOf(i) != ec2types.InstanceStateNameRunning
		})
		if len(running) > 0 {
			owners = running
		}
	}
	switch len(owners) {
	case 0:
		return location{refused: fmt.Sprintf("no instance in %s has the address %v", vpc, address)}
	case 1:
	default:
		ids := make([]string, len(owners))
		for i, owner := range owners {
			ids[i] = aws.ToString(owner.InstanceId)
		}
		slices.Sort(ids)
		return location{refused: fmt.Sprintf("%v belongs to several instances: %s", address, strings.Join(ids, ", "))}
	}
	id, primary := aws.ToString(owners[0].InstanceId), aws.ToString(owners[0].PrivateIpAddress)
	if primary != address.String() {
		return location{refused: fmt.Sprintf("%v is a secondary address of %s; an instance target is served on its primary address %s: use an ip target group", address, id, primary)}
	}
	at := location{instance: id}
	if owners[0].Placement != nil {
		at.zone = aws.ToString(owners[0].Placement.AvailabilityZone)
	}
	if state := stateOf(owners[0]); state != ec2types.InstanceStateNameRunning {
		at.notReady = fmt.Sprintf("%s is %s, only a running instance can be registered", id, state)
	}
	return at
}

// stateOf returns the state of an instance, in words if EC2 names none.
func stateOf(i ec2types.Instance) ec2types.InstanceStateName {
	if i.State == nil {
		return "in no known state"
	}
	return i.State.Name
}
