package fleet

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"radwitness/pkg/health"
)

// The forms are fleet.yaml as it is written. A nil pointer is a key that is not
// there. Their comments are the descriptions that editors show, by way of
// testdata/fleet.schema.json, so they speak of keys and not of Go.

// The RADIUS servers, how to probe them, and the NLB target groups that they serve.
type fileForm struct {
	// What holds for every group and server that does not say otherwise.
	Defaults defaultsForm `yaml:"defaults"`
	// Where shared secrets and test accounts come from, by a name of your choice. No secret is ever written in this file.
	Credentials map[string]credentialForm `yaml:"credentials"`
	// The groups of servers. Servers of a group serve the same clients and share their fate.
	Groups []groupForm `yaml:"groups" jsonschema:"required,minItems=1"`
	// Where and how the CDK app deploys the functions. Nothing else needs it.
	Deploy *deployForm `yaml:"deploy"`
}

// What holds for every group and server that does not say otherwise.
type defaultsForm struct {
	// How to probe a server.
	Probe probeForm `yaml:"probe"`
	// When a server counts as down, and when it may come back.
	Health healthForm `yaml:"health"`
	// What to do when too few servers are well.
	FailOpen *failOpenForm `yaml:"fail_open"`
}

// How to probe a server. Every key may be set in defaults, in a group and, without the word probe, in a server.
type probeForm struct {
	// The RADIUS transaction to make.
	Method *Method `yaml:"method"`
	// UDP port of the server: 1812 if not given, or 1813 where the method is accounting.
	Port *int `yaml:"port" jsonschema:"minimum=1,maximum=65535"`
	// Time between two probes of a server that is well: 1s to 60s, and a divisor of 60s.
	Interval *duration `yaml:"interval"`
	// Pause after a failed probe before the next one, until the verdict is clear: 100ms up to the interval.
	FastInterval *duration `yaml:"fast_interval"`
	// How long to wait for an answer after each transmission: 10ms to 30s.
	AttemptTimeout *duration `yaml:"attempt_timeout"`
	// How many times a packet is sent before the server counts as silent. All transmissions together must fit into the interval.
	Attempts *int `yaml:"attempts" jsonschema:"minimum=1,maximum=10"`
	// Outcomes that prove the server well. An outcome in neither list changes nothing.
	HealthyOn *[]health.Outcome `yaml:"healthy_on" jsonschema:"minItems=1,uniqueItems=true"`
	// Outcomes that count against the server. An outcome in neither list changes nothing.
	FailureOn *[]health.Outcome `yaml:"failure_on" jsonschema:"uniqueItems=true"`
	// What to ask of Message-Authenticator in answers: auto checks it when present and demands it once seen, required refuses answers without it, off never looks. Requests always carry one.
	MessageAuthenticator *MessageAuthenticator `yaml:"message_authenticator"`
	// NAS-Identifier in the requests, 1 to 253 bytes. Server logs and policies see the probes under this name.
	NASIdentifier *string `yaml:"nas_identifier" jsonschema:"minLength=1,maxLength=253"`
	// Attributes to add to every request, by their names in the dictionary: text, a number, the name of a value, an address, or a list of them. The most specific map counts, whole.
	Attributes *map[string]attributeForm `yaml:"attributes"`
	// PEM file of the CAs that may vouch for the server certificates of the TLS methods, beside this file or below.
	CAFile *string `yaml:"ca_file"`
	// Whether a server certificate that the CAs do not vouch for, or that has expired, is the outcome bad_certificate. Needs ca_file.
	RequireValidCert *bool `yaml:"require_valid_cert"`
}

// One check of a server that has several: a method, or a mapping with the method and any other key of probe.
type checkForm struct {
	probeForm
}

// When a server counts as down, and when it may come back.
type healthForm struct {
	// Failed probes in a row that take a server out.
	FailureThreshold *int `yaml:"failure_threshold" jsonschema:"minimum=1,maximum=100"`
	// How long a server that was down must answer without a failure before it gets traffic again.
	HoldDown *duration `yaml:"hold_down"`
	// Longest hold-down. A server that falls again soon waits twice as long each time, up to this: hold_down to 24h.
	HoldDownMax *duration `yaml:"hold_down_max"`
}

// What to do when too few servers are well. Write off to take bad servers out even if none is left.
type failOpenForm struct {
	// Keep servers in when fewer than this are well: a number of servers, or a percentage (rounded up) of those that are not admin out.
	Below *floor `yaml:"below" jsonschema:"required"`
}

// One source of a shared secret, user name and password. Give exactly one of the keys.
type credentialForm struct {
	// ARN or name of a Secrets Manager secret that holds JSON with shared_secret, username and password.
	SecretsManager *string `yaml:"secrets_manager"`
	// Name or ARN of an SSM SecureString parameter that holds the same JSON.
	SSM *string `yaml:"ssm"`
	// Prefix of environment variables, for a laptop: CORP means CORP_SHARED_SECRET, CORP_USERNAME and CORP_PASSWORD.
	Env *string `yaml:"env"`
}

