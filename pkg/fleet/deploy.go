package fleet

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Deploy is what the CDK app has to know about the AWS account beyond the
// fleet itself. The functions ignore it.
type Deploy struct {
	StackName            string
	VPCID                string
	SubnetIDs            []string // of the prober
	AvailabilityZones    []string // of the subnets, in their order
	SecurityGroupID      string   // of the prober; empty to make one
	Endpoints            []Service
	Reachable            []Service // without an endpoint of ours
	RouteTableIDs        []string  // of the subnets; empty without a DynamoDB endpoint
	DynamoDBPrefixListID string    // empty if the security group need not know it
	KMSKeys              []string  // ARNs of the customer managed keys that secrets are encrypted with
	Architecture         Architecture
	Schedule             bool // false leaves the schedules disabled
	Shards               int  // schedules, each for a part of the servers
	ReserveConcurrency   bool
	LogRetentionDays     int
	AlarmTopic           string // ARN; at most one of it and AlarmEmail is set
	AlarmEmail           string
	RetainTables         bool // keep the tables, and protect them from deletion
}

// Service is an AWS service that the prober calls from inside the VPC.
type Service string

// The services that the prober calls. Its logs take another way.
const (
	DynamoDB       Service = "dynamodb"
	SecretsManager Service = "secretsmanager"
	SSM            Service = "ssm"
)

// Architecture is an instruction set, in Lambda's words.
type Architecture string

// The architectures of Lambda.
const (
	ARM64 Architecture = "arm64"
	X8664 Architecture = "x86_64"
)

func services() []Service           { return []Service{DynamoDB, SecretsManager, SSM} }
func architectures() []Architecture { return []Architecture{ARM64, X8664} }

// retentions are the days that CloudWatch Logs takes.
func retentions() []int {
	return []int{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653}
}

const maxShards = 20

