package main

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"
	"github.com/google/go-cmp/cmp"

	"radwitness/pkg/fleet"
)

// The CDK for Go runs on Node.js. A laptop without it skips these tests; CI must
// not.
func TestMain(m *testing.M) {
	if _, err := exec.LookPath("node"); err != nil {
		fmt.Println("infra: the CDK needs Node.js:", err)
		if os.Getenv("CI") == "true" {
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	jsii.Close()
	os.Exit(code)
}

const (
	enforcedARN = "arn:aws:elasticloadbalancing:us-east-1:111122223333:targetgroup/radius-auth/0123456789abcdef"
	observedARN = "arn:aws:elasticloadbalancing:us-east-1:111122223333:targetgroup/radius-lab/0123456789abcdef"
	secretARN   = "arn:aws:secretsmanager:us-east-1:111122223333:secret:radius-Ab12Cd"
	keyARN      = "arn:aws:kms:us-east-1:111122223333:key/01234567-89ab-cdef-0123-456789abcdef"
)

// testFleet is a fleet with an enforced group and an observed one.
func testFleet() *fleet.Fleet {
	server := func(name, address, credential string, port uint16) fleet.Server {
		return fleet.Server{Name: name, Address: netip.MustParseAddr(address), Credential: credential, Checks: []fleet.Probe{
			{Row: name, Port: port, Attempts: 3, AttemptTimeout: time.Second},
		}}
	}
	return &fleet.Fleet{
		Version: "0123456789ab",
		Credentials: map[string]fleet.Credential{
			"corp":  {SecretsManager: secretARN},
			"lab":   {SSM: "/radius/lab"},
			"named": {SecretsManager: "radius/named"},
			"spare": {SecretsManager: "nobody-uses-it"},
		},
		Groups: []fleet.Group{
			{
				Name: "vpn-auth", Mode: fleet.Enforce, ReconcileInterval: 30 * time.Second,
				TargetGroups: []fleet.TargetGroup{{ARN: enforcedARN}},
				Servers: []fleet.Server{
					server("ise-1", "10.0.1.10", "corp", 1812),
					server("ise-2", "10.0.2.10", "named", 1812),
					server("ise-3", "2001:db8::10", "corp", 11812),
				},
			},
			{
				Name: "lab", Mode: fleet.Observe, ReconcileInterval: 390 * time.Second,
				TargetGroups: []fleet.TargetGroup{{ARN: observedARN}},
				Servers:      []fleet.Server{server("lab-1", "10.0.1.10", "lab", 1812)},
			},
		},
		Deploy: &fleet.Deploy{
			StackName:            "radwitness",
			VPCID:                "vpc-0123456789abcdef0",
			SubnetIDs:            []string{"subnet-0aaaaaaaaaaaaaaaa", "subnet-0bbbbbbbbbbbbbbbb"},
			AvailabilityZones:    []string{"us-east-1a", "us-east-1b"},
			RouteTableIDs:        []string{"rtb-0aaaaaaaaaaaaaaaa", "rtb-0bbbbbbbbbbbbbbbb"},
			Endpoints:            []fleet.Service{fleet.DynamoDB, fleet.SecretsManager, fleet.SSM},
			DynamoDBPrefixListID: "pl-02cd2c6b",
			KMSKeys:              []string{keyARN},
			Architecture:         fleet.ARM64,
			Schedule:             true,
			Shards:               1,
			ReserveConcurrency:   true,
			LogRetentionDays:     30,
			AlarmEmail:           "noc@example.com",
			RetainTables:         true,
		},
	}
}

// newTestStack builds the stack of a fleet around empty functions.
func newTestStack(t *testing.T, f *fleet.Fleet) (awscdk.App, awscdk.Stack) {
	t.Helper()
	dir := t.TempDir()
	code := bundles{prober: filepath.Join(dir, "prober"), reconciler: filepath.Join(dir, "reconciler")}
	for _, d := range []string{code.prober, code.reconciler} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, "bootstrap"), []byte("test"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	app := awscdk.NewApp(&awscdk.AppProps{
		Outdir:             jsii.String(filepath.Join(dir, "cdk.out")),
		AnalyticsReporting: jsii.Bool(false),
	})
	return app, newStack(app, f, code)
}

// template is a synthesized template whose intrinsic functions are replaced by
// what they stand for, in the notation of Fn::Sub: ${ProbesTable.Arn}.
type template map[string]any

func synthTemplate(t *testing.T, f *fleet.Fleet) template {
	t.Helper()
	_, stack := newTestStack(t, f)
	return plain(*assertions.Template_FromStack(stack, nil).ToJSON()).(map[string]any)
}

// hashed ends the logical id of a CDK resource.
var hashed = regexp.MustCompile(`[0-9A-F]{8}$`)

func plain(v any) any {
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = plain(v[i])
		}
		return list
	case map[string]any:
		if text, ok := intrinsic(v); ok {
			return text
		}
		m := map[string]any{}
		for key, value := range v {
			m[hashed.ReplaceAllString(key, "")] = plain(value)
		}
		return m
	}
	return v
}