// Servers that serve the same clients, and their target groups.
type groupForm struct {
	// Name of the group in logs, metrics and tables.
	Name string `yaml:"name" jsonschema:"required"`
	// Whether decisions are carried out: enforce, or observe to decide and record but change nothing.
	Mode *Mode `yaml:"mode"`
	// The NLB target groups that hold these servers. One target group belongs to one group.
	TargetGroups []targetGroupForm `yaml:"target_groups" jsonschema:"required,minItems=1"`
	// Also deregister targets that no server of this group owns. Without it they are left alone and reported.
	Prune bool `yaml:"prune"`
	// Also emit success rate and latency for each server, not only for the group. CloudWatch bills each metric.
	ServerMetrics bool `yaml:"server_metrics"`
	// Name under credentials that servers of this group use.
	Credentials *string `yaml:"credentials"`
	// Longest time between two looks at the target groups, so that changes made by hand heal: 1s to 15m.
	ReconcileInterval *duration `yaml:"reconcile_interval"`
	// How to probe the servers of this group, where it differs from defaults.
	Probe probeForm `yaml:"probe"`
	// Thresholds of this group, where they differ from defaults.
	Health healthForm `yaml:"health"`
	// The fail-open rule of this group, where it differs from defaults.
	FailOpen *failOpenForm `yaml:"fail_open"`
	// The checks of every server of this group, where one is not enough. All must pass.
	Checks *[]checkForm `yaml:"checks" jsonschema:"minItems=1"`
	// The RADIUS servers.
	Servers []serverForm `yaml:"servers" jsonschema:"required,minItems=1"`
}

// An NLB target group that holds the servers of the group.
type targetGroupForm struct {
	// ARN of the target group.
	ARN string `yaml:"arn" jsonschema:"required"`
	// Port to register the targets with, if it is not the target group's own.
	Port *int `yaml:"port" jsonschema:"minimum=1,maximum=65535"`
}

// A RADIUS server. Any key of probe may stand here too, for this server alone.
type serverForm struct {
	// Name of the server in logs, metrics and tables.
	Name string `yaml:"name" jsonschema:"required"`
	// IPv4 or IPv6 address of the server. No host names: a health check must not depend on DNS.
	Address string `yaml:"address" jsonschema:"required"`
	// auto leaves the server to its probes; out keeps it out of service, still probed.
	Admin *Admin `yaml:"admin"`
	// Name under credentials, if it is not the group's.
	Credentials *string `yaml:"credentials"`
	// The checks of this server, where one is not enough: methods, or mappings with a method and other keys of probe. All must pass, and each has a row of its own in table probes. An accounting check here has the port that stands with it, or 1813.
	Checks *[]checkForm `yaml:"checks" jsonschema:"minItems=1"`
	probeForm
}

// Where and how the CDK app deploys the functions. Account and Region are those of the target groups.
type deployForm struct {
	// Name of the CloudFormation stack, and beginning of the names of functions, alarms and dashboard.
	StackName *string `yaml:"stack_name"`
	// VPC of the RADIUS servers, which the prober joins.
	VPCID string `yaml:"vpc_id" jsonschema:"required"`
	// Private subnets for the prober, best in two zones. Each needs a route to every server.
	SubnetIDs []string `yaml:"subnet_ids" jsonschema:"required,minItems=1,uniqueItems=true"`
	// Availability Zones of the subnets, in their order.
	AvailabilityZones []string `yaml:"availability_zones" jsonschema:"required,minItems=1"`
	// Existing security group for the prober. Without it one is made that reaches the servers' ports and the AWS APIs, nothing else.
	SecurityGroupID *string `yaml:"security_group_id"`
	// VPC endpoints to create, of those that the prober calls.
	Endpoints []Service `yaml:"endpoints" jsonschema:"uniqueItems=true"`
	// Services that the subnets reach already, through a NAT gateway or an endpoint that is there.
	Reachable []Service `yaml:"reachable" jsonschema:"uniqueItems=true"`
	// Route tables of the subnets, for the dynamodb endpoint to be entered in.
	RouteTableIDs []string `yaml:"route_table_ids" jsonschema:"uniqueItems=true"`
	// The Region's prefix list com.amazonaws.REGION.dynamodb, to which the prober's security group opens port 443.
	DynamoDBPrefixListID *string `yaml:"dynamodb_prefix_list_id"`
	// ARNs of the customer managed keys that secrets are encrypted with, if any.
	KMSKeys []string `yaml:"kms_keys" jsonschema:"uniqueItems=true"`
	// Instruction set of the functions; make build must be run for the same one.
	Architecture *Architecture `yaml:"architecture"`
	// Whether the prober is invoked every minute. false deploys everything and probes nothing.
	Schedule *bool `yaml:"schedule"`
	// Invocations that share the servers among them. One probes several hundred servers.
	Shards *int `yaml:"shards" jsonschema:"minimum=1,maximum=20"`
	// Whether the functions keep a part of the account's concurrency for themselves. A new account may have too little for that.
	ReserveConcurrency *bool `yaml:"reserve_concurrency"`
	// Days to keep the functions' logs.
	LogRetentionDays *int `yaml:"log_retention_days"`
	// ARN of an SNS topic to tell of alarms.
	AlarmTopic *string `yaml:"alarm_topic"`
	// Email address to tell of alarms, by way of a topic that is made for it. Give this or alarm_topic.
	AlarmEmail *string `yaml:"alarm_email"`
	// Whether the tables outlive the stack and are protected from deletion.
	RetainTables *bool `yaml:"retain_tables"`
}