// The syntax of AWS identifiers in the section deploy. A stack's name leaves
// room for what its functions' names, 64 characters at most, append.
var (
	stackNamePattern     = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,49}$`)
	vpcPattern           = regexp.MustCompile(`^vpc-[0-9a-f]{8,17}$`)
	subnetPattern        = regexp.MustCompile(`^subnet-[0-9a-f]{8,17}$`)
	zonePattern          = regexp.MustCompile(`^[a-z]{2}(-[a-z0-9]+)+[a-z]$`)
	routeTablePattern    = regexp.MustCompile(`^rtb-[0-9a-f]{8,17}$`)
	securityGroupPattern = regexp.MustCompile(`^sg-[0-9a-f]{8,17}$`)
	prefixListPattern    = regexp.MustCompile(`^pl-[0-9a-f]{8,17}$`)
	keyPattern           = regexp.MustCompile(`^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+$`)
	topicPattern         = regexp.MustCompile(`^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]+$`)
	emailPattern         = regexp.MustCompile(`^[^@\s]+@[^@\s]+$`)
)

// deploy resolves the section deploy of a fleet whose groups are resolved; nil
// if there is none.
func (r *resolver) deploy(fleet *Fleet) *Deploy {
	form := r.file.Deploy
	if form == nil || r.bad[r.at("deploy")] {
		return nil
	}
	at := r.under("deploy")
	checkSyntax(r.report, at("stack_name"), form.StackName, stackNamePattern, "is not a stack name: use a letter and up to 49 letters, digits and hyphens")
	checkSyntax(r.report, at("vpc_id"), &form.VPCID, vpcPattern, "is not a VPC id (vpc-...)")
	r.checkList(at("subnet_ids"), form.SubnetIDs, subnetPattern, "is not a subnet id (subnet-...)")
	r.checkFilled(at("subnet_ids"), len(form.SubnetIDs), "subnet")
	r.checkZones(form, at)
	checkSyntax(r.report, at("security_group_id"), form.SecurityGroupID, securityGroupPattern, "is not a security group id (sg-...)")
	r.checkServices(fleet, form, at)
	r.checkList(at("kms_keys"), form.KMSKeys, keyPattern, "is not the ARN of a KMS key")
	checkWord(r.report, at("architecture"), form.Architecture, architectures())
	r.checkInt(at("shards"), form.Shards, maxShards)
	if days := form.LogRetentionDays; days != nil && !slices.Contains(retentions(), *days) {
		r.fail(at("log_retention_days"), "must be one of %s, not %d", strings.Trim(fmt.Sprint(retentions()), "[]"), *days)
	}
	checkSyntax(r.report, at("alarm_topic"), form.AlarmTopic, topicPattern, "is not the ARN of an SNS topic")
	checkSyntax(r.report, at("alarm_email"), form.AlarmEmail, emailPattern, "is not an email address")
	if form.AlarmTopic != nil && form.AlarmEmail != nil {
		r.fail(at("alarm_email"), "goes with a topic of its own: give either alarm_topic or alarm_email")
	}
	r.checkHome(fleet, form, at)
	r.checkDeployableCredentials(fleet)
	return &Deploy{
		StackName:            firstOr(defaultStackName, form.StackName),
		VPCID:                form.VPCID,
		SubnetIDs:            form.SubnetIDs,
		AvailabilityZones:    form.AvailabilityZones,
		SecurityGroupID:      firstOr("", form.SecurityGroupID),
		Endpoints:            form.Endpoints,
		Reachable:            form.Reachable,
		RouteTableIDs:        form.RouteTableIDs,
		DynamoDBPrefixListID: firstOr("", form.DynamoDBPrefixListID),
		KMSKeys:              form.KMSKeys,
		Architecture:         firstOr(defaultArchitecture, form.Architecture),
		Schedule:             firstOr(defaultSchedule, form.Schedule),
		Shards:               firstOr(defaultShards, form.Shards),
		ReserveConcurrency:   firstOr(defaultReserveConcurrency, form.ReserveConcurrency),
		LogRetentionDays:     firstOr(defaultLogRetentionDays, form.LogRetentionDays),
		AlarmTopic:           firstOr("", form.AlarmTopic),
		AlarmEmail:           firstOr("", form.AlarmEmail),
		RetainTables:         firstOr(defaultRetainTables, form.RetainTables),
	}
}

// checkSyntax checks an identifier of AWS's, if it is given.
func checkSyntax(r *report, at place, v *string, pattern *regexp.Regexp, complaint string) {
	if v != nil && !r.bad[at] && !pattern.MatchString(*v) {
		r.fail(at, "%s %s", quote(*v), complaint)
	}
}

// checkList checks identifiers of which none may come twice.
func (r *report) checkList(at place, values []string, pattern *regexp.Regexp, complaint string) {
	for i, v := range values {
		at := r.at(fmt.Sprintf("%s[%d]", at.key, i))
		checkSyntax(r, at, &v, pattern, complaint)
		if slices.Contains(values[:i], v) {
			r.fail(at, "%s is listed twice", v)
		}
	}
}

func (r *report) checkZones(form *deployForm, at func(string) place) {
	for i, zone := range form.AvailabilityZones {
		checkSyntax(r, r.at(fmt.Sprintf("deploy.availability_zones[%d]", i)), &zone, zonePattern, "is not an Availability Zone")
	}
	if zones, subnets := len(form.AvailabilityZones), len(form.SubnetIDs); zones != subnets {
		r.fail(at("availability_zones"), "needs the zone of each subnet, in the order of subnet_ids: there are %d subnets and %d zones", subnets, zones)
	}
}

// checkServices checks that the prober reaches every API that it calls: without
// a route it would hang until its time is over.
func (r *resolver) checkServices(fleet *Fleet, form *deployForm, at func(string) place) {
	called := fleet.called()
	for _, l := range []struct {
		at    place
		words []Service
	}{{at("endpoints"), form.Endpoints}, {at("reachable"), form.Reachable}} {
		for i, service := range l.words {
			at := r.at(fmt.Sprintf("%s[%d]", l.at.key, i))
			checkWord(r.report, at, &service, services())
			if slices.Contains(l.words[:i], service) {
				r.fail(at, "%s is listed twice", service)
			}
		}
	}
	for i, service := range form.Endpoints {
		at := r.at(fmt.Sprintf("deploy.endpoints[%d]", i))
		switch {
		case slices.Contains(form.Reachable, service):
			r.fail(at, "%s is in both endpoints and reachable", service)
		case !slices.Contains(called, service):
			r.fail(at, "no server's credentials come from %s: its endpoint would cost money for nothing", service)
		}
	}
	for _, service := range called {
		if !slices.Contains(form.Endpoints, service) && !slices.Contains(form.Reachable, service) {
			r.fail(r.at("deploy"), "the prober has no way to %s: put it under endpoints to create one, or under reachable if the subnets have one", service)
		}
	}

	gateway := slices.Contains(form.Endpoints, DynamoDB)
	r.checkList(at("route_table_ids"), form.RouteTableIDs, routeTablePattern, "is not a route table id (rtb-...)")
	switch given := len(form.RouteTableIDs) > 0; {
	case gateway && !given:
		r.fail(at("route_table_ids"), "is missing: the dynamodb endpoint has to be entered in the route tables of the subnets")
	case !gateway && given:
		r.fail(at("route_table_ids"), "is of use only with dynamodb under endpoints")
	}
	list := form.DynamoDBPrefixListID
	checkSyntax(r.report, at("dynamodb_prefix_list_id"), list, prefixListPattern, "is not a prefix list id (pl-...)")
	switch own := form.SecurityGroupID == nil; {
	case own && gateway && list == nil:
		r.fail(at("dynamodb_prefix_list_id"), "is missing: the security group has to name it; "+
			"aws ec2 describe-managed-prefix-lists --filters Name=prefix-list-name,Values=com.amazonaws.REGION.dynamodb tells it")
	case !own && list != nil:
		r.fail(at("dynamodb_prefix_list_id"), "is of use only without security_group_id")
	}
}

// called lists the services that the prober calls.
func (f *Fleet) called() []Service {
	called := []Service{DynamoDB}
	for _, g := range f.Groups {
		for _, s := range g.Servers {
			c := f.Credentials[s.Credential]
			if c.SecretsManager != "" {
				called = append(called, SecretsManager)
			}
			if c.SSM != "" {
				called = append(called, SSM)
			}
		}
	}
	slices.Sort(called)
	return slices.Compact(called)
}

// checkHome checks that everything is in one account and Region: a stack is,
// and the functions call the APIs of their own.
func (r *resolver) checkHome(fleet *Fleet, form *deployForm, at func(string) place) {
	var home []string
	for i, g := range fleet.Groups {
		for j, tg := range g.TargetGroups {
			if !targetGroupARN.MatchString(tg.ARN) {
				continue
			}
			switch part := strings.SplitN(tg.ARN, ":", 6)[3:5]; {
			case home == nil:
				home = part
			case !slices.Equal(part, home):
				r.fail(r.at(fmt.Sprintf("groups[%d].target_groups[%d].arn", i, j)),
					"is in account %s, %s, and the first target group in account %s, %s: they need a file and a stack each", part[1], part[0], home[1], home[0])
			}
		}
	}
	if home == nil {
		return
	}
	inRegion := func(at place, arn string) {
		if part := strings.SplitN(arn, ":", 5); len(part) == 5 && part[3] != home[0] {
			r.fail(at, "is in %s, and the target groups in %s", part[3], home[0])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fleet.Credentials)) {
		c := fleet.Credentials[name]
		inRegion(r.at(join("credentials", name)+".secrets_manager"), c.SecretsManager)
		inRegion(r.at(join("credentials", name)+".ssm"), c.SSM)
	}
	for i, key := range form.KMSKeys {
		inRegion(r.at(fmt.Sprintf("deploy.kms_keys[%d]", i)), key)
	}
	inRegion(at("alarm_topic"), firstOr("", form.AlarmTopic))
	for i, zone := range form.AvailabilityZones {
		if at := r.at(fmt.Sprintf("deploy.availability_zones[%d]", i)); !r.bad[at] && !strings.HasPrefix(zone, home[0]) {
			r.fail(at, "%s is not in %s, where the target groups are", zone, home[0])
		}
	}
}

// checkDeployableCredentials refuses what works on a laptop alone.
func (r *resolver) checkDeployableCredentials(fleet *Fleet) {
	for _, g := range fleet.Groups {
		for _, s := range g.Servers {
			if fleet.Credentials[s.Credential].Env != "" {
				r.fail(r.at(join("credentials", s.Credential)+".env"), "cannot be deployed, the functions have no such variables: use secrets_manager or ssm")
			}
		}
	}
}
