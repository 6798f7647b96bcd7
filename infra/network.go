package main

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/jsii-runtime-go"

	"radwitness/pkg/fleet"
)

// network is the prober's place in the VPC.
type network struct {
	vpc           awsec2.IVpc
	subnets       *awsec2.SubnetSelection
	securityGroup awsec2.ISecurityGroup
	endpoints     []endpoint // interface endpoints of ours
}

const https = 443

// maxRules is the default quota of outbound rules in a security group.
const maxRules = 60

func (s *stack) newNetwork() network {
	d := s.deploy
	n := network{vpc: awsec2.Vpc_FromVpcAttributes(s.scope, jsii.String("Vpc"), &awsec2.VpcAttributes{
		VpcId:             &d.VPCID,
		AvailabilityZones: strs(d.AvailabilityZones),
		PrivateSubnetIds:  strs(d.SubnetIDs),
	})}
	awscdk.Annotations_Of(n.vpc).AcknowledgeWarning(jsii.String("@aws-cdk/aws-ec2:noSubnetRouteTableId"),
		jsii.String("The DynamoDB endpoint is given the route tables; nothing else asks the subnets for them."))
	n.subnets = &awsec2.SubnetSelection{Subnets: n.vpc.PrivateSubnets()}
	for _, service := range d.Endpoints {
		s.newEndpoint(&n, service)
	}
	id := &d.SecurityGroupID
	if *id == "" {
		id = s.newSecurityGroup(n).AttrGroupId()
	} // else its rules are its owner's business
	n.securityGroup = awsec2.SecurityGroup_FromSecurityGroupId(s.scope, jsii.String("ProberSecurityGroup"), id,
		&awsec2.SecurityGroupImportOptions{Mutable: jsii.Bool(false)})
	for _, e := range n.endpoints {
		awsec2.NewCfnSecurityGroupIngress(s.scope, jsii.String(e.id+"Ingress"), &awsec2.CfnSecurityGroupIngressProps{
			GroupId:               e.securityGroup.SecurityGroupId(),
			SourceSecurityGroupId: id,
			IpProtocol:            jsii.String("tcp"), FromPort: jsii.Number(https), ToPort: jsii.Number(https),
			Description: jsii.String("radwitness prober"),
		})
	}
	return n
}

// newSecurityGroup makes the prober's security group: out to the servers'
// RADIUS ports and to the AWS APIs, in from nowhere. Names need no rule: a
// security group does not filter the VPC's resolver.
func (s *stack) newSecurityGroup(n network) awsec2.CfnSecurityGroup {
	var rules []any
	allow := func(protocol string, port float64, rule awsec2.CfnSecurityGroup_EgressProperty) {
		rule.IpProtocol, rule.FromPort, rule.ToPort = &protocol, &port, &port
		rules = append(rules, &rule)
	}
	servers := s.radiusRules()
	for _, r := range servers {
		rule := awsec2.CfnSecurityGroup_EgressProperty{Description: jsii.String("RADIUS server")}
		cidr := jsii.String(netip.PrefixFrom(r.address, r.address.BitLen()).String())
		if r.address.Is6() {
			rule.CidrIpv6 = cidr
		} else {
			rule.CidrIp = cidr
		}
		allow("udp", float64(r.port), rule)
	}
	located := map[fleet.Service]bool{}
	for _, e := range n.endpoints {
		allow("tcp", https, awsec2.CfnSecurityGroup_EgressProperty{
			Description: jsii.String("our endpoint of " + string(e.service)), DestinationSecurityGroupId: e.securityGroup.SecurityGroupId(),
		})
	}
	if list := &s.deploy.DynamoDBPrefixListID; *list != "" {
		located[fleet.DynamoDB] = true
		allow("tcp", https, awsec2.CfnSecurityGroup_EgressProperty{Description: jsii.String("DynamoDB"), DestinationPrefixListId: list})
	}
	if slices.ContainsFunc(s.deploy.Reachable, func(r fleet.Service) bool { return !located[r] }) {
		// What a NAT gateway or somebody else's endpoint leads to has addresses
		// that nobody here knows.
		allow("tcp", https, awsec2.CfnSecurityGroup_EgressProperty{
			Description: jsii.String("AWS APIs behind a NAT gateway or an existing endpoint"), CidrIp: jsii.String("0.0.0.0/0"),
		})
	}
	group := awsec2.NewCfnSecurityGroup(s.scope, jsii.String("ProberSecurity"), &awsec2.CfnSecurityGroupProps{
		GroupDescription:    jsii.String("radwitness prober: RADIUS to the servers, HTTPS to AWS APIs"),
		VpcId:               &s.deploy.VPCID,
		SecurityGroupEgress: &rules,
	})
	if len(rules) > maxRules {
		awscdk.Annotations_Of(group).AddWarningV2(jsii.String("radwitness:security-group-rules"), jsii.String(fmt.Sprintf(
			"the security group gets %d rules, and the quota is %d unless it was raised: see \"Inbound or outbound rules per security group\" in Service Quotas", len(rules), maxRules)), nil)
	}
	return group
}