// overrideForm is what RADWITNESS_ variables can set. The name of a variable
// follows from the keys: RADWITNESS_PROBE_INTERVAL is Probe, then interval.
type overrideForm struct {
	Probe             probeForm    `yaml:"probe"`
	Health            healthForm   `yaml:"health"`
	FailOpen          failOpenForm `yaml:"fail_open"`
	Mode              *Mode        `yaml:"mode"`
	ReconcileInterval *duration    `yaml:"reconcile_interval"`
}

// builtinDefaults are the values of keys that are given nowhere. The port
// follows the method, so it is not among them.
func builtinDefaults() defaultsForm {
	return defaultsForm{
		Probe: probeForm{
			Method:         new(PAP),
			Interval:       new(duration(10 * time.Second)),
			FastInterval:   new(duration(time.Second)),
			AttemptTimeout: new(duration(time.Second)),
			Attempts:       new(3),
			HealthyOn:      &[]health.Outcome{health.Accept},
			FailureOn: &[]health.Outcome{
				health.Reject, health.Challenge, health.Timeout,
				health.Refused, health.BadAuthenticator, health.Malformed, health.BadCertificate,
			},
			MessageAuthenticator: new(MessageAuthenticatorAuto),
			NASIdentifier:        new("radwitness"),
			RequireValidCert:     new(false),
		},
		Health: healthForm{
			FailureThreshold: new(3),
			HoldDown:         new(duration(120 * time.Second)),
			HoldDownMax:      new(duration(15 * time.Minute)),
		},
		FailOpen: &failOpenForm{Below: new(floor{count: 1})},
	}
}

// The values of group and server keys that are given nowhere.
const (
	defaultMode              = Enforce
	defaultReconcileInterval = duration(30 * time.Second)
	defaultAdmin             = AdminAuto
)

// The values of deploy keys that are given nowhere.
const (
	defaultStackName          = "radwitness"
	defaultArchitecture       = ARM64
	defaultSchedule           = true
	defaultShards             = 1
	defaultReserveConcurrency = true
	defaultLogRetentionDays   = 30
	defaultRetainTables       = true
)

// decodeText takes a check that is a method and nothing else.
func (f *checkForm) decodeText(text string) error {
	f.Method = new(Method(text))
	return nil
}

// attributeForm is the values of an attribute, in the order of the file.
type attributeForm []attributeText

// decodeText takes a single value without a list.
func (f *attributeForm) decodeText(text string) error {
	*f = attributeForm{{text}}
	return nil
}

// attributeText is a value as it is written, for the dictionary to type.
type attributeText struct{ text string }

func (a *attributeText) decodeText(text string) error {
	a.text = text
	return nil
}

// duration is a time.Duration that is written with a unit and without idle
// zeros: 15m, not 15m0s.
type duration time.Duration

func (d *duration) decodeText(text string) error {
	if text != "" && strings.Trim(text, "+-.0123456789") == "" {
		return fmt.Errorf("%s has no unit: write %ss, %sms or the like", text, text, text)
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%s is not a duration: write it like 500ms, 10s or 15m", quote(text))
	}
	*d = duration(v)
	return nil
}

// String writes a duration as fleet.yaml does.
func (d duration) String() string {
	text := time.Duration(d).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// floor is the number of servers under which a group fails open: a count, or a
// percentage of the group. The zero floor is off.
type floor struct {
	count, percent int
}

// of returns the floor for a group of n servers.
func (f floor) of(n int) int {
	if f.percent > 0 {
		return max(1, (n*f.percent+99)/100)
	}
	return f.count
}

func (f *floor) decodeText(text string) error {
	if isOff(text) {
		*f = floor{}
		return nil
	}
	digits, isPercent := strings.CutSuffix(text, "%")
	v, err := strconv.Atoi(digits)
	switch {
	case err != nil:
		return fmt.Errorf("%s is neither a number of servers like 1, a percentage like \"50%%\", nor off", quote(text))
	case v < 1:
		return errors.New("must be at least 1; to fail closed, write fail_open: off")
	case isPercent && v > 100:
		return errors.New("cannot be more than 100%")
	case isPercent:
		f.percent = v
	default:
		f.count = v
	}
	return nil
}

// decodeText takes the form without a mapping, fail_open: off.
func (f *failOpenForm) decodeText(text string) error {
	f.Below = new(floor{})
	if !isOff(text) {
		return errors.New("must be {below: N}, {below: \"N%\"} or off")
	}
	return nil
}

// isOff also knows what YAML 1.1 tools make of the word off.
func isOff(text string) bool {
	return strings.EqualFold(text, "off") || strings.EqualFold(text, "false")
}