func intrinsic(v map[string]any) (string, bool) {
	if len(v) != 1 {
		return "", false
	}
	for function, argument := range v {
		list, _ := argument.([]any)
		switch function {
		case "Ref":
			return "${" + hashed.ReplaceAllString(argument.(string), "") + "}", true
		case "Fn::GetAtt":
			return fmt.Sprintf("${%s.%s}", hashed.ReplaceAllString(list[0].(string), ""), list[1]), true
		case "Fn::Join":
			var text strings.Builder
			for _, part := range list[1].([]any) {
				fmt.Fprint(&text, plain(part))
			}
			return text.String(), true
		case "Fn::Select", "Fn::Split":
			return fmt.Sprintf("%s(%v, %v)", function, list[0], plain(list[1])), true
		}
	}
	return "", false
}

// get returns what is at a path of keys and indices, nil if nothing is.
func (t template) get(path ...string) any {
	var v any = map[string]any(t)
	for _, key := range path {
		switch at := v.(type) {
		case map[string]any:
			v = at[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(at) {
				return nil
			}
			v = at[i]
		default:
			return nil
		}
	}
	return v
}

// ofType returns the properties of the resources of a type, by logical id.
func (t template) ofType(kind string) map[string]template {
	found := map[string]template{}
	for id := range t.get("Resources").(map[string]any) {
		if t.get("Resources", id, "Type") == kind {
			properties, _ := t.get("Resources", id, "Properties").(map[string]any)
			found[id] = properties
		}
	}
	return found
}

// list and object shorten what is expected.
type (
	list   = []any
	object = map[string]any
)

// promise is one thing that the template must say: at a path of a resource,
// from its properties unless it begins with a dot.
type promise struct {
	resource, path string
	want           any
}

func (t template) keep(tb testing.TB, promises []promise) {
	tb.Helper()
	for _, p := range promises {
		path := []string{"Resources", p.resource, "Properties"}
		if attribute, ok := strings.CutPrefix(p.path, "."); ok {
			path = append(path[:2], attribute)
		} else {
			path = append(path, strings.Split(p.path, "/")...)
		}
		if t.get("Resources", p.resource) == nil {
			tb.Errorf("no resource %s", p.resource)
		} else if diff := cmp.Diff(p.want, t.get(path...)); diff != "" {
			tb.Errorf("%s %s (-want +got):\n%s", p.resource, p.path, diff)
		}
	}
}

// What the stack puts into a function's environment, the function must be able
// to start with.
func TestFunctionsKnowTheirVariables(t *testing.T) {
	tmpl := synthTemplate(t, testFleet())
	text, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	for _, function := range []string{"Prober", "Reconciler"} {
		variables, ok := tmpl.get("Resources", function, "Properties", "Environment", "Variables").(object)
		if !ok {
			t.Fatalf("%s has no environment", function)
		}
		var environ []string
		for name := range variables {
			environ = append(environ, name+"=anything")
		}
		if _, err := fleet.Parse(sample, text, environ); err != nil {
			t.Errorf("%s cannot start: %v", function, err)
		}
	}
}

func TestPromises(t *testing.T) {
	tmpl := synthTemplate(t, testFleet())
	for name, promises := range map[string][]promise{
		"prober": {
			{"Prober", "Runtime", "provided.al2023"},
			{"Prober", "Handler", "bootstrap"},
			{"Prober", "Architectures", list{"arm64"}},
			{"Prober", "Timeout", 90.0}, // for probes of three seconds
			{"Prober", "MemorySize", 128.0},
			{"Prober", "ReservedConcurrentExecutions", 3.0},
			{"Prober", "VpcConfig", object{
				"SubnetIds":        list{"subnet-0aaaaaaaaaaaaaaaa", "subnet-0bbbbbbbbbbbbbbbb"},
				"SecurityGroupIds": list{"${ProberSecurity.GroupId}"},
				// One of the servers has an IPv6 address.
				"Ipv6AllowedForDualStack": true,
			}},
			{"Prober", "Role", "${ProberRole.Arn}"},
			{"Prober", "LoggingConfig", object{"LogGroup": "${ProberLogs}"}},
			{"Prober", "Environment/Variables/RADWITNESS_PROBES_TABLE", "${ProbesTable}"},
			{"Prober", "Environment/Variables/RADWITNESS_HEALTH_TABLE", nil},
			{"Prober", "Environment/Variables/RADWITNESS_FLEET_VERSION", "0123456789ab"},
			{"Prober", "Environment/Variables/GOMEMLIMIT", "80MiB"},
			{"ProberLogs", "LogGroupName", "/aws/lambda/radwitness-prober"},
			{"ProberLogs", "RetentionInDays", 30.0},
		},
		"a minute that fails is not repeated": {
			{"ProberAsync", "FunctionName", "${Prober}"},
			{"ProberAsync", "MaximumRetryAttempts", 0.0},
			{"ProberAsync", "MaximumEventAgeInSeconds", 60.0},
			{"ProberAsync", "DestinationConfig/OnFailure/Destination", "${ProberFailures.Arn}"},
		},
		"reconciler, outside the VPC": {
			{"Reconciler", "Runtime", "provided.al2023"},
			{"Reconciler", "Handler", "bootstrap"},
			{"Reconciler", "Architectures", list{"arm64"}},
			{"Reconciler", "Timeout", 60.0},
			{"Reconciler", "MemorySize", 512.0},
			{"Reconciler", "ReservedConcurrentExecutions", 5.0},
			{"Reconciler", "VpcConfig", nil},
			{"Reconciler", "Role", "${ReconcilerRole.Arn}"},
			{"Reconciler", "Environment/Variables", object{
				"RADWITNESS_PROBES_TABLE": "${ProbesTable}", "RADWITNESS_HEALTH_TABLE": "${HealthTable}",
				"RADWITNESS_FLEET_VERSION": "0123456789ab",
				"RADWITNESS_EVENT_BUS":     "default", "RADWITNESS_FAILURE_QUEUE": "${ReconcilerFailures}",
				"GOGC": "400", "GOMEMLIMIT": "320MiB",
			}},
			{"ReconcilerLogs", "RetentionInDays", 30.0},
		},
		"table probes": {
			{"ProbesTable", "KeySchema", list{
				object{"AttributeName": "group", "KeyType": "HASH"}, object{"AttributeName": "server", "KeyType": "RANGE"},
			}},
			{"ProbesTable", "BillingMode", "PAY_PER_REQUEST"},
			{"ProbesTable", "SSESpecification/SSEEnabled", true},
			{"ProbesTable", "PointInTimeRecoverySpecification/PointInTimeRecoveryEnabled", true},
			{"ProbesTable", "DeletionProtectionEnabled", true},
			{"ProbesTable", ".DeletionPolicy", "Retain"},
			{"ProbesTable", ".UpdateReplacePolicy", "Retain"},
			{"ProbesTable", "TimeToLiveSpecification", object{"AttributeName": "expires_at", "Enabled": true}},
			{"ProbesTable", "StreamSpecification/StreamViewType", "NEW_AND_OLD_IMAGES"},
		},
		"table health, without a stream": {
			{"HealthTable", "KeySchema", list{
				object{"AttributeName": "group", "KeyType": "HASH"}, object{"AttributeName": "item", "KeyType": "RANGE"},
			}},
			{"HealthTable", "BillingMode", "PAY_PER_REQUEST"},
			{"HealthTable", "SSESpecification/SSEEnabled", true},
			{"HealthTable", "PointInTimeRecoverySpecification/PointInTimeRecoveryEnabled", true},
			{"HealthTable", "DeletionProtectionEnabled", true},
			{"HealthTable", ".DeletionPolicy", "Retain"},
			{"HealthTable", ".UpdateReplacePolicy", "Retain"},
			{"HealthTable", "TimeToLiveSpecification", object{"AttributeName": "expires_at", "Enabled": true}},
			{"HealthTable", "StreamSpecification", nil},
		},
		"event source mapping": {
			{"ProbesStream", "EventSourceArn", "${ProbesTable.StreamArn}"},
			{"ProbesStream", "FunctionName", "${Reconciler}"},
			{"ProbesStream", "StartingPosition", "LATEST"},
			{"ProbesStream", "BatchSize", 1000.0},
			{"ProbesStream", "MaximumBatchingWindowInSeconds", 0.0},
			{"ProbesStream", "ParallelizationFactor", 1.0},
			{"ProbesStream", "BisectBatchOnFunctionError", true},
			{"ProbesStream", "MaximumRetryAttempts", 5.0},
			{"ProbesStream", "MaximumRecordAgeInSeconds", 300.0},
			{"ProbesStream", "FunctionResponseTypes", list{"ReportBatchItemFailures"}},
			{"ProbesStream", "DestinationConfig/OnFailure/Destination", "${ReconcilerFailures.Arn}"},
		},
		"schedule": {
			{"Schedule0", "ScheduleExpression", "cron(* * * * ? *)"},
			{"Schedule0", "State", "ENABLED"},
			{"Schedule0", "FlexibleTimeWindow/Mode", "OFF"},
			{"Schedule0", "GroupName", "${Schedules}"},
			{"Schedule0", "Target/Arn", "${Prober.Arn}"},
			{"Schedule0", "Target/RoleArn", "${SchedulerRole.Arn}"},
			{"Schedule0", "Target/RetryPolicy", object{"MaximumRetryAttempts": 0.0, "MaximumEventAgeInSeconds": 60.0}},
			{"Schedule0", "Target/DeadLetterConfig/Arn", "${ProberFailures.Arn}"},
			{
				"Schedule0", "Target/Input",
				`{"source":"aws.scheduler","detail-type":"Scheduled Event","time":"<aws.scheduler.scheduled-time>","shard":{"index":0,"count":1}}`,
			},
		},
		"queues": {
			{"ProberFailures", "SqsManagedSseEnabled", true},
			{"ProberFailures", "MessageRetentionPeriod", 1209600.0},
			{"ReconcilerFailures", "SqsManagedSseEnabled", true},
			{"ReconcilerFailures", "MessageRetentionPeriod", 1209600.0},
		},
		"the prober reaches the servers' ports, our endpoints and DynamoDB, nothing else": {
			{"ProberSecurity", "VpcId", "vpc-0123456789abcdef0"},
			{"ProberSecurity", "SecurityGroupIngress", nil},
			{"ProberSecurity", "SecurityGroupEgress", list{
				object{"IpProtocol": "udp", "FromPort": 1812.0, "ToPort": 1812.0, "CidrIp": "10.0.1.10/32", "Description": "RADIUS server"},
				object{"IpProtocol": "udp", "FromPort": 1812.0, "ToPort": 1812.0, "CidrIp": "10.0.2.10/32", "Description": "RADIUS server"},
				object{"IpProtocol": "udp", "FromPort": 11812.0, "ToPort": 11812.0, "CidrIpv6": "2001:db8::10/128", "Description": "RADIUS server"},
				object{"IpProtocol": "tcp", "FromPort": 443.0, "ToPort": 443.0, "DestinationSecurityGroupId": "${SecretsManagerEndpointSecurity.GroupId}", "Description": "our endpoint of secretsmanager"},
				object{"IpProtocol": "tcp", "FromPort": 443.0, "ToPort": 443.0, "DestinationSecurityGroupId": "${SSMEndpointSecurity.GroupId}", "Description": "our endpoint of ssm"},
				object{"IpProtocol": "tcp", "FromPort": 443.0, "ToPort": 443.0, "DestinationPrefixListId": "pl-02cd2c6b", "Description": "DynamoDB"},
			}},
		},
		"a gateway endpoint for DynamoDB, in every route table": {
			{"DynamoDBEndpoint", "VpcEndpointType", "Gateway"},
			{"DynamoDBEndpoint", "RouteTableIds", list{"rtb-0aaaaaaaaaaaaaaaa", "rtb-0bbbbbbbbbbbbbbbb"}},
			{"DynamoDBEndpoint", "PolicyDocument", nil}, // other users of the route tables go on
		},
		"an interface endpoint that only the prober is led to": {
			{"SecretsManagerEndpoint", "VpcEndpointType", "Interface"},
			{"SecretsManagerEndpoint", "PrivateDnsEnabled", false},
			{"SecretsManagerEndpoint", "SecurityGroupIds", list{"${SecretsManagerEndpointSecurity.GroupId}"}},
			{"SecretsManagerEndpointIngress", "GroupId", "${SecretsManagerEndpointSecurity.GroupId}"},
			{"SecretsManagerEndpointIngress", "SourceSecurityGroupId", "${ProberSecurity.GroupId}"},
			{"SecretsManagerEndpointIngress", "FromPort", 443.0},
			{
				"Prober", "Environment/Variables/AWS_ENDPOINT_URL_SECRETS_MANAGER",
				"https://Fn::Select(1, Fn::Split(:, Fn::Select(0, ${SecretsManagerEndpoint.DnsEntries})))",
			},
			{"SSMEndpoint", "PrivateDnsEnabled", false},
			{
				"Prober", "Environment/Variables/AWS_ENDPOINT_URL_SSM",
				"https://Fn::Select(1, Fn::Split(:, Fn::Select(0, ${SSMEndpoint.DnsEntries})))",
			},
		},
	} {
		t.Run(name, func(t *testing.T) { tmpl.keep(t, promises) })
	}
}

func TestOptions(t *testing.T) {
	f := testFleet()
	f.Groups[0].Servers = f.Groups[0].Servers[:2] // IPv4 only
	d := f.Deploy
	d.SecurityGroupID = "sg-0cccccccccccccccc"
	d.Endpoints, d.RouteTableIDs, d.DynamoDBPrefixListID = nil, nil, ""
	d.Reachable = []fleet.Service{fleet.DynamoDB, fleet.SecretsManager, fleet.SSM}
	d.Architecture = fleet.X8664
	d.Schedule = false
	d.Shards = 2
	d.ReserveConcurrency = false
	d.AlarmEmail = ""
	d.AlarmTopic = "arn:aws:sns:us-east-1:111122223333:noc"
	d.RetainTables = false
	tmpl := synthTemplate(t, f)
	tmpl.keep(t, []promise{
		{"Prober", "Architectures", list{"x86_64"}},
		{"Prober", "VpcConfig", object{
			"SubnetIds":        list{"subnet-0aaaaaaaaaaaaaaaa", "subnet-0bbbbbbbbbbbbbbbb"},
			"SecurityGroupIds": list{"sg-0cccccccccccccccc"},
		}},
		{"Prober", "ReservedConcurrentExecutions", nil},
		{"Reconciler", "Architectures", list{"x86_64"}},
		{"Reconciler", "ReservedConcurrentExecutions", nil},
		{"ProbesTable", "DeletionProtectionEnabled", false},
		{"ProbesTable", ".DeletionPolicy", "Delete"},
		{"HealthTable", "DeletionProtectionEnabled", false},
		{"HealthTable", ".DeletionPolicy", "Delete"},
		{"Schedule0", "State", "DISABLED"},
		{"Schedule1", "State", "DISABLED"},
		{"Schedule0", "Target/Input", scheduleInput(shard{Index: 0, Count: 2})},
		{"Schedule1", "Target/Input", scheduleInput(shard{Index: 1, Count: 2})},
		{"FailOpenvpnauth", "AlarmActions", list{"arn:aws:sns:us-east-1:111122223333:noc"}},
		{"FailOpenvpnauth", "ActionsEnabled", true},
		{"NoFreshProbevpnauth", "ActionsEnabled", false},
		{"NoPassvpnauth", "ActionsEnabled", false},
	})
	for _, kind := range []string{"AWS::EC2::SecurityGroup", "AWS::EC2::VPCEndpoint", "AWS::SNS::Topic"} {
		if n := len(tmpl.ofType(kind)); n != 0 {
			t.Errorf("%d of %s, want none", n, kind)
		}
	}
}

func TestEgressToAPIs(t *testing.T) {
	anywhere := object{
		"IpProtocol": "tcp", "FromPort": 443.0, "ToPort": 443.0, "CidrIp": "0.0.0.0/0",
		"Description": "AWS APIs behind a NAT gateway or an existing endpoint",
	}
	prefixList := object{
		"IpProtocol": "tcp", "FromPort": 443.0, "ToPort": 443.0, "DestinationPrefixListId": "pl-02cd2c6b", "Description": "DynamoDB",
	}
	for name, test := range map[string]struct {
		reachable  []fleet.Service
		prefixList string
		want       list
	}{
		"all through NAT":                      {[]fleet.Service{fleet.DynamoDB, fleet.SecretsManager}, "", list{anywhere}},
		"somebody's gateway endpoint and NAT":  {[]fleet.Service{fleet.DynamoDB, fleet.SecretsManager}, "pl-02cd2c6b", list{prefixList, anywhere}},
		"somebody's gateway endpoint, no more": {[]fleet.Service{fleet.DynamoDB}, "pl-02cd2c6b", list{prefixList}},
	} {
		t.Run(name, func(t *testing.T) {
			f := testFleet()
			f.Groups = f.Groups[1:] // one server
			f.Deploy.Endpoints, f.Deploy.RouteTableIDs = nil, nil
			f.Deploy.Reachable, f.Deploy.DynamoDBPrefixListID = test.reachable, test.prefixList
			rules := synthTemplate(t, f).get("Resources", "ProberSecurity", "Properties", "SecurityGroupEgress").([]any)
			if diff := cmp.Diff(test.want, rules[1:]); diff != "" {
				t.Errorf("rules after the server's (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTooManyRules(t *testing.T) {
	f := testFleet()
	for i := range 100 {
		s := f.Groups[0].Servers[0]
		s.Name, s.Address = fmt.Sprintf("server-%d", i), netip.AddrFrom4([4]byte{10, 0, 3, byte(i)})
		f.Groups[0].Servers = append(f.Groups[0].Servers, s)
	}
	_, stack := newTestStack(t, f)
	assertions.Annotations_FromStack(stack).HasWarning(jsii.String("/radwitness/ProberSecurity"),
		assertions.Match_StringLikeRegexp(jsii.String("gets 106 rules, and the quota is 60 ")))
}

func TestOutputs(t *testing.T) {
	want := object{
		"ProbesTableName":        object{"Value": "${ProbesTable}", "Description": "Newest result of every server"},
		"HealthTableName":        object{"Value": "${HealthTable}", "Description": "States, decisions and transitions"},
		"ProberFunctionName":     object{"Value": "${Prober}", "Description": "The prober"},
		"ReconcilerFunctionName": object{"Value": "${Reconciler}", "Description": "The reconciler"},
		"ProbeByHand": object{
			"Value": "aws lambda invoke --region us-east-1 --function-name radwitness-prober --cli-binary-format raw-in-base64-out" +
				` --payload '{"group":"vpn-auth","server":"ise-1"}' /dev/stdout`,
			"Description": "Probes one server now, and records nothing",
		},
	}
	if diff := cmp.Diff(want, synthTemplate(t, testFleet()).get("Outputs")); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
}

// Synthesis must not depend on an account: a lookup would leave a request for
// the CLI in the assembly.
func TestNoLookups(t *testing.T) {
	app, _ := newTestStack(t, testFleet())
	assembly := app.Synth(nil)
	data, err := os.ReadFile(filepath.Join(*assembly.Directory(), "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), `"missing"`) {
		t.Errorf("a lookup in the cloud assembly:\n%s", data)
	}
	if account := *(*assembly.Stacks())[0].Environment().Account; account != "111122223333" {
		t.Errorf("the stack is bound to account %s, want that of the target groups", account)
	}
}