// radiusRule is one server's RADIUS port. Several servers may share one.
type radiusRule struct {
	address netip.Addr
	port    uint16
}

// radiusRules lists the servers' addresses and ports, each once, in order.
func (s *stack) radiusRules() []radiusRule {
	var rules []radiusRule
	for _, g := range s.fleet.Groups {
		for _, server := range g.Servers {
			for _, check := range server.Checks {
				rules = append(rules, radiusRule{server.Address, check.Port})
			}
		}
	}
	slices.SortFunc(rules, func(a, b radiusRule) int {
		return cmp.Or(a.address.Compare(b.address), cmp.Compare(a.port, b.port))
	})
	return slices.Compact(rules)
}

// endpoint is an interface endpoint of ours.
type endpoint struct {
	id            string
	service       fleet.Service
	securityGroup awsec2.SecurityGroup
	url           *string // where the SDK finds the service
}

// variable is the environment variable that leads the SDK to the endpoint.
func (e endpoint) variable() string {
	if e.service == fleet.SSM {
		return "AWS_ENDPOINT_URL_SSM"
	}
	return "AWS_ENDPOINT_URL_SECRETS_MANAGER"
}

// newEndpoint makes a VPC endpoint for a service that the prober calls.
func (s *stack) newEndpoint(n *network, service fleet.Service) {
	if service == fleet.DynamoDB {
		// A gateway endpoint is free. It serves whatever uses its route tables, so
		// a policy that names only our table would cut others off.
		var tables []any
		for i := range s.deploy.RouteTableIDs {
			tables = append(tables, &s.deploy.RouteTableIDs[i])
		}
		awsec2.NewCfnVPCEndpoint(s.scope, jsii.String("DynamoDBEndpoint"), &awsec2.CfnVPCEndpointProps{
			VpcId:           &s.deploy.VPCID,
			ServiceName:     jsii.String("com.amazonaws." + s.home.region + ".dynamodb"),
			VpcEndpointType: jsii.String("Gateway"),
			RouteTableIds:   &tables,
		})
		return
	}
	e := endpoint{id: "SecretsManagerEndpoint", service: service}
	aws := awsec2.InterfaceVpcEndpointAwsService_SECRETS_MANAGER()
	if service == fleet.SSM {
		e.id, aws = "SSMEndpoint", awsec2.InterfaceVpcEndpointAwsService_SSM()
	}
	e.securityGroup = awsec2.NewSecurityGroup(s.scope, jsii.String(e.id+"Security"), &awsec2.SecurityGroupProps{
		Vpc:              n.vpc,
		Description:      jsii.String("radwitness: HTTPS from the prober to " + string(service)),
		AllowAllOutbound: jsii.Bool(false),
	})
	made := awsec2.NewInterfaceVpcEndpoint(s.scope, &e.id, &awsec2.InterfaceVpcEndpointProps{
		Vpc:            n.vpc,
		Service:        aws,
		Subnets:        n.subnets,
		SecurityGroups: &[]awsec2.ISecurityGroup{e.securityGroup},
		Open:           jsii.Bool(false),
		// Private DNS would lead everybody in the VPC here, and the security group
		// would turn them away. The prober is told the endpoint's own name instead.
		PrivateDnsEnabled: jsii.Bool(false),
	})
	// An entry is HOSTED-ZONE:NAME; the first one is the endpoint's Regional name.
	entry := awscdk.Fn_Select(jsii.Number(0), made.VpcEndpointDnsEntries())
	name := awscdk.Fn_Select(jsii.Number(1), awscdk.Fn_Split(jsii.String(":"), entry, nil))
	e.url = awscdk.Fn_Join(jsii.String(""), &[]*string{jsii.String("https://"), name})
	n.endpoints = append(n.endpoints, e)
}
